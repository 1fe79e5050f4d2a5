// Package store keeps the gate's state in one SQLite database and makes what it acknowledges durable.
//
// All writes go through one goroutine that commits in groups. Callers give a function to Update, and each function runs
// in a savepoint of its own. One COMMIT, and so one fsync, serves the whole group; no caller gets success before it.
// Reads are snapshots on other connections and never wait for the writer. docs/design/store.md says which traps of
// SQLite this closes and how.
//
// The package has one table, store_meta. Every other table belongs to the package whose SQL names it.
package store
