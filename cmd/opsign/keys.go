package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"gated/internal/authz"
	"gated/internal/cli"
	"gated/internal/op"
	"gated/internal/sign"
)

// key is one key of this person's that keys lists.
type key struct {
	Fingerprint string       `json:"fingerprint"`
	KeyType     string       `json:"key_type"`
	Comment     string       `json:"comment"`
	Source      string       `json:"source"`   // "agent", or the public key's file
	Software    bool         `json:"software"` // signs without anybody's touch
	Usable      bool         `json:"usable"`   // a gate would take its signatures if it is listed
	Why         string       `json:"why"`      // it is not usable
	Listed      []listedRole `json:"listed"`   // null where no allowed_signers file was read
}

// listedRole is what a line of allowed_signers lets a key do.
type listedRole struct {
	Principal string  `json:"principal"`
	Role      op.Role `json:"role"`
	Valid     bool    `json:"valid"` // now
}

func (t *tool) keysCommand() *cobra.Command {
	var signers string
	c := t.command("keys", cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		path, trust, err := t.trust(signers)
		if err != nil {
			return err
		}
		found := t.findKeys(c.Context())
		for i := range found {
			if trust != nil {
				found[i].Listed = t.listedRoles(trust, found[i])
			}
		}
		return t.showKeys(found, path)
	})
	c.Flags().StringVar(&signers, "allowed-signers", "", flagKeysSigners)
	_ = c.MarkFlagFilename("allowed-signers") // the flag was just added
	return c
}

// trust reads the file that the flag names, or the one of the default state
// directory that is there and may be read. Nil means that there is none.
func (t *tool) trust(path string) (string, *authz.Trust, error) {
	if path == "" {
		for _, dir := range stateDirs(t.Getenv) {
			p := filepath.Join(dir, "allowed_signers")
			if f, err := os.Open(p); err == nil {
				_ = f.Close() // nothing was written
				path = p
				break
			}
		}
	}
	if path == "" {
		return "", nil, nil
	}
	b, err := cli.ReadFile(path, authz.MaxTrust)
	if err != nil {
		return "", nil, err
	}
	trust, err := authz.LoadTrust(b)
	return path, trust, err
}

// stateDirs are the default state directories, a person's own first.
func stateDirs(getenv func(string) string) []string {
	own := filepath.Join(getenv("HOME"), ".local", "state")
	if dir := getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		own = dir
	}
	return []string{filepath.Join(own, "gated"), "/var/lib/gated"}
}

// findKeys lists what the agent holds, then the public keys in ~/.ssh that it
// does not.
func (t *tool) findKeys(ctx context.Context) []key {
	var out []key
	seen := map[string]bool{}
	add := func(id sign.Identity, source string) {
		if seen[id.Fingerprint+id.KeyType] {
			return
		}
		seen[id.Fingerprint+id.KeyType] = true
		k := key{Fingerprint: id.Fingerprint, KeyType: id.KeyType, Comment: id.Comment, Source: source,
			Software: !strings.HasPrefix(id.KeyType, "sk-"), Usable: id.Refused == nil}
		if id.Refused != nil {
			k.Why = id.Refused.Error()
		}
		out = append(out, k)
	}
	if socket := t.Getenv("SSH_AUTH_SOCK"); socket != "" {
		held, err := sign.Identities(ctx, socket)
		if err != nil {
			t.SayWhy(err)
		}
		for _, id := range held {
			add(id, "agent")
		}
	}
	files, err := filepath.Glob(filepath.Join(t.Getenv("HOME"), ".ssh", "*.pub"))
	if err != nil {
		return out // the home's name is a bad pattern
	}
	for _, f := range files {
		id, err := sign.PublicKeyFile(f)
		if err != nil {
			t.SayWhy(err)
			continue
		}
		add(id, f)
	}
	return out
}

func (t *tool) listedRoles(trust *authz.Trust, k key) []listedRole {
	out := []listedRole{}
	for _, l := range trust.Signers() {
		if l.Key != k.Fingerprint {
			continue
		}
		for _, r := range l.Roles {
			out = append(out, listedRole{l.Principal, r, trust.Still(l.Principal, l.Key, r, t.now()) == nil})
		}
	}
	return out
}

func (t *tool) showKeys(found []key, signers string) error {
	software := false
	var rows []string
	for _, k := range found {
		software = software || k.Software && k.Usable
		if t.JSON {
			if err := t.Emit(k); err != nil {
				return err
			}
			continue
		}
		rows = append(rows, cli.Row(k.Fingerprint, k.KeyType, k.Source, k.Comment, maySign(k, signers)))
	}
	if err := t.Table(rows...); err != nil {
		return err
	}
	switch {
	case len(found) == 0:
		t.Say(wordsNoKeys)
	case software:
		t.Say(wordsSoftwareKeys)
	}
	return nil
}
