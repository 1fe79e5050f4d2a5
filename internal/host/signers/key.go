package signers

import (
	"bytes"
	"strings"

	"golang.org/x/crypto/ssh"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/people/pubkey"
)

// signersHead starts the file that init writes.
const signersHead = `# Who may approve what, in OpenSSH's allowed_signers format (ssh-keygen(1), ALLOWED SIGNERS).
# One key a line; namespaces are roles: operational@gated approves destructive steps,
# recovery@gated only rotates keys, coordination@gated only takes reservations away.
# The gate writes this file; it changes by gated trust rotate, which operators sign. An edit decides
# nothing: the gate moves it aside. Root makes a file the list: gated trust adopt FILE. A lost key: gated trust revoke.
`

// signersText writes the allowed_signers file for keys and checks it as the
// daemon will.
func signersText(keys map[op.Role][]pubkey.Arg) ([]byte, *authz.Trust, error) {
	var b bytes.Buffer
	b.WriteString(signersHead)
	for _, role := range op.Roles {
		for _, k := range keys[role] {
			s, err := pubkey.SignerOf(k, role)
			if err != nil {
				return nil, nil, err
			}
			b.WriteString(s.Line + "\n")
		}
	}
	trust, err := authz.LoadTrust(b.Bytes())
	return b.Bytes(), trust, err
}

// RevokedLine returns the line of the file of revoked keys for a key: a SHA256
// fingerprint as ssh-keygen -lf prints it, or the path of a public key.
func RevokedLine(key string) (string, error) {
	if strings.HasPrefix(key, "SHA256:") {
		_, err := authz.LoadRevoked([]byte(key))
		if err != nil || strings.Contains(key, "\n") {
			return "", refusal.New(refusal.BadParams, "%q is no fingerprint", key).
				WithHint("ssh-keygen -lf KEY.pub prints it: SHA256: and 43 characters")
		}
		return key, nil
	}
	pub, _, err := pubkey.Read(key)
	if err != nil {
		return "", err
	}
	if c, ok := pub.(*ssh.Certificate); ok {
		pub = c.Key // as ssh-keygen revokes it
	}
	return ssh.FingerprintSHA256(pub), nil
}
