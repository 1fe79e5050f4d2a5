package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gated/client"
	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
	"gated/internal/people/sign"
	"gated/internal/wire/cli"
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
	c := t.Command(cli.Words{
		Use:   "keys",
		Short: "List your keys and what they may sign",
		Long: `Looks at ssh-agent and at ~/.ssh/*.pub. Who may sign is in --allowed-signers, else in a default state directory if
it may be read, else the gate is asked. The gate is asked first if --remote, --socket or GATED_HOST names it.`,
		Example: "  opsign keys",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		path, trust, revoked, err := t.whoMaySign(c.Context(), signers)
		if err != nil {
			return err
		}
		found := t.findKeys(c.Context())
		for i := range found {
			if slices.Contains(revoked, found[i].Fingerprint) && found[i].Usable {
				found[i].Usable, found[i].Why = false, "it is revoked there"
			}
			if trust != nil {
				found[i].Listed = listedRoles(trust, found[i], t.now())
			}
			found[i].Warning = found[i].warning(trust != nil)
		}
		return t.showKeys(found, path)
	})
	c.Flags().StringVar(&signers, "allowed-signers", "",
		"the allowed_signers `FILE` (default that of the default state directories)")
	_ = c.MarkFlagFilename("allowed-signers") // the flag was just added
	return c
}

// whoMaySign returns the list of signers that a person's keys are compared with, where it is from, and which of them are
// revoked. All are zero if no list can be had.
func (t *tool) whoMaySign(ctx context.Context, file string) (from string, trust *authz.Trust, revoked []string, err error) {
	where, err := t.Where()
	if err != nil {
		return "", nil, nil, err
	}
	if file != "" || where.Socket == "" && where.Remote == "" {
		if from, trust, err = t.trust(file); err != nil || trust != nil {
			return from, trust, nil, err
		}
	}
	cl, err := t.Client()
	if err != nil {
		return "", nil, nil, err
	}
	defer cl.Close()
	gate, err := t.knownGate(ctx, cl)
	var gone *client.Unreachable
	if errors.As(err, &gone) && where.Socket == "" && where.Remote == "" {
		return "", nil, nil, nil
	}
	if err != nil {
		return "", nil, nil, err
	}
	list, err := cl.Trust(ctx)
	if err != nil { // a daemon of an older version has no such answer
		t.SayWhy(err)
		return "", nil, nil, nil
	}
	trust, err = authz.LoadTrust([]byte(list.Text))
	return fmt.Sprintf("the list of the gate on %s (epoch %d)", op.Shown(gate.Host), list.Epoch), trust, list.Revoked, err
}

// trust reads the file that the flag names, or the one of the default state
// directory that is there and may be read. Nil means that there is none.
func (t *tool) trust(path string) (string, *authz.Trust, error) {
	if path == "" {
		for _, dir := range t.stateDirs() {
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
func (t *tool) stateDirs() []string {
	dirs := []string{ownfile.StateDir(t.Getenv, "gated"), t.hostState}
	return slices.DeleteFunc(dirs, func(dir string) bool { return dir == "" })
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
		t.Say("no key in ssh-agent and none in ~/.ssh\n")
	}
	for _, w := range warnings {
		t.Say("warning: %s\n", op.Shown(w))
	}
	if len(warnings) > 0 {
		t.Say(`Any process of your user can sign with a software key, through ssh-agent or its file, unnoticed. Better:
  a security key, which has to be touched:      ssh-keygen -t ed25519-sk -f ~/.ssh/id_ed25519_sk
  or an agent that asks before each use:        ssh-add -d KEY && ssh-add -c KEY
`)
	}
	return nil
}

// maySign says what a key is good for.
func maySign(k key, signers string) string {
	switch {
	case !k.Usable:
		return "cannot sign for a gate: " + k.Why
	case signers == "":
		return "can sign where it is listed"
	case len(k.Listed) == 0:
		return "not listed in " + signers
	}
	var out []string
	for _, l := range k.Listed {
		text := fmt.Sprintf("may sign as %s (%s)", l.Role, cli.Person(l.Principal))
		if !l.Valid {
			text += ", but not at this time"
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

// kind says what sort of key it is, and of a certificate what it certifies.
func (k key) kind() string {
	text := "software"
	if k.SecurityKey {
		text = "security key"
	}
	c := k.Certificate
	if c == nil {
		return text
	}
	text += ", certificate of " + cli.People(c.Principals) + " by " + c.CA
	switch {
	case c.ValidBefore == nil:
		text += ", for ever"
	default:
		text += ", from " + cli.Moment(c.ValidAfter) + " to " + cli.Moment(*c.ValidBefore)
	}
	if !c.Valid {
		text += ", not valid now"
	}
	return text
}

// listedRole is what a line of allowed_signers lets a key do, or its
// certificate.
type listedRole struct {
	Principal string  `json:"principal"`
	Role      op.Role `json:"role"`
	Valid     bool    `json:"valid"` // now
}

// listedRoles finds what a trust file lists a key or a certificate for: as a
// gate would answer, and what it would answer at another time.
func listedRoles(trust *authz.Trust, k key, now time.Time) []listedRole {
	out := []listedRole{}
	for _, role := range rolesIn(trust) {
		principal, err := trust.Accepts(k.blob, role, false, now)
		switch {
		case err == nil:
			out = append(out, listedRole{principal, role, true})
		case errors.Is(err, refusal.SignerExpired):
			out = append(out, listedRole{k.owner(trust, role), role, false})
		}
	}
	return out
}

// rolesIn lists the roles of a trust file's lines, in their order.
func rolesIn(trust *authz.Trust) []op.Role {
	var out []op.Role
	for _, l := range trust.Signers() {
		for _, r := range l.Roles {
			if !slices.Contains(out, r) {
				out = append(out, r)
			}
		}
	}
	return out
}

// owner names whom a line lists that does not accept the key now.
func (k key) owner(trust *authz.Trust, role op.Role) string {
	if k.Certificate != nil && len(k.Certificate.Principals) > 0 {
		return k.Certificate.Principals[0]
	}
	for _, l := range trust.Signers() {
		if !l.CA && l.Key == k.Fingerprint && slices.Contains(l.Roles, role) {
			return l.Principal
		}
	}
	return ""
}

// warning says that a software key may now sign for a role that may destroy, or
// that nobody knows what it is listed for. It is empty without a reason.
func (k key) warning(known bool) string {
	switch {
	case !k.Software || !k.Usable || k.Certificate != nil && !k.Certificate.Valid:
		return ""
	case !known:
		return softwareKey(k, nil)
	}
	var may []op.Role
	for _, l := range k.Listed {
		if l.Valid && mayDestroy(l.Role) {
			may = append(may, l.Role)
		}
	}
	if len(may) == 0 {
		return ""
	}
	return softwareKey(k, may)
}

// mayDestroy reports whether what a role signs can lose data. Coordination moves
// reservations; recovery can list itself for the rest.
func mayDestroy(r op.Role) bool { return r != op.Coordination }

// softwareKey warns of a key; may is nil where it is not known what it may sign.
func softwareKey(k key, may []op.Role) string {
	if may == nil {
		return k.Fingerprint + " is a software key"
	}
	return k.Fingerprint + " is a software key and may sign as " + roles(may)
}
