// Package passkey makes SSH signatures of what a browser's passkey signed.
//
// A browser asks its authenticator to sign a challenge (WebAuthn Level 3, section
// 7.2). If the challenge is what an SSHSIG signs (PROTOCOL.sshsig), the answer has all
// parts of an inner signature of the type [Format] (OpenSSH's PROTOCOL.u2f). This
// package checks that form and puts the parts together. It does no I/O, holds no key
// and decides nothing: the gate verifies the signature.
package passkey
