package access

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// pair writes a new certificate of console.example.com with its key.
func pair(t *testing.T, dir, name string) (cert *x509.Certificate) {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		DNSNames: []string{"console.example.com"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))(t)
	b := must.Get(x509.MarshalPKCS8PrivateKey(key))(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cert.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: b}), 0o600))
	return must.Get(x509.ParseCertificate(der))(t)
}

func certificateIn(dir string, now func() time.Time) (*Certificate, error) {
	return LoadCertificate(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), now, slog.New(slog.DiscardHandler))
}

// serving serves a wall whose pages are next.
func serving(t *testing.T, w *Wall, next http.Handler, cert *Certificate) (addr string, stop func()) {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Serve(ctx, next, cert, l) }()
	stop = func() {
		cancel()
		require.NoError(t, <-ended)
		ended <- nil
	}
	t.Cleanup(stop)
	return l.Addr().String(), stop
}

func TestTLS(t *testing.T) {
	dir, clock := t.TempDir(), &clock{at: time.Now()}
	first := pair(t, dir, "first")
	cert := must.Get(certificateIn(dir, clock.now))(t)
	w := must.Get(New(Config{Origins: []string{team}, Now: time.Now}))(t)
	w.Open("/")
	addr, _ := serving(t, w, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(rw, r.Proto) }), cert)

	get := func() (proto string, name string) {
		tr := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
			}}
		defer tr.CloseIdleConnections()
		resp := must.Get((&http.Client{Transport: tr}).Get(team + "/"))(t)
		defer resp.Body.Close()
		return text(t, resp), resp.TLS.PeerCertificates[0].Subject.CommonName
	}
	proto, name := get()
	require.Equal(t, "HTTP/2.0", proto)
	require.Equal(t, first.Subject.CommonName, name)

	pair(t, dir, "second")
	_, name = get()
	require.Equal(t, "first", name, "it is not looked at for each handshake")
	clock.pass(certificateLook)
	_, name = get()
	require.Equal(t, "second", name)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "cert.pem"), []byte("x"), 0o600))
	require.ErrorIs(t, cert.Reload(), refusal.Malformed)
	clock.pass(certificateLook)
	_, name = get()
	require.Equal(t, "second", name, "the last good one stays")
	pair(t, dir, "third")
	require.NoError(t, cert.Reload())
	_, name = get()
	require.Equal(t, "third", name)

	c := must.Get(tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}))(t)
	require.NoError(t, c.Close())
	must.Err(tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11}))(t)
}

func TestBadCertificates(t *testing.T) {
	dir := t.TempDir()
	must.Fail(certificateIn(dir, time.Now))(t, refusal.Malformed)
	pair(t, dir, "x")
	key := filepath.Join(dir, "key.pem")
	require.NoError(t, os.Chmod(key, 0o644))
	must.Fail(certificateIn(dir, time.Now))(t, refusal.NotAllowed)
	require.NoError(t, os.Chmod(key, 0o640))
	must.Get(certificateIn(dir, time.Now))(t)
	other := t.TempDir()
	pair(t, other, "y")
	must.Fail(LoadCertificate(filepath.Join(dir, "cert.pem"), filepath.Join(other, "key.pem"), time.Now, nil))(t, refusal.Malformed)
}

func TestServeEnds(t *testing.T) {
	h := own(t)
	h.Wall.config.Now = time.Now
	w := h.Wall
	opened, over := make(chan struct{}), make(chan struct{})
	w.Open("/stream")
	addr, stop := serving(t, w, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, rec := w.sessions.add(Session{Local: true})
		ctx, done, err := w.Stream(r.WithContext(context.WithValue(r.Context(), sessionKey{}, rec)))
		if err != nil {
			return
		}
		defer done()
		close(opened)
		<-ctx.Done()
		close(over)
	}), nil)
	c := must.Get(net.Dial("tcp", addr))(t)
	defer c.Close()
	must.Get(fmt.Fprintf(c, "GET /stream HTTP/1.1\r\nHost: localhost:7480\r\n\r\n"))(t)
	<-opened
	stop()
	<-over
	must.Err(net.Dial("tcp", addr))(t)
}

// A body that stops half way is refused, and reaches no page.
func TestABrokenBody(t *testing.T) {
	w := must.Get(New(Config{Origins: []string{local}, Now: time.Now}))(t)
	w.Open("/")
	addr, _ := serving(t, w, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it reached a page") }), nil)
	c := must.Get(net.Dial("tcp", addr))(t)
	defer c.Close()
	must.Get(fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: localhost:7480\r\nOrigin: %s\r\nContent-Length: 100\r\n\r\nhalf", local))(t)
	require.NoError(t, c.(*net.TCPConn).CloseWrite())
	line := must.Get(bufio.NewReader(c).ReadString('\n'))(t)
	require.True(t, strings.HasPrefix(line, "HTTP/1.1 400 "), line)
}

func TestConnectionsAreBounded(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	b := &bounded{Listener: l, places: make(chan struct{}, 2), closed: make(chan struct{}), ends: time.Now}
	var in []net.Conn
	for range 3 {
		c := must.Get(net.Dial("tcp", l.Addr().String()))(t)
		defer c.Close()
	}
	for range 2 {
		in = append(in, must.Get(b.Accept())(t))
	}
	third := make(chan error, 1)
	go func() {
		_, err := b.Accept()
		third <- err
	}()
	select {
	case <-third:
		t.Error("a third place")
	case b.places <- struct{}{}:
		t.Error("there was a place")
	default:
	}
	require.NoError(t, in[0].Close())
	require.Error(t, in[0].Close(), "a second time gives no second place back")
	require.NoError(t, <-third)
	go func() {
		_, err := b.Accept()
		third <- err
	}()
	require.NoError(t, b.Close())
	require.ErrorIs(t, <-third, net.ErrClosed)
}
