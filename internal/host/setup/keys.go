package setup

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/people/pubkey"
)

// maxKeyFile is the largest public key file that is copied, in bytes.
const maxKeyFile = 64 << 10

// Keys holds copies of public keys: the daemon's user may not be able to read a person's home.
type Keys struct {
	dir string
	n   int
}

// NewKeys makes the directory of the copies.
func NewKeys() (*Keys, error) {
	dir, err := os.MkdirTemp("", "gated-setup-")
	if err != nil {
		return nil, err
	}
	return &Keys{dir: dir}, os.Chmod(dir, 0o755)
}

// Close removes the copies.
func (k *Keys) Close() error { return os.RemoveAll(k.dir) }

// Copy returns a copy of each key: KEY.pub, KEY.pub:PRINCIPAL, or a line as a .pub file has it.
func (k *Keys) Copy(args []string) ([]pubkey.Arg, error) {
	out := make([]pubkey.Arg, 0, len(args))
	for _, a := range args {
		text, principal, err := keyText(a)
		if err != nil {
			return nil, err
		}
		k.n++
		path := filepath.Join(k.dir, "key"+strconv.Itoa(k.n)+".pub")
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return nil, err
		}
		key := pubkey.Arg{Path: path, Principal: principal}
		if _, err := (Choice{Operators: []pubkey.Arg{key}}).Check(); err != nil {
			r := refusal.As(err)
			return nil, refusal.New(r.Code, "%s", strings.ReplaceAll(r.Detail, path, op.Shown(a))).
				WithHint("%s", strings.ReplaceAll(r.Hint, path, op.Shown(a)))
		}
		out = append(out, key)
	}
	return out, nil
}

// keyText returns the text of a key, and the principal that the argument names.
func keyText(arg string) (text []byte, principal string, err error) {
	if _, err := os.Stat(arg); err != nil && strings.Contains(strings.TrimSpace(arg), " ") && !filepath.IsAbs(arg) {
		return []byte(strings.TrimSpace(arg) + "\n"), "", nil
	}
	key := pubkey.ArgOf(arg)
	path, principal := key.Path, key.Principal
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, "", refusal.New(refusal.BadParams, "there is no key file %s", op.Shown(path)).
			WithHint("ssh-keygen -t ed25519 makes a key: name the file that ends in .pub")
	case err != nil:
		return nil, "", err
	case !info.Mode().IsRegular() || info.Size() > maxKeyFile:
		return nil, "", refusal.New(refusal.BadParams, "%s is not a public key file", op.Shown(path)).
			WithHint("name the file that ends in .pub")
	}
	text, err = os.ReadFile(path)
	return text, principal, err
}

// FoundKey is a public key that may be an operator's.
type FoundKey struct {
	Arg         string // for --operator
	From        string // a file, or the ssh-agent
	Fingerprint string
	Principal   string
}

// FindKeys returns the public keys in a home's .ssh, and lines of an ssh-agent that no file has. It leaves out what
// could not be listed, such as a key that is too weak.
func FindKeys(home string, agent []string) []FoundKey {
	var out []FoundKey
	seen := map[string]bool{}
	add := func(arg, from string, key pubkey.Arg) {
		listed, err := Choice{Operators: []pubkey.Arg{key}}.Check()
		if err != nil || seen[listed[0].Key] {
			return
		}
		seen[listed[0].Key] = true
		out = append(out, FoundKey{Arg: arg, From: from, Fingerprint: listed[0].Key, Principal: listed[0].Principal})
	}
	if filepath.IsAbs(home) {
		files, _ := filepath.Glob(filepath.Join(home, ".ssh", "*.pub")) // a home whose name is a bad pattern has none
		for _, path := range files {
			add(path, path, pubkey.Arg{Path: path})
		}
	}
	k, err := NewKeys()
	if err != nil {
		return out
	}
	defer k.Close()
	for _, line := range agent {
		if copied, err := k.Copy([]string{line}); err == nil {
			add(line, "ssh-agent", copied[0])
		}
	}
	return out
}
