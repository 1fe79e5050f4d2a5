package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/people/sign"
	"gated/internal/wire/cli"
)

// defaultKeys are the files tried, in ~/.ssh, where nothing says which key. The
// handles of security keys come last: only an agent can use them, and the
// refusal says so.
var defaultKeys = []string{"id_ed25519", "id_ecdsa", "id_rsa", "id_ed25519_sk", "id_ecdsa_sk"}

// keyFlags say who signs as what.
type keyFlags struct {
	role        string
	key         string
	cert        string
	agent       bool
	fingerprint string
}

// named reports whether the flags say which key signs.
func (k keyFlags) named() bool { return k.key != "" || k.cert != "" || k.fingerprint != "" }

func (t *tool) keyFlags(c *cobra.Command, k *keyFlags) {
	c.Flags().StringVar(&k.role, "role", "", "sign as this `ROLE` (default the only one that may sign, else operational)")
	c.Flags().StringVar(&k.key, "key", "", "sign with the private key in this `FILE`, or with the agent's key of this public half")
	c.Flags().StringVar(&k.cert, "cert", "", "show this certificate `FILE` in place of its key, KEY-cert.pub")
	c.Flags().BoolVar(&k.agent, "agent", false, "sign with a key that ssh-agent holds")
	c.Flags().StringVar(&k.fingerprint, "fingerprint", "", "the agent's plain key with this `SHA256:...` fingerprint")
	c.MarkFlagsMutuallyExclusive("key", "agent")
	c.MarkFlagsMutuallyExclusive("key", "fingerprint")
	c.MarkFlagsMutuallyExclusive("cert", "fingerprint") // the certificate says which key
	// They fail only for flags that are not there.
	_ = c.MarkFlagFilename("key")
	_ = c.MarkFlagFilename("cert", "pub")
	_ = c.RegisterFlagCompletionFunc("role", completeRoles)
	_ = c.RegisterFlagCompletionFunc("fingerprint", t.completeFingerprint)
}

const wordsNoSuchRole = "--role is not the name of a role: operational, coordination, recovery, or one of the " +
	"gate's own"

// check finds what is wrong with the flags before anything is shown.
func (t *tool) check(k keyFlags) error {
	for _, path := range []string{k.key, k.cert} {
		if path == "" {
			continue
		}
		_, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return cli.Usage(fmt.Sprintf("there is no file %s; opsign keys lists the keys that you have", op.Shown(path)))
		case err != nil:
			return cli.Usage(err.Error())
		}
	}
	if (k.agent || k.fingerprint != "") && t.Getenv("SSH_AUTH_SOCK") == "" {
		return cli.Usage("there is no ssh-agent: SSH_AUTH_SOCK is not set; start one, or sign with --key FILE")
	}
	if k.role != "" && !op.Role(k.role).Valid() {
		return cli.Usage(wordsNoSuchRole)
	}
	return nil
}

// roleFor returns the role to sign as: that of the flag, else the only one that
// may sign, else operational if it may. Of several others the operator has to
// choose: whom a key is listed as, only the gate knows.
func (k keyFlags) roleFor(may []op.Role) (op.Role, error) {
	switch given := op.Role(k.role); {
	case k.role != "" && !given.Valid():
		return "", cli.Usage(wordsNoSuchRole)
	case k.role != "" && len(may) > 0 && !slices.Contains(may, given):
		return "", roleNotAsked(given, may)
	case k.role != "":
		return given, nil
	case len(may) == 0, slices.Contains(may, op.Operational):
		return op.Operational, nil
	case len(may) == 1:
		return may[0], nil
	}
	return "", cli.Usage(whichRole(may))
}

// keySigner returns the key that the flags name, else the first of the default key files. Before a security key is asked, it says so.
func (t *tool) keySigner(ctx context.Context, k keyFlags) (sign.Signer, error) {
	s, err := t.chosenKey(ctx, k)
	if err != nil {
		return nil, err
	}
	return t.announced(s), nil
}

// announced returns a signer that asks for the touch if the key is a security key.
func (t *tool) announced(s sign.Signer) sign.Signer {
	if s.SecurityKey() {
		return touched{s, t}
	}
	return s
}

func (t *tool) chosenKey(ctx context.Context, k keyFlags) (sign.Signer, error) {
	socket := t.Getenv("SSH_AUTH_SOCK")
	switch {
	case k.cert != "":
		return t.certifiedKey(ctx, k, socket)
	case k.key != "":
		return t.keyOf(ctx, k.key, socket)
	case k.agent || k.fingerprint != "":
		return sign.Agent(ctx, socket, k.fingerprint)
	}
	for _, name := range defaultKeys {
		path := filepath.Join(t.Getenv("HOME"), ".ssh", name)
		if _, err := os.Stat(path); err == nil {
			return sign.KeyFile(path, t.passphrase(path))
		}
	}
	return nil, cli.Usage("there is no key: name one with --key FILE, or load one into ssh-agent")
}

// errLocked is why a key file was not opened that needs a passphrase.
var errLocked = refusal.New(refusal.NotAllowed, "the key needs its passphrase")

// certifiedKey returns a signer that presents the certificate of the flag. Its
// key is the file or the agent's as the flags say; else the agent's if it holds
// it, else the file KEY of KEY-cert.pub.
func (t *tool) certifiedKey(ctx context.Context, k keyFlags, socket string) (sign.Signer, error) {
	c, err := sign.ReadCertificate(k.cert)
	if err != nil {
		return nil, err
	}
	if err := c.ValidAt(t.now()); err != nil {
		return nil, err
	}
	path := k.key
	if name, ok := strings.CutSuffix(k.cert, "-cert.pub"); ok && path == "" && !k.agent {
		if _, err := os.Stat(name); err == nil && !agentHolds(ctx, socket, c) {
			path = name
		}
	}
	if path == "" {
		return sign.AgentCertified(ctx, socket, c)
	}
	s, err := t.keyOf(ctx, path, socket)
	if err != nil {
		return nil, err
	}
	return sign.Certified(s, c)
}

// keyOf returns the private key in a file. Of a public key it returns the agent's, as ssh-keygen does: some agents have no
// other name for a key.
func (t *tool) keyOf(ctx context.Context, path, socket string) (sign.Signer, error) {
	if id, err := sign.PublicKeyFile(path); err == nil && id.Certificate == nil && socket != "" {
		return sign.Agent(ctx, socket, id.Fingerprint)
	}
	return sign.KeyFile(path, t.passphrase(path))
}

// touched is a security key: somebody has to touch it, and to know that.
type touched struct {
	sign.Signer
	tool *tool
}

// Sign asks for the touch and signs.
func (s touched) Sign(ctx context.Context, role op.Role, payload []byte) (string, error) {
	s.tool.Say("touch the security key...\n")
	return s.Signer.Sign(ctx, role, payload)
}

// agentHolds reports whether an agent can sign with the certificate's key.
func agentHolds(ctx context.Context, socket string, c *sign.Certificate) bool {
	if socket == "" {
		return false
	}
	_, err := sign.AgentCertified(ctx, socket, c)
	return err == nil
}

func roleNotAsked(role op.Role, may []op.Role) error {
	return refusal.New(refusal.RoleDenied, "the role %s may not sign this", role).WithHint("it takes: %s", roles(may))
}

func whichRole(may []op.Role) string {
	return "several roles may sign this; say with --role which one you sign as: " + roles(may)
}
