// Package authz decides whether an envelope was signed by somebody whom the
// operator's allowed_signers file lists for the role that it was signed in.
//
// It verifies only: nothing here makes a signature, and a test sees to it that
// it stays so. Files, signatures and certificates are read by strict parsers of
// its own; the mathematics is that of sshsig, x/crypto/ssh and the standard
// library. Whatever this package accepts, `ssh-keygen -Y verify` accepts with
// the same file; the reverse does not hold, see docs/formats.
package authz
