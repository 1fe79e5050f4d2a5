package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"gated/internal/authz"
	"gated/internal/cli"
	"gated/internal/op"
	"gated/internal/sign"
)

// key is one key or certificate of this person's that keys lists.
type key struct {
	Fingerprint string       `json:"fingerprint"` // of a certificate, that of its key
	KeyType     string       `json:"key_type"`
	Comment     string       `json:"comment"`
	Source      string       `json:"source"`       // "agent", or the public key's file
	File        string       `json:"file"`         // the public key's, also of a key that the agent holds; may be empty
	SecurityKey bool         `json:"security_key"` // each signature needs a touch
	Software    bool         `json:"software"`     // signs without anybody's touch
	Certificate *certificate `json:"certificate"`  // null for a plain key
	Usable      bool         `json:"usable"`       // a gate would take its signatures if it is listed
	Why         string       `json:"why"`          // it is not usable
	Listed      []listedRole `json:"listed"`       // null where no allowed_signers file was read
	Warning     string       `json:"warning"`      // for people; empty without

	blob []byte
}

// certificate is what an OpenSSH certificate says.
type certificate struct {
	CA          string     `json:"ca"` // SHA256 fingerprint
	KeyID       string     `json:"key_id"`
	Serial      uint64     `json:"serial"`
	Principals  []string   `json:"principals"`
	ValidAfter  time.Time  `json:"valid_after"`
	ValidBefore *time.Time `json:"valid_before"` // excluded; null for ever
	Valid       bool       `json:"valid"`        // now
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
				found[i].Listed = listedRoles(trust, found[i], t.now())
			}
			found[i].Warning = found[i].warning(trust != nil)
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

// findKeys lists what the agent holds, then the public keys and certificates in
// ~/.ssh that it does not.
func (t *tool) findKeys(ctx context.Context) []key {
	var out []key
	if socket := t.Getenv("SSH_AUTH_SOCK"); socket != "" {
		held, err := sign.Identities(ctx, socket)
		if err != nil {
			t.SayWhy(err)
		}
		for _, id := range held {
			out = t.addKey(out, id, "agent", "")
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
		out = t.addKey(out, id, f, f)
	}
	return out
}

// addKey adds a key once, wherever else it is found; of the files with it the
// first counts.
func (t *tool) addKey(to []key, id sign.Identity, source, file string) []key {
	for i := range to {
		if bytes.Equal(to[i].blob, id.Blob) {
			if to[i].File == "" {
				to[i].File = file
			}
			return to
		}
	}
	k := key{Fingerprint: id.Fingerprint, KeyType: id.KeyType, Comment: id.Comment, Source: source, File: file,
		SecurityKey: id.SecurityKey, Software: !id.SecurityKey, Usable: id.Refused == nil, blob: id.Blob}
	if id.Refused != nil {
		k.Why = id.Refused.Error()
	}
	if c := id.Certificate; c != nil {
		k.Certificate = &certificate{CA: c.CA, KeyID: c.KeyID, Serial: c.Serial, Principals: c.Principals,
			ValidAfter: c.ValidAfter, Valid: c.ValidAt(t.now()) == nil}
		if !c.ValidBefore.IsZero() {
			k.Certificate.ValidBefore = &c.ValidBefore
		}
	}
	return append(to, k)
}

func (t *tool) showKeys(found []key, signers string) error {
	var rows, warnings []string
	for _, k := range found {
		if k.Warning != "" {
			warnings = append(warnings, k.Warning)
		}
		if t.JSON {
			if err := t.Emit(k); err != nil {
				return err
			}
			continue
		}
		rows = append(rows, cli.Row(k.Fingerprint, k.KeyType, k.kind(), k.Source, k.Comment, maySign(k, signers)))
	}
	if err := t.Table(rows...); err != nil {
		return err
	}
	if len(found) == 0 {
		t.Say(wordsNoKeys)
	}
	for _, w := range warnings {
		t.Say(wordsWarning, op.Shown(w))
	}
	if len(warnings) > 0 {
		t.Say(wordsSoftwareKeys)
	}
	return nil
}
