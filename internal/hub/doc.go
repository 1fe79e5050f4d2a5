// Package hub is the gate's side of a hub: it polls desired state and relayed
// operations, and reports what became of them. A hub is not trusted. What it
// says is a wish, what it relays are bytes that operators signed or did not, and
// nothing that it answers to a report has an effect. docs/design/hub.md says why.
package hub
