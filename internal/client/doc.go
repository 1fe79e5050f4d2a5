// Package client talks to a gate over its unix socket, on this host or, through
// the system's ssh, on another. It finds the socket, makes sure that whoever
// answers there is root, the caller or the uid that the caller named, and turns
// what the daemon refuses back into the error that it raised: errors.Is(err,
// op.Replayed) works on both sides of the socket. It also keeps the file in
// which the gates that were met are pinned.
package client
