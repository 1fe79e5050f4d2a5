// Package agent finds out which agent calls: names are bound to processes. A caller has the name of its nearest
// registered ancestor, or its own. The kernel tells the ancestry, so there is no secret to steal. If processes cannot
// be seen, as in a container, a token names the agent. docs/design/agents.md says which attackers this stops, and which
// not.
package agent
