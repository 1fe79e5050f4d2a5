// Package mcp is an MCP server for agent products: it offers the gate's calls as tools, on standard input and output.
// It is an ordinary client of the gate. It reaches the gate through the socket alone, and has no tool that approves,
// rejects, or changes trust, backups or the clock. docs/guides/agents.md is its guide.
package mcp
