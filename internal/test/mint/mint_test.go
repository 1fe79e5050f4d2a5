package mint_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hiddeco/sshsig"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"gated/internal/test/mint"
	"gated/internal/test/must"
)

var payload = []byte("what is signed")

// everyKey returns one key of each type that OpenSSH verifies.
func everyKey(t *testing.T) []mint.Key {
	return []mint.Key{
		mint.Ed25519(t, "ed"), mint.ECDSA(t, "p256", 256), mint.ECDSA(t, "p384", 384), mint.ECDSA(t, "p521", 521),
		mint.RSA(t, "rsa", 3072), mint.SKEd25519(t, "sk-ed", mint.Touched), mint.SKECDSA(t, "sk-ecdsa", mint.Touched),
	}
}

// keygen runs ssh-keygen in dir and returns what it printed.
func keygen(t *testing.T, dir string, stdin []byte, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command("ssh-keygen", args...)
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func verifies(t *testing.T, line string, s mint.Signature, at string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "signers"), []byte(line), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sig"), []byte(s.Armored()), 0o600))
	return keygen(t, dir, payload, "-Y", "verify", "-f", "signers", "-I", "alice", "-n", "operational@gated", "-s", "sig",
		"-O", "verify-time="+at)
}

// TestOpenSSHVerifies shows that what is minted is what OpenSSH takes for good.
func TestOpenSSHVerifies(t *testing.T) {
	const options, at = `namespaces="operational@gated"`, "20310504120000Z"
	cas := []mint.Key{mint.Ed25519(t, "ca"), mint.RSA(t, "rsa-ca", 3072), mint.SKECDSA(t, "sk-ca", mint.Touched)}
	for _, key := range everyKey(t) {
		for _, hash := range []string{mint.SHA512, mint.SHA256} {
			s := mint.Unsigned(key.Blob(), "operational@gated")
			s.Hash = hash
			out, err := verifies(t, key.Line("alice", options), s.By(t, key, payload), at)
			require.NoError(t, err, "%s %s: %s", key.Type(), hash, out)
			out, err = verifies(t, key.Line("alice", options), s.By(t, key, []byte("other")), at)
			require.Error(t, err, "%s: %s", key.Type(), out)
		}
		for _, ca := range cas {
			cert := mint.Certify(ca, key, "alice")
			s := mint.SignWith(t, cert, key, "operational@gated", payload)
			line := ca.Line("*", "cert-authority,"+options)
			out, err := verifies(t, line, s, at)
			require.NoError(t, err, "%s by %s: %s", cert.Type(), ca.Type(), out)
			cert = cert.Forged(t)
			out, err = verifies(t, line, mint.SignWith(t, cert, key, "operational@gated", payload), at)
			require.Error(t, err, "%s forged: %s", cert.Type(), out)
		}
	}
}

// TestLibrariesVerify shows the same of the libraries.
func TestLibrariesVerify(t *testing.T) {
	for _, key := range append(everyKey(t), mint.DSA(t, "dsa")) {
		s := mint.Sign(t, key, "n", payload)
		parsed := must.Get(sshsig.ParseSignature(s.Blob()))(t, key.Type())
		require.Equal(t, s.Parsed().Format, parsed.Signature.Format)
		require.NoError(t, sshsig.Verify(bytes.NewReader(payload), parsed, key.PublicKey(), sshsig.HashSHA512, "n"), key.Type())
		require.Error(t, sshsig.Verify(strings.NewReader("other"), parsed, key.PublicKey(), sshsig.HashSHA512, "n"), key.Type())
		require.Equal(t, parsed, must.Get(sshsig.Unarmor([]byte(s.Armored())))(t))
	}
}

