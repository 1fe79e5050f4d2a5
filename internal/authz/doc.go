// Package authz decides whether an envelope was signed by somebody whom the
// operator's allowed_signers file lists for the role that it was signed in.
//
// It verifies only: nothing here makes a signature, and a test sees to it that
// it stays so. The format is read by a strict parser of its own; the
// mathematics is that of sshsig and x/crypto/ssh. Whatever this package
// accepts, `ssh-keygen -Y verify` accepts with the same file; the reverse does
// not hold, see docs/formats.
package authz
