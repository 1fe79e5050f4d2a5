// Package client talks to a gate over its unix socket. It finds the socket,
// makes sure that whoever answers there is root, the caller or the uid that the
// caller named, and turns what the daemon refuses back into the error that it
// raised: errors.Is(err, op.Replayed) works on both sides of the socket.
package client
