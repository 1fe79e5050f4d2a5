package sign

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// realAgent is OpenSSH's own.
type realAgent struct{ socket string }

func startAgent(t *testing.T) realAgent {
	t.Helper()
	dir := must.Get(os.MkdirTemp("", "agent"))(t)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	a := realAgent{filepath.Join(dir, "s")}
	cmd := exec.CommandContext(t.Context(), program(t, "ssh-agent"), "-D", "-a", a.socket)
	stdout := must.Get(cmd.StdoutPipe())(t)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	_, err := bufio.NewReader(stdout).ReadString('\n') // it prints SSH_AUTH_SOCK when it listens
	require.NoError(t, err)
	return a
}

func (a realAgent) add(t *testing.T, args ...string) {
	t.Helper()
	run := exec.Command(program(t, "ssh-add"), append([]string{"-q"}, args...)...)
	run.Env = append(os.Environ(), "SSH_AUTH_SOCK="+a.socket)
	out, err := run.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// keygen runs the real ssh-keygen.
func keygen(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.Command(program(t, "ssh-keygen"), append([]string{"-q"}, args...)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func TestRealAgent(t *testing.T) {
	t.Parallel()
	real := startAgent(t)
	for i, name := range keyNames {
		real.add(t, privateCopy(t, name))
		s := must.Get(Agent(t.Context(), real.socket, fingerprint(t, name)))(t)
		require.False(t, s.SecurityKey())
		armored := must.Get(s.Sign(t.Context(), op.Operational, payload(t)))(t)
		require.NoError(t, opensshVerifies(t, s.PublicKey(), op.Operational, payload(t), armored))
		held := must.Get(Identities(t.Context(), real.socket))(t)
		require.Len(t, held, i+1)
		require.Equal(t, "gated test key, do not trust", held[i].Comment)
		require.Nil(t, held[i].Refused)
	}
}

// A real CA, a real agent that holds key and certificate, and a real verifier.
func TestRealAgentWithCertificates(t *testing.T) {
	t.Parallel()
	real, dir := startAgent(t), t.TempDir()
	ca := filepath.Join(dir, "ca")
	keygen(t, "-t", "ed25519", "-N", "", "-f", ca)
	for _, kind := range [][]string{{"ed25519"}, {"ecdsa", "-b", "256"}, {"ecdsa", "-b", "521"}, {"rsa", "-b", "3072"}} {
		key := filepath.Join(dir, kind[0])
		_ = os.Remove(key) // of the round before
		keygen(t, append([]string{"-N", "", "-C", "a key", "-f", key, "-t"}, kind...)...)
		keygen(t, "-s", ca, "-I", "alice at work", "-n", "alice@example.com", "-V", "-5m:+1h", key+".pub")
		cert := must.Get(ReadCertificate(key + "-cert.pub"))(t)
		require.Equal(t, []string{"alice@example.com"}, cert.Principals)
		require.Equal(t, "alice at work", cert.KeyID)
		require.NoError(t, cert.ValidAt(time.Now()))

		// ssh-add takes the certificate beside the key too.
		real.add(t, key)
		plain := must.Get(Agent(t.Context(), real.socket, cert.Fingerprint))(t)
		require.Equal(t, cert.KeyType, plain.PublicKey().Type(), "the key, not its certificate")
		armored := must.Get(plain.Sign(t.Context(), op.Operational, payload(t)))(t)
		require.NoError(t, opensshVerifies(t, plain.PublicKey(), op.Operational, payload(t), armored))

		signsWithCertificate := func() {
			s := must.Get(AgentCertified(t.Context(), real.socket, cert))(t)
			require.IsType(t, &ssh.Certificate{}, s.PublicKey())
			require.Equal(t, cert.Fingerprint, s.Fingerprint())
			armored := must.Get(s.Sign(t.Context(), op.Operational, payload(t)))(t)
			require.NoError(t, authorityVerifies(t, ca+".pub", "alice@example.com", payload(t), armored))
			require.Error(t, authorityVerifies(t, ca+".pub", "bob@example.com", payload(t), armored))
			require.Error(t, opensshVerifies(t, plain.PublicKey(), op.Operational, payload(t), armored))
		}
		signsWithCertificate()

		// The certificate alone, as tools of a CA load it.
		real.add(t, "-d", key)
		_, err := Agent(t.Context(), real.socket, cert.Fingerprint)
		refused(t, err, refusal.UnknownSigner, "")
		_, err = AgentCertified(t.Context(), real.socket, cert)
		refused(t, err, refusal.UnknownSigner, "")
		addCertificateAlone(t, real, key)
		_, err = Agent(t.Context(), real.socket, cert.Fingerprint)
		refused(t, err, refusal.UnknownSigner, "only a certificate")
		signsWithCertificate()
		real.add(t, "-D")
	}
}

// addCertificateAlone leaves an agent with the certificate and without the key.
func addCertificateAlone(t *testing.T, real realAgent, key string) {
	t.Helper()
	real.add(t, key)
	alone := filepath.Join(t.TempDir(), "alone.pub") // a path without a certificate beside it
	public := must.Get(os.ReadFile(key + ".pub"))(t)
	require.NoError(t, os.WriteFile(alone, public, 0o600))
	real.add(t, "-d", alone)
}
