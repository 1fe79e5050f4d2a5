package main

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"gated/client/api"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

// device is an agent that holds one security key in software.
type device struct {
	agent.ExtendedAgent
	key mint.Key
}

func (d device) List() ([]*agent.Key, error) {
	return []*agent.Key{{Format: d.key.Type(), Blob: d.key.Blob(), Comment: d.key.Name}}, nil
}

func (d device) SignWithFlags(key ssh.PublicKey, data []byte, _ agent.SignatureFlags) (*ssh.Signature, error) {
	if !bytes.Equal(key.Marshal(), d.key.Blob()) {
		return nil, errors.New("another key")
	}
	return d.key.Sign(nil, data)
}

// serveAgent serves an agent on a socket with a path that is short enough.
func serveAgent(t *testing.T, a agent.Agent) string {
	t.Helper()
	dir := must.Get(os.MkdirTemp("", "agent"))(t)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	l := must.Get(net.Listen("unix", filepath.Join(dir, "s")))(t)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_ = agent.ServeAgent(a, conn)
				_ = conn.Close()
			}()
		}
	}()
	return l.Addr().String()
}

// A security key signs through an agent, as itself and under a certificate, and
// the gate's own checks take what it signed.
func TestSecurityKeySigns(t *testing.T) {
	now := time.Date(2031, 5, 4, 12, 0, 0, 0, time.UTC)
	ca := mint.Ed25519(t, "ca")
	for _, key := range []mint.Key{mint.SKEd25519(t, "sk", mint.Touched), mint.SKECDSA(t, "sk", mint.Touched)} {
		dir := t.TempDir()
		signers := filepath.Join(dir, "allowed_signers")
		require.NoError(t, os.WriteFile(signers, []byte(key.Line("alice@example.com", `namespaces="operational@gated"`)+
			ca.Line("*@example.org", `cert-authority,namespaces="operational@gated"`)), 0o600))
		cert := mint.Certify(ca, key, "alice@example.org").WriteFile(t, dir)
		env := map[string]string{"SSH_AUTH_SOCK": serveAgent(t, device{key: key}), "HOME": dir}
		for who, flags := range map[string][]string{
			"alice@example.com": {"--agent", "--fingerprint", key.Fingerprint()},
			"alice@example.org": {"--agent", "--cert", cert},
		} {
			tl, out, beside := toolWith(env, now)
			path := filepath.Join(dir, who)
			code := tl.run(t.Context(), append([]string{"sign", "guest.destroy", "web-1", "--host", "pve1",
				"--gate", "0123456789abcdef0123456789abcdef", "--incarnation", "1",
				"--state", "sha256:cdcfa279fa20fe795c16987b8d61ed3d7f083cbeaf5d4eacc7df32fe6ae6e873", "-o", path}, flags...))
			require.Equal(t, api.ExitDone, code, beside.String())
			require.Contains(t, beside.String(), "touch the security key...\n")
			require.Contains(t, out.String(), "wrote ")

			tl, out, beside = toolWith(env, now)
			code = tl.run(t.Context(), []string{"verify", path, "--sig", path + ".sig", "--allowed-signers", signers})
			require.Equal(t, api.ExitDone, code, beside.String())
			require.Contains(t, out.String(), "good operational signature by "+who)
		}
	}
}
