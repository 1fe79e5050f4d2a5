package sign

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// serve answers as an agent on a socket until the test ends.
func serve(t *testing.T, answer func(net.Conn)) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "agent") // t.TempDir can be longer than a socket's path may be
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	socket := filepath.Join(dir, "s")
	l := must.Get(net.Listen("unix", socket))(t)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				answer(conn)
			}()
		}
	}()
	return socket
}

func serveAgent(t *testing.T, a agent.Agent) string {
	return serve(t, func(c net.Conn) { _ = agent.ServeAgent(a, c) })
}

func rawKey(t *testing.T, name string) any {
	t.Helper()
	b := must.Get(os.ReadFile(filepath.Join("..", "..", "..", "testdata", "keys", name)))(t)
	return must.Get(ssh.ParseRawPrivateKey(b))(t)
}

func fingerprint(t *testing.T, name string) string {
	t.Helper()
	s := must.Get(ssh.NewSignerFromKey(rawKey(t, name)))(t)
	return ssh.FingerprintSHA256(s.PublicKey())
}

func keyring(t *testing.T, names ...string) agent.Agent {
	t.Helper()
	ring := agent.NewKeyring()
	for _, n := range names {
		require.NoError(t, ring.Add(agent.AddedKey{PrivateKey: rawKey(t, n), Comment: n}))
	}
	return ring
}

func TestAgentSigns(t *testing.T) {
	t.Parallel()
	for _, name := range keyNames {
		s := must.Get(Agent(t.Context(), serveAgent(t, keyring(t, name)), ""))(t)
		require.Equal(t, fingerprint(t, name), s.Fingerprint())
		armored := must.Get(s.Sign(t.Context(), op.Recovery, payload(t)))(t)
		require.NoError(t, opensshVerifies(t, s.PublicKey(), op.Recovery, payload(t), armored))
	}
}

func TestAgentChoice(t *testing.T) {
	t.Parallel()
	ring := keyring(t, "alice", "bob", "rsa-3072")
	weak := must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
	require.NoError(t, ring.Add(agent.AddedKey{PrivateKey: weak, Comment: "old\x1b[31m"}))
	weakSigner := must.Get(ssh.NewSignerFromKey(weak))(t)
	socket := serveAgent(t, ring)

	s := must.Get(Agent(t.Context(), socket, fingerprint(t, "bob")))(t)
	require.Equal(t, fingerprint(t, "bob"), s.Fingerprint())

	_, err := Agent(t.Context(), socket, "")
	refused(t, err, refusal.UnknownSigner, "several keys")
	for _, want := range []string{fingerprint(t, "alice"), fingerprint(t, "bob"), `"rsa-3072"`, "too weak", `old\x1b`} {
		require.Contains(t, err.Error(), want)
	}
	require.NotContains(t, err.Error(), "\x1b")

	_, err = Agent(t.Context(), socket, fingerprint(t, "carol"))
	refused(t, err, refusal.UnknownSigner, "does not hold the key "+fingerprint(t, "carol"))
	_, err = Agent(t.Context(), socket, ssh.FingerprintSHA256(weakSigner.PublicKey()))
	refused(t, err, refusal.WeakKey, "too weak")
	_, err = Agent(t.Context(), socket, "bob")
	refused(t, err, refusal.Malformed, "not a SHA256 fingerprint")
	_, err = Agent(t.Context(), serveAgent(t, keyring(t)), "")
	refused(t, err, refusal.UnknownSigner, "holds no key")
}

// certificate returns a user certificate for a test key.
func certificate(t *testing.T, name string) *ssh.Certificate {
	t.Helper()
	s := must.Get(ssh.NewSignerFromKey(rawKey(t, name)))(t)
	ca := must.Get(ssh.NewSignerFromKey(rawKey(t, "carol")))(t)
	cert := &ssh.Certificate{Key: s.PublicKey(), CertType: ssh.UserCert, ValidPrincipals: []string{"alice"}, ValidBefore: ssh.CertTimeInfinity}
	require.NoError(t, cert.SignCert(rand.Reader, ca))
	return cert
}

