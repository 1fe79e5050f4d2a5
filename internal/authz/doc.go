// Package authz decides whether a signer of an envelope is listed in the operator's
// allowed_signers file for the role of the signature.
//
// It only verifies: it makes no signature, and a test checks that. Its own strict
// parsers read files, signatures and certificates. sshsig, x/crypto/ssh and the
// standard library do the mathematics. If this package accepts a signature,
// `ssh-keygen -Y verify` accepts it with the same file. The reverse does not hold,
// see docs/formats.
package authz
