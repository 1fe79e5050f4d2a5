package members

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// two returns the identities of node1, which listens, and of node2.
func two(t *testing.T, l net.Listener) (node1, node2 *Identity) {
	dir := t.TempDir()
	peers := map[string]Peer{}
	files := map[string][2]string{}
	for _, name := range []string{"node1", "node2"} {
		k := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
		c := x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
		der := must.Get(x509.CreateCertificate(rand.Reader, &c, &c, &k.PublicKey, k))(t)
		crt, key := filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
		require.NoError(t, os.WriteFile(crt, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
		require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must.Get(x509.MarshalPKCS8PrivateKey(k))(t)}), 0o600))
		files[name] = [2]string{crt, key}
		peers[name] = Peer{Address: l.Addr().String(), Fingerprint: Fingerprint(must.Get(x509.ParseCertificate(der))(t))}
	}
	load := func(name string) *Identity {
		return must.Get(Load(Settings{Gate: "g", Self: name, Members: peers, Certificate: files[name][0], Key: files[name][1], Now: time.Now}))(t)
	}
	return load("node1"), load("node2")
}

// A member whose program is stopped acknowledges calls, and answers none.
func TestAnAnswerThatDoesNotBegin(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	node1, node2 := two(t, l)
	got, end := make(chan struct{}, 2), make(chan struct{})
	answers := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
		}
		got <- struct{}{}
		<-end
		_, _ = w.Write([]byte("done"))
	})}
	ended := make(chan error, 1)
	go func() { ended <- answers.Serve(tls.NewListener(l, node1.Server())) }()
	f := NewForwarder(node2)
	call := func(ctx context.Context, within time.Duration, path string) (*http.Response, error) {
		return f.Send(ctx, within, "node1", Call{Gate: "g", UID: 1}, must.Get(http.NewRequest(http.MethodPost, path, http.NoBody))(t), []byte("{}"))
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err := call(ctx, 2*time.Second, "/v1/jobs")
	require.ErrorIs(t, err, refusal.Unavailable)
	require.ErrorContains(t, err, "what was asked may have happened")
	require.NoError(t, ctx.Err())
	<-got

	go func() { <-got; cancel() }()
	_, err = call(ctx, time.Hour, "/v1/jobs")
	require.ErrorIs(t, err, context.Canceled, "the caller is gone")

	// An answer that has begun may take its time.
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	within := 5 * time.Second
	began := time.Now()
	resp := must.Get(call(ctx, within, "/slow"))(t)
	<-got
	late := time.NewTimer(time.Until(began.Add(within + 100*time.Millisecond)))
	<-late.C
	close(end)
	require.Equal(t, "done", string(must.Get(io.ReadAll(resp.Body))(t)))
	require.NoError(t, resp.Body.Close())
	f.Close()
	require.NoError(t, answers.Shutdown(t.Context()))
	require.ErrorIs(t, <-ended, http.ErrServerClosed)
}

// The kernel gives up data that no member acknowledges.
func TestUnacknowledgedDataIsSoonLost(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	_, node2 := two(t, l)
	conn := must.Get(NewForwarder(node2).transport("node1").DialContext(t.Context(), "tcp", l.Addr().String()))(t)
	defer conn.Close()
	raw := must.Get(conn.(*net.TCPConn).SyscallConn())(t)
	var ms int
	var err error
	require.NoError(t, raw.Control(func(fd uintptr) { ms, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT) }))
	require.NoError(t, err)
	require.Equal(t, lostTime, time.Duration(ms)*time.Millisecond)
}
