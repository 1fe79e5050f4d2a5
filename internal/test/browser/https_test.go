package browser_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/test/browser"
	"gated/internal/test/must"
	"gated/internal/web/access"
)

// certificate makes one for names below example.com. Its files are console.crt and console.key
// in the directory.
func certificate(t *testing.T, dir string) *x509.Certificate {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	want := x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"*.example.com"}}
	der := must.Get(x509.CreateCertificate(rand.Reader, &want, &want, key.Public(), key))(t)
	write := func(name, kind string, b []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600))
	}
	write("console.crt", "CERTIFICATE", der)
	write("console.key", "PRIVATE KEY", must.Get(x509.MarshalPKCS8PrivateKey(key))(t))
	return must.Get(x509.ParseCertificate(der))(t)
}

// A team's console: https, and a name to which its passkeys are bound. A page of another name
// cannot use them at all.
func TestAConsoleOverHTTPS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert := certificate(t, dir)
	loaded := must.Get(access.LoadCertificate(filepath.Join(dir, "console.crt"), filepath.Join(dir, "console.key"), time.Now,
		slog.New(slog.DiscardHandler)))(t)
	g := newGateAt(t, "", "https://console.example.com", loaded)
	tab := browser.Start(t, cert).Tab(t)
	tab.Authenticator(browser.Phone)
	g.enrol(tab, "carol@example.com")
	require.Contains(t, g.set.All()[0].Trust.Text, "carol@example.com")
	id := g.doomed("web-1", "no longer needed")
	tab.Open(g.address(id))
	g.approve(tab)
	g.ended(id, op.StateSucceeded)
	g.keygenVerifies(id, "carol@example.com")

	tab.Open(strings.Replace(g.origin, "console.", "evil.", 1) + "/sign-in")
	tab.WaitText("body", "pages are not at")
	require.Equal(t, "SecurityError", browser.Eval[string](tab, `navigator.credentials.get({publicKey: {
		challenge: new Uint8Array(32), rpId: "console.example.com"}}).then(() => "signed", (e) => e.name)`))
}
