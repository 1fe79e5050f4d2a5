package hubserver

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/host/hub"
	"gated/internal/test/must"
)

// pair writes a certificate for 127.0.0.1 and its key.
func pair(t *testing.T) (cert, key string) {
	t.Helper()
	private := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0), IsCA: true,
		BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der := must.Get(x509.CreateCertificate(rand.Reader, &template, &template, &private.PublicKey, private))(t)
	secret := must.Get(x509.MarshalPKCS8PrivateKey(private))(t)
	cert, key = filepath.Join(t.TempDir(), "cert"), filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	return cert, key
}

// TestServe: a gate with the hub's certificate and token reads it, and others do
// not.
func TestServe(t *testing.T) {
	w := newWorld(t)
	w.write(web, "pve1", "web.yaml")
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("0123456789abcdef\n"), 0o600))
	cert, key := pair(t)
	urls := make(chan string, 1)
	h, err := New(Config{Dir: w.dir, Listen: "127.0.0.1:0", Cert: cert, Key: key, TokenFile: token, Now: w.now,
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Ready: func(url string, hosts int) { require.Equal(t, 1, hosts); urls <- url }})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(ctx) }()
	url := <-urls
	read := func(ca, token string) error {
		l := hub.New(hub.Config{URL: url, Host: "pve1", CA: ca, TokenFile: token, Timeout: time.Minute})
		docs, err := l.Read(t.Context())
		if err == nil {
			require.Equal(t, "web", docs[0].Set)
		}
		return err
	}
	require.NoError(t, read(cert, token))
	require.ErrorIs(t, read(cert, ""), refusal.NotAllowed)
	require.ErrorIs(t, read("", token), refusal.NotAllowed)
	other, _ := pair(t)
	require.ErrorIs(t, read(other, token), refusal.NotAllowed)
	stop()
	require.NoError(t, <-ended)
	require.ErrorIs(t, read(cert, token), refusal.Unavailable)
}
