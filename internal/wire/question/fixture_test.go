package question

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/test/must"
)

const gateID = op.GateID("0123456789abcdef0123456789abcdef")

func payload(t *testing.T, change func(*op.Payload)) []byte {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p := op.Payload{Gate: gateID, Host: "pve1", Op: "guest.destroy", Target: op.Target{Kind: "guest", Name: "web-1"},
		Incarnation: "a:1:2", State: op.FingerprintOf(nil), Params: op.Params{}, Nonce: op.NewNonce(at), IssuedAt: at,
		ExpiresAt: at.Add(time.Hour)}
	change(&p)
	return must.Get(p.Encode())(t)
}

// requestOf is how a gate describes a request that waits with these bytes.
func requestOf(t *testing.T, b []byte) api.Request {
	p := must.Get(op.DecodePayload(b))(t)
	return api.Request{ID: "j1.1", State: op.StatePending, Op: p.Op, Host: p.Host, Gate: p.Gate, Target: p.Target.String(),
		Incarnation: p.Incarnation, StateFingerprint: p.State, Params: p.Params, Reason: p.Reason, PayloadSHA256: op.SHA256(b)}
}

// questionOf is what was shown of a request that waits with these bytes.
func questionOf(t *testing.T, b []byte) Question {
	return Question{Request: requestOf(t, b), Bytes: b, Payload: must.Get(op.DecodePayload(b))(t)}
}

// fetch fetches j1.1 from a gate whose request j1.1 has these bytes, whatever else it says of the request.
func fetch(t *testing.T, payload []byte, r api.Request) (Question, error) {
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/requests/j1.1", func(w http.ResponseWriter, _ *http.Request) {
		b, err := api.Encode(r)
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
		}
		_, _ = w.Write(b)
	})
	mux.HandleFunc("/v1/requests/j1.1/payload", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(payload) })
	dir := must.Get(os.MkdirTemp("", "gq"))(t) // short, for the socket
	defer func() { require.NoError(t, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "s")
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	ended := make(chan struct{})
	l := must.Get(net.Listen("unix", path))(t)
	go func() {
		defer close(ended)
		_ = srv.Serve(l) // until it is closed
	}()
	defer func() {
		require.NoError(t, srv.Close())
		<-ended
	}()
	cl := must.Get(client.New(client.Options{Socket: path}))(t)
	defer cl.Close()
	return Fetch(t.Context(), cl, api.Status{Host: "pve1", Gate: gateID}, "j1.1")
}
