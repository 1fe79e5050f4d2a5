// Package agent says who is calling: names that are bound to processes. A
// caller has the name of the nearest registered process that it is or descends
// from, as the kernel tells it; there is no secret to steal. Where processes
// cannot be seen, as in a container, a token does. What this holds against, and
// against whom it does not, is in docs/design/agents.md.
package agent
