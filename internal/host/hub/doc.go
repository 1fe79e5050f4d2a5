// Package hub is the gate's side of a hub. It polls desired state and relayed operations, and reports their results.
// The gate does not trust a hub. A hub's documents are wishes; the operations that it relays are bytes that may or may
// not be signed. Its answers to reports have no effect. docs/design/hub.md says why.
package hub
