"""A second reader of what a gate reads. It follows docs/formats and shares no code with gated."""
