// Package pubkey reads public key files of OpenSSH, and writes the lines of allowed_signers that list them.
package pubkey

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

// Arg names a public key file of OpenSSH and whom it belongs to.
type Arg struct {
	Path      string
	Principal string // empty: the key's comment
}

// ArgOf splits KEY.pub[:PRINCIPAL]. A file of that whole name is the key, so that a path may have a colon.
func ArgOf(text string) Arg {
	if _, err := os.Stat(text); err != nil {
		if i := strings.LastIndexByte(text, ':'); i > 0 {
			return Arg{Path: text[:i], Principal: text[i+1:]}
		}
	}
	return Arg{Path: text}
}

// Signer is a line that a list of signers does not have yet.
type Signer struct {
	Line string // of allowed_signers, without an end of line
	Key  string // SHA256 fingerprint
	Name string // the principal
	Role op.Role
	Path string // of the public key
}

// SignerOf returns the line that lists a public key for a role. It refuses a line that does not load, and names the
// file.
func SignerOf(k Arg, role op.Role) (Signer, error) {
	if !role.Valid() {
		return Signer{}, refusal.New(refusal.BadParams, "%s is not the name of a role", op.Shown(string(role)))
	}
	line, err := lineOf(k, role)
	var trust *authz.Trust
	if err == nil {
		trust, err = authz.LoadTrust([]byte(line))
	}
	if err != nil {
		r := refusal.As(err)
		if !strings.Contains(r.Detail, k.Path) {
			r.Detail = k.Path + ": " + r.Detail
		}
		return Signer{}, r
	}
	s := trust.Signers()[0]
	return Signer{Line: line, Key: s.Key, Name: s.Principal, Role: role, Path: k.Path}, nil
}

func lineOf(k Arg, role op.Role) (string, error) {
	pub, comment, err := Read(k.Path)
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
	return fmt.Sprintf("%s namespaces=%q %s %s", principal, role.Namespace(), pub.Type(),
		base64.StdEncoding.EncodeToString(pub.Marshal())), nil
}

// Read reads a public key file of OpenSSH, and returns the key and its comment. It refuses another file as BadParams.
func Read(path string) (pub ssh.PublicKey, comment string, err error) {
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
