// Package server answers HTTP on gated's unix socket. It knows who calls, from
// the kernel, how much a caller may send, and how an answer looks; what the
// answer is, it asks of the interfaces in seams.go, which internal/daemon
// satisfies.
//
// Every refusal is an RFC 9457 problem. Those that the server decides itself
// (a body that cannot be read, a uid that is not an operator's) are handed to
// Config.Refused, so that they reach the audit log like the gate's own.
package server
