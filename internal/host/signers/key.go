package signers

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/crypto/ssh"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// KeyArg names a public key file of OpenSSH and whom it belongs to.
type KeyArg struct {
	Path      string
	Principal string // empty: the key's comment
}

// signersHead starts the file that init writes.
const signersHead = `# Who may approve what, in OpenSSH's allowed_signers format (ssh-keygen(1), ALLOWED SIGNERS).
# One key a line; namespaces are roles: operational@gated approves destructive steps,
# recovery@gated only rotates keys, coordination@gated only takes reservations away.
# The gate writes this file; it changes by gated trust rotate, which operators sign. An edit decides
# nothing: the gate moves it aside. Root makes a file the list: gated trust adopt FILE. A lost key: gated trust revoke.
`

// signersText writes the allowed_signers file for keys and checks it as the
// daemon will.
func signersText(keys map[op.Role][]KeyArg) ([]byte, *authz.Trust, error) {
	var b bytes.Buffer
	b.WriteString(signersHead)
	for _, role := range op.Roles {
		for _, k := range keys[role] {
			line, _, err := checkedLine(k, role)
			if err != nil {
				return nil, nil, err
			}
			b.WriteString(line)
		}
	}
	trust, err := authz.LoadTrust(b.Bytes())
	return b.Bytes(), trust, err
}

// checkedLine returns a line that loads, so that what is wrong with a key names
// its file.
func checkedLine(k KeyArg, role op.Role) (string, authz.Listed, error) {
	line, err := signerLine(k, role)
	var trust *authz.Trust
	if err == nil {
		trust, err = authz.LoadTrust([]byte(line))
	}
	if err != nil {
		r := refusal.As(err)
		if !strings.Contains(r.Detail, k.Path) {
			r.Detail = k.Path + ": " + r.Detail
		}
		return "", authz.Listed{}, r
	}
	return line, trust.Signers()[0], nil
}

func signerLine(k KeyArg, role op.Role) (string, error) {
	pub, comment, err := publicKey(k.Path)
	if err != nil {
		return "", err
	}
	principal := k.Principal
	if principal == "" {
		principal = strings.TrimSpace(comment)
	}
	if principal == "" || strings.ContainsAny(principal, " \t\"*?!,\\#") || op.CheckText("principal", principal) != nil {
		return "", refusal.New(refusal.BadParams, "the key %s needs a name for its owner, and %q is none", k.Path, principal).
			WithHint("add one: %s:alice@example.com", k.Path)
	}
	if err := authz.CheckNewPrincipal(principal); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s namespaces=%q %s %s\n", principal, role.Namespace(), pub.Type(),
		base64.StdEncoding.EncodeToString(pub.Marshal())), nil
}

// NewSigner is a line for a rotation to add.
type NewSigner struct {
	Line string // of allowed_signers, without an end of line
	Key  string // SHA256 fingerprint
	Role op.Role
	Path string // of the public key
}

// SignerOf returns the line that lists a public key for a role.
func SignerOf(k KeyArg, role op.Role) (NewSigner, error) {
	line, listed, err := checkedLine(k, role)
	if err != nil {
		return NewSigner{}, err
	}
	return NewSigner{Line: line[:len(line)-1], Key: listed.Key, Role: role, Path: k.Path}, nil
}

// publicKey reads a public key file of OpenSSH.
func publicKey(path string) (pub ssh.PublicKey, comment string, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", refusal.New(refusal.BadParams, "there is no key file %s", path).
			WithHint("ssh-keygen -t ed25519 makes a key: ~/.ssh/id_ed25519, and its public half ~/.ssh/id_ed25519.pub, which is the one to name")
	}
	if err != nil {
		return nil, "", refusal.New(refusal.BadParams, "the key %s cannot be read: %v", path, err).
			WithHint("name the public key, like ~/.ssh/id_ed25519.pub")
	}
	if bytes.Contains(data, []byte("PRIVATE KEY")) {
		return nil, "", refusal.New(refusal.BadParams, "%s is a private key", path).WithHint("name the .pub file beside it")
	}
	pub, comment, options, rest, err := ssh.ParseAuthorizedKey(data)
	if err != nil || len(options) > 0 || len(bytes.TrimSpace(rest)) > 0 {
		return nil, "", refusal.New(refusal.BadParams, "%s does not hold one OpenSSH public key, and nothing else", path).
			WithHint("name the .pub file that ssh-keygen wrote")
	}
	return pub, comment, nil
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
	pub, _, err := publicKey(key)
	if err != nil {
		return "", err
	}
	if c, ok := pub.(*ssh.Certificate); ok {
		pub = c.Key // as ssh-keygen revokes it
	}
	return ssh.FingerprintSHA256(pub), nil
}
