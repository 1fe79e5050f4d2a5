// Package store keeps the gate's state in one SQLite database and makes what
// it acknowledges durable.
//
// All writes go through one goroutine that commits in groups: callers hand a
// function to Update, each function runs in a savepoint of its own, one COMMIT
// and so one fsync serves the whole group, and nobody is told success before
// it. Reads are snapshots on connections of their own and never wait for the
// writer. docs/design/store.md says which traps of SQLite this closes and how.
//
// The package knows no table but its own, store_meta; every other table
// belongs to the package whose SQL names it.
package store
