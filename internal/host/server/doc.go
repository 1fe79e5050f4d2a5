// Package server answers HTTP on gated's unix socket. It gets the caller from the kernel, bounds what a caller may
// send, and writes answers. The content of the answers comes from the gate and from internal/host/service.
//
// Every refusal is an RFC 9457 problem. The server passes its own refusals (a body that cannot be read, a uid that is
// not an operator's) to Config.Refused, so that they reach the audit log like the gate's.
package server
