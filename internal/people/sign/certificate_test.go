package sign

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

// authorityVerifies asks the real ssh-keygen with a cert-authority line.
func authorityVerifies(t testing.TB, caFile, principal string, payload []byte, armored string) error {
	t.Helper()
	dir := t.TempDir()
	ca := must.Get(os.ReadFile(caFile))(t)
	allowed, sig := filepath.Join(dir, "allowed_signers"), filepath.Join(dir, "sig")
	line := fmt.Sprintf("*@example.com cert-authority,namespaces=%q %s", op.Operational.Namespace(), ca)
	require.NoError(t, os.WriteFile(allowed, []byte(line), 0o600))
	require.NoError(t, os.WriteFile(sig, []byte(armored), 0o600))
	cmd := exec.Command(program(t, "ssh-keygen"), "-Y", "verify", "-f", allowed, "-I", principal,
		"-n", op.Operational.Namespace(), "-s", sig)
	cmd.Stdin = bytes.NewReader(payload)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func TestCertificateSignsAsSSHKeygen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca := mint.ECDSA(t, "ca", 384)
	ca.WriteFile(t, dir)
	for _, key := range []mint.Key{mint.Ed25519(t, "ed"), mint.RSA(t, "rsa", 3072), mint.ECDSA(t, "ec", 256)} {
		path := key.WriteFile(t, dir)
		certPath := mint.Certify(ca, key, "alice@example.com").WriteFile(t, dir)
		cert := must.Get(ReadCertificate(certPath))(t)
		require.Equal(t, ca.Fingerprint(), cert.CA)
		require.Equal(t, key.Fingerprint(), cert.Fingerprint)
		s := must.Get(KeyFile(path, nil))(t)
		s = must.Get(Certified(s, cert))(t)
		ours := must.Get(s.Sign(t.Context(), op.Operational, payload(t)))(t)
		require.NoError(t, authorityVerifies(t, filepath.Join(dir, "ca.pub"), "alice@example.com", payload(t), ours))

		cmd := exec.Command(program(t, "ssh-keygen"), "-Y", "sign", "-n", op.Operational.Namespace(), "-f", certPath)
		cmd.Stdin = bytes.NewReader(payload(t))
		theirs := must.Get(cmd.Output())(t)
		if strings.HasPrefix(key.Type(), "ecdsa") { // whose signatures are random: all before them is the same
			require.Equal(t, strings.Split(string(theirs), "\n")[:8], strings.Split(ours, "\n")[:8])
			continue
		}
		require.Equal(t, string(theirs), ours)
	}
}

func TestReadCertificateRefuses(t *testing.T) {
	t.Parallel()
	ca, key := mint.Ed25519(t, "ca"), mint.Ed25519(t, "key")
	good := func() mint.Cert { return mint.Certify(ca, key, "alice") }
	of := func(change func(*mint.Cert)) mint.Cert {
		c := good()
		change(&c)
		return c
	}
	for name, c := range map[string]struct {
		cert mint.Cert
		code refusal.Code
		says string
	}{
		"of a host":           {of(func(c *mint.Cert) { c.Kind = mint.HostCert }), refusal.UnknownSigner, "of a host"},
		"for everybody":       {of(func(c *mint.Cert) { c.Principals = nil }), refusal.UnknownSigner, "has 0 principals"},
		"for two":             {of(func(c *mint.Cert) { c.Principals = []string{"alice", "bob"} }), refusal.UnknownSigner, "has 2 principals"},
		"forged":              {good().Forged(t), refusal.BadSignature, "does not verify"},
		"of a short key":      {of(func(c *mint.Cert) { c.Key = mint.RSA(t, "short", 2048) }), refusal.WeakKey, "too weak"},
		"by a short key":      {of(func(c *mint.Cert) { c.CA = mint.RSA(t, "short", 2048) }), refusal.WeakKey, "CA: "},
		"signed with SHA-1":   {of(func(c *mint.Cert) { c.CA, c.Algorithm = mint.RSA(t, "ca", 3072), ssh.KeyAlgoRSA }), refusal.WeakKey, "SHA-1"},
		"of an unknown kind":  {of(func(c *mint.Cert) { c.Kind = 3 }), refusal.UnknownSigner, "of a host"},
		"with an empty name":  {of(func(c *mint.Cert) { c.Principals = []string{""} }), refusal.UnknownSigner, "principals"},
		"by another than its": {of(func(c *mint.Cert) { c.CABlob = mint.Ed25519(t, "other").Blob() }), refusal.BadSignature, "does not verify"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadCertificate(c.cert.WriteFile(t, t.TempDir()))
			refused(t, err, c.code, c.says)
		})
	}
	_, err := ReadCertificate(filepath.Join(t.TempDir(), "none"))
	refused(t, err, refusal.Unavailable, "no such file")
	_, err = ReadCertificate(key.WriteFile(t, t.TempDir()) + ".pub")
	refused(t, err, refusal.Malformed, "is a key, not a certificate")
	_, err = ReadCertificate(keyFile(t, []byte("a diary")))
	refused(t, err, refusal.Malformed, "no public key")
	_, err = ReadCertificate(keyFile(t, []byte(good().Text(t)+" one\n"+key.Text()+" two\n")))
	refused(t, err, refusal.Malformed, "several")
	c := must.Get(ReadCertificate(good().WriteFile(t, t.TempDir())))(t)
	s := must.Get(KeyFile(mint.Ed25519(t, "other").WriteFile(t, t.TempDir()), nil))(t)
	_, err = Certified(s, c)
	refused(t, err, refusal.UnknownSigner, "of the key "+key.Fingerprint())
}

func TestCertificateValidAt(t *testing.T) {
	t.Parallel()
	from := time.Date(2031, 5, 4, 12, 0, 0, 0, time.UTC)
	c := mint.Certify(mint.Ed25519(t, "ca"), mint.Ed25519(t, "key"), "alice")
	c.ValidAfter, c.ValidBefore = from, from.Add(time.Hour)
	cert := must.Get(ReadCertificate(c.WriteFile(t, t.TempDir())))(t)
	for at, ok := range map[time.Duration]bool{-time.Second: false, 0: true, time.Hour - time.Second: true, time.Hour: false} {
		err := cert.ValidAt(from.Add(at))
		if ok {
			require.NoError(t, err, at)
			continue
		}
		require.ErrorIs(t, err, refusal.SignerExpired, at)
	}
	c.ValidAfter, c.ValidBefore = time.Time{}, time.Time{}
	cert = must.Get(ReadCertificate(c.WriteFile(t, t.TempDir())))(t)
	require.True(t, cert.ValidBefore.IsZero())
	require.NoError(t, cert.ValidAt(from.AddDate(500, 0, 0)))
}
