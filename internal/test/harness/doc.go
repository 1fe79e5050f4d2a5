// Package harness runs agent products against the hooks: Codex, Gemini CLI and opencode, unchanged, from npm at pinned
// versions. Each product runs in a network namespace that has loopback alone. A scripted model on loopback asks it for
// tool calls. The tests then look at the files, and at what the product told its model. All of a run is in one directory
// below the user's cache, which is removed at the end.
//
// Without -products, the tests check the scripts, the pinned versions and the table of the guide; they need no npm.
// The package has tests alone.
package harness
