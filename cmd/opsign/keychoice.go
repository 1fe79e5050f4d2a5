package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"gated/internal/cli"
	"gated/internal/op"
	"gated/internal/sign"
)

// defaultKeys are the files tried, in ~/.ssh, where nothing says which key.
var defaultKeys = []string{"id_ed25519", "id_ecdsa", "id_rsa"}

// keyFlags say who signs as what.
type keyFlags struct {
	role        string
	key         string
	agent       bool
	fingerprint string
}

func (t *tool) keyFlags(c *cobra.Command, k *keyFlags) {
	c.Flags().StringVar(&k.role, "role", "", flagRole)
	c.Flags().StringVar(&k.key, "key", "", flagKey)
	c.Flags().BoolVar(&k.agent, "agent", false, flagAgent)
	c.Flags().StringVar(&k.fingerprint, "fingerprint", "", flagFingerprint)
	c.MarkFlagsMutuallyExclusive("key", "agent")
	c.MarkFlagsMutuallyExclusive("key", "fingerprint")
	// They fail only for flags that are not there.
	_ = c.MarkFlagFilename("key")
	_ = c.RegisterFlagCompletionFunc("role", completeRoles)
	_ = c.RegisterFlagCompletionFunc("fingerprint", t.completeFingerprint)
}

// check finds what is wrong with the flags before anything is shown.
func (t *tool) check(k keyFlags) error {
	if k.key != "" {
		if _, err := os.Stat(k.key); err != nil {
			return cli.Usage(err.Error())
		}
	}
	if (k.agent || k.fingerprint != "") && t.Getenv("SSH_AUTH_SOCK") == "" {
		return cli.Usage(wordsNoAgent)
	}
	_, err := k.roleFor(nil)
	return err
}

// roleFor returns the role to sign as: that of the flag, else the first that
// may sign.
func (k keyFlags) roleFor(may []op.Role) (op.Role, error) {
	for _, r := range op.Roles {
		if string(r) == k.role {
			return r, nil
		}
	}
	switch {
	case k.role != "":
		return "", cli.Usage(wordsNoSuchRole)
	case len(may) == 0:
		return op.Operational, nil
	}
	return may[0], nil
}

// keySigner returns the key that signs: the file or the agent's key that the
// flags name; else the agent's if it holds one that can sign, else the first of
// the default key files.
func (t *tool) keySigner(ctx context.Context, k keyFlags) (sign.Signer, error) {
	socket := t.Getenv("SSH_AUTH_SOCK")
	switch {
	case k.key != "":
		return sign.KeyFile(k.key, t.passphrase(k.key))
	case k.agent || k.fingerprint != "" || agentCanSign(ctx, socket):
		return sign.Agent(ctx, socket, k.fingerprint)
	}
	for _, name := range defaultKeys {
		path := filepath.Join(t.Getenv("HOME"), ".ssh", name)
		if _, err := os.Stat(path); err == nil {
			return sign.KeyFile(path, t.passphrase(path))
		}
	}
	return nil, cli.Usage(wordsNoKey)
}

func agentCanSign(ctx context.Context, socket string) bool {
	if socket == "" {
		return false
	}
	held, err := sign.Identities(ctx, socket)
	if err != nil {
		return false
	}
	for _, id := range held {
		if id.Refused == nil {
			return true
		}
	}
	return false
}
