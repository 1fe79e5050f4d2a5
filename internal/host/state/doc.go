// Package state guards a gate's state directory. Only its owner may write there, and one process uses it. Its database
// must be the one that was bound to this machine and this file.
//
// A copy of a gate's state does not know the nonces that the original has spent since. So a copy does not start, and a
// restore gets a new gate id, for which no old signature counts. docs/formats/state-directory.md describes what is in
// the directory.
package state