// TestCertificateSaysWhatWasAsked reads one back with ssh-keygen -L.
func TestCertificateSaysWhatWasAsked(t *testing.T) {
	ca, key := mint.Ed25519(t, "ca"), mint.ECDSA(t, "alice", 256)
	cert := mint.Certify(ca, key, "alice@example.com", "bob")
	cert.Serial, cert.ID, cert.Critical = 42, "an id", []mint.Option{{Name: "force-command", Value: "/bin/true"}}
	cert.ValidAfter = time.Date(2031, 1, 2, 3, 4, 5, 0, time.UTC)
	cert.ValidBefore = cert.ValidAfter.AddDate(0, 0, 1)
	dir := t.TempDir()
	out, err := keygen(t, dir, nil, "-L", "-f", cert.WriteFile(t, dir))
	require.NoError(t, err, out)
	for _, want := range []string{"user certificate", key.Fingerprint(), ca.Fingerprint(), `"an id"`, "Serial: 42",
		"2031-01-02T", "alice@example.com", "bob", "force-command /bin/true", "permit-pty"} {
		require.Contains(t, out, want)
	}
	parsed := cert.Parse(t)
	require.Equal(t, uint64(cert.ValidBefore.Unix()), parsed.ValidBefore)
	require.Equal(t, cert.Blob(t), parsed.Marshal())
	cert.Kind, cert.ValidAfter, cert.ValidBefore, cert.Principals = mint.HostCert, time.Time{}, time.Time{}, nil
	out, err = keygen(t, dir, nil, "-L", "-f", cert.WriteFile(t, dir))
	require.NoError(t, err, out)
	for _, want := range []string{"host certificate", "Valid: forever", "Principals: (none)"} {
		require.Contains(t, out, want)
	}
}

// TestFilesAreOpenSSHs signs with ssh-keygen and a minted file.
func TestFilesAreOpenSSHs(t *testing.T) {
	for _, key := range everyKey(t)[:5] {
		dir := t.TempDir()
		path := key.WriteFile(t, dir)
		out, err := keygen(t, dir, nil, "-l", "-f", path)
		require.NoError(t, err, out)
		require.Contains(t, out, key.Fingerprint()+" "+key.Name)
		armored, err := keygen(t, dir, payload, "-q", "-Y", "sign", "-n", "n", "-f", path)
		require.NoError(t, err, armored)
		parsed := must.Get(sshsig.Unarmor([]byte(armored[strings.Index(armored, "-----BEGIN"):])))(t)
		require.NoError(t, sshsig.Verify(bytes.NewReader(payload), parsed, key.PublicKey(), sshsig.HashSHA512, "n"))
		require.Equal(t, mint.Sign(t, key, "n", payload), mint.Sign(t, mint.ReadFile(t, path), "n", payload), "and it is read back")
	}
}

// TestMintingRepeats: a name is a key, and inputs are a signature.
func TestMintingRepeats(t *testing.T) {
	first, second := everyKey(t), everyKey(t)
	for i := range first {
		require.Equal(t, first[i].Blob(), second[i].Blob())
		require.Equal(t, mint.Sign(t, first[i], "n", payload), mint.Sign(t, second[i], "n", payload), first[i].Type())
	}
	require.NotEqual(t, mint.Ed25519(t, "a").Blob(), mint.Ed25519(t, "b").Blob())
	require.NotEqual(t, mint.ECDSA(t, "a", 256).Blob(), mint.ECDSA(t, "b", 256).Blob())
	require.Equal(t, mint.SKEd25519(t, "a", mint.Touched).Blob(),
		mint.SKEd25519(t, "a", mint.Authenticator{Application: mint.Application, Counter: 9}).Blob(), "flags are no part of a key")
}

// TestAuthenticatorSaysWhatWasAsked: flags and counter are where OpenSSH has
// them, and the library holds to the first.
func TestAuthenticatorSaysWhatWasAsked(t *testing.T) {
	said := mint.Authenticator{Application: mint.Application, Flags: mint.UserVerified, Counter: 258}
	for _, key := range []mint.Key{mint.SKEd25519(t, "a", said), mint.SKECDSA(t, "a", said)} {
		s := mint.Sign(t, key, "n", payload)
		require.Equal(t, []byte{4, 0, 0, 1, 2}, s.Rest)
		parsed := must.Get(sshsig.ParseSignature(s.Blob()))(t)
		err := sshsig.Verify(bytes.NewReader(payload), parsed, key.PublicKey(), sshsig.HashSHA512, "n")
		require.ErrorContains(t, err, "user presence")
	}
}

func TestRSABits(t *testing.T) {
	for _, bits := range []int{1024, 2048} {
		key := mint.RSA(t, "short", bits)
		s := mint.Unsigned(key.Blob(), "n").As(t, key, ssh.KeyAlgoRSA, payload)
		require.Equal(t, ssh.KeyAlgoRSA, s.Format)
		require.Len(t, s.Value, bits/8)
	}
}
