package passkey

import (
	"crypto/sha512"

	"golang.org/x/crypto/ssh"
)

// magic begins an SSHSIG, and what it signs (PROTOCOL.sshsig, sections 1 and 2).
const magic = "SSHSIG"

// hash is the name of the hash over the message.
const hash = "sha512"

// Challenge returns the bytes that a passkey signs for message under namespace: the
// whole blob of PROTOCOL.sshsig, section 2, because OpenSSH compares the challenge in
// clientDataJSON with it.
func Challenge(namespace string, message []byte) []byte {
	sum := sha512.Sum512(message)
	return append([]byte(magic), ssh.Marshal(struct {
		Namespace, Reserved, Hash string
		Sum                       []byte
	}{namespace, "", hash, sum[:]})...)
}
