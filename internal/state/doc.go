// Package state guards the directory that a gate keeps its state in: who may
// write there, that one process uses it, and that the database in it is the
// one that was bound to this machine and this file.
//
// A copy of a gate's state would remember nonces that the original has spent
// since, or not know those that it spent; so a copy does not start, and a
// restore gets a new gate id, for which no old signature is good.
// docs/formats/state-directory.md describes what is in the directory.
package state
