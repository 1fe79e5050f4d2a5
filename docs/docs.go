// Package docs is the documentation for people who use a gate, as the files beside this one have it. It is part of the
// program gated, because an installed host has no copy of this repository.
package docs

import "embed"

// Pages has concepts.md, threat-model.md and the pages of guides, formats and reference.
//
//go:embed concepts.md threat-model.md guides/*.md formats/*.md reference/*.md
var Pages embed.FS
