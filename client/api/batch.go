package api

// Batched is the place of one request in a signed batch (docs/formats/batch.md).
type Batched struct {
	Payload string   `json:"payload"` // of the batch: base64 (RFC 4648, section 4) with padding
	Index   int      `json:"index"`   // of the request's leaf, from 0
	Path    []string `json:"path"`    // from the leaf's sibling to the root's child, each in lower-case hex
}