func TestAgentCertificateIsNotPicked(t *testing.T) {
	t.Parallel()
	withCert := func(names ...string) agent.Agent {
		ring := agent.NewKeyring()
		require.NoError(t, ring.Add(agent.AddedKey{PrivateKey: rawKey(t, "alice"), Certificate: certificate(t, "alice"), Comment: "cert"}))
		for _, n := range names {
			require.NoError(t, ring.Add(agent.AddedKey{PrivateKey: rawKey(t, n), Comment: n}))
		}
		return ring
	}
	for _, want := range []string{"", fingerprint(t, "alice")} {
		s, err := Agent(t.Context(), serveAgent(t, withCert("alice")), want)
		require.NoError(t, err)
		require.Equal(t, "ssh-ed25519", s.PublicKey().Type(), "the key, not its certificate")

		_, err = Agent(t.Context(), serveAgent(t, withCert()), want)
		require.ErrorIs(t, err, refusal.UnknownSigner)
		require.Contains(t, err.Error(), "holds only a certificate")
		require.Contains(t, refusal.As(err).Hint, "--cert FILE")
	}
	s := must.Get(Agent(t.Context(), serveAgent(t, withCert("bob")), ""))(t)
	require.Equal(t, fingerprint(t, "bob"), s.Fingerprint())
}

func TestAgentThatAnswersSHA1(t *testing.T) {
	t.Parallel()
	s := must.Get(Agent(t.Context(), serveAgent(t, sha1Agent{keyring(t, "rsa-3072").(agent.ExtendedAgent)}), ""))(t)
	_, err := s.Sign(t.Context(), op.Operational, payload(t))
	refused(t, err, refusal.BadSignature, `"ssh-rsa"`)
}

// sha1Agent ignores the flags, as agents did before RFC 8332.
type sha1Agent struct{ agent.ExtendedAgent }

func (a sha1Agent) SignWithFlags(key ssh.PublicKey, data []byte, _ agent.SignatureFlags) (*ssh.Signature, error) {
	return a.ExtendedAgent.SignWithFlags(key, data, 0)
}

func TestAgentKeyIsGoneOrLocked(t *testing.T) {
	t.Parallel()
	ring := keyring(t, "alice")
	socket := serveAgent(t, ring)
	s := must.Get(Agent(t.Context(), socket, ""))(t)
	require.NoError(t, ring.Lock([]byte("x")))
	_, err := s.Sign(t.Context(), op.Operational, payload(t))
	refused(t, err, refusal.Unavailable, "ssh-agent")
	_, err = Agent(t.Context(), socket, "")
	refused(t, err, refusal.UnknownSigner, "holds no key")
	require.Contains(t, refusal.As(err).Hint, "ssh-add -X")
	require.NoError(t, ring.Unlock([]byte("x")))
	require.NoError(t, ring.RemoveAll())
	_, err = s.Sign(t.Context(), op.Operational, payload(t))
	refused(t, err, refusal.Unavailable, "ssh-agent")
}

func TestAgentThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	silent := serve(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := Agent(ctx, silent, "")
	refused(t, err, refusal.Unavailable, "did not answer in time")

	_, err = Agent(t.Context(), serve(t, func(c net.Conn) { _, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) }), "")
	refused(t, err, refusal.Unavailable, "ssh-agent")
	_, err = Agent(t.Context(), serve(t, func(net.Conn) {}), "")
	refused(t, err, refusal.Unavailable, "ssh-agent")
	_, err = Agent(t.Context(), "", "")
	refused(t, err, refusal.Unavailable, "SSH_AUTH_SOCK")
	_, err = Agent(t.Context(), filepath.Join(t.TempDir(), "none"), "")
	refused(t, err, refusal.Unavailable, "no such file")
	_, err = Agent(t.Context(), strings.Repeat("/x", 100), "")
	refused(t, err, refusal.Unavailable, "ssh-agent")

	// The first connection lists, the second hangs until the caller gives up.
	ring, first := keyring(t, "alice"), make(chan struct{}, 1)
	first <- struct{}{}
	half := serve(t, func(c net.Conn) {
		select {
		case <-first:
			_ = agent.ServeAgent(ring, c)
		default:
			_, _ = io.Copy(io.Discard, c)
		}
	})
	s := must.Get(Agent(t.Context(), half, ""))(t)
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = s.Sign(ctx, op.Operational, payload(t))
	refused(t, err, refusal.Unavailable, "given up")
}
