// Package members carries calls from a member of a gate that stands by to the one that decides: mutual TLS with pinned
// certificates, and the caller as the kernel of the member's host showed it.
//
// The active member believes a member about that member's own callers, and about nothing else. A caller of member node2 is
// uid:1000@node2 there, whatever the message says.
package members
