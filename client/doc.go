// Package client talks to a gate over its unix socket, on this host or, through the system's ssh, on another. It finds
// the socket, and checks that the program behind it runs as root, the caller or the uid that the caller named. It turns
// a refusal of the daemon back into the daemon's error: errors.Is(err, refusal.Replayed) works on both sides of the socket.
// It also keeps the file of pinned gates.
package client
