package matrix_test

import (
	"bytes"
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
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	peers "gated/internal/host/members"
	"gated/internal/host/server"
	"gated/internal/test/must"
)

// memberGate is the gate of a world as the active member node1, beside node2 and node3. The certificate of old expired.
type memberGate struct {
	w     *world
	at    string
	certs map[string]tls.Certificate
}

// memberCert makes a certificate, and returns the files too.
func memberCert(w *world, dir, name string, until time.Time) (cert tls.Certificate, crt, key string) {
	w.t.Helper()
	k := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(w.t)
	// The name inside is always node2: only the fingerprint counts.
	c := x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "node2"}, NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: until}
	der := must.Get(x509.CreateCertificate(rand.Reader, &c, &c, &k.PublicKey, k))(w.t)
	crt, key = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	require.NoError(w.t, os.WriteFile(crt, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(w.t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must.Get(x509.MarshalPKCS8PrivateKey(k))(w.t)}), 0o600))
	return must.Get(tls.LoadX509KeyPair(crt, key))(w.t), crt, key
}

func (w *world) members() *memberGate {
	w.t.Helper()
	m := &memberGate{w: w, certs: map[string]tls.Certificate{}}
	dir := must.Get(os.MkdirTemp("", "gm"))(w.t)
	w.cleanup(func() { _ = os.RemoveAll(dir) })
	named := map[string]peers.Peer{}
	var own [2]string
	for _, name := range []string{"node1", "node2", "node3", "old", "stranger"} {
		until := time.Now().Add(time.Hour)
		if name == "old" {
			until = time.Now().Add(-time.Hour)
		}
		cert, crt, key := memberCert(w, dir, name, until)
		m.certs[name] = cert
		if name == "node1" {
			own = [2]string{crt, key}
		}
		if name != "stranger" {
			named[name] = peers.Peer{Address: "127.0.0.1:1", Fingerprint: peers.Fingerprint(must.Get(x509.ParseCertificate(cert.Certificate[0]))(w.t))}
		}
	}
	id := must.Get(peers.Load(peers.Settings{Gate: w.gate.ID(), Self: "node1", Members: named, Certificate: own[0], Key: own[1], Now: time.Now}))(w.t)
	s := server.New(server.Config{Gate: w.gate, UID: daemonUID, Operators: []uint32{1000}, Refused: w.gate.NoteRefused, Now: time.Now, Logger: slog.New(slog.DiscardHandler),
		Members: &server.Members{Self: "node1", Gate: w.gate.ID(), Took: id.Server(), Who: id.Who, Decides: func() error { return nil },
			Group: func(context.Context) (uint64, error) { return 0, nil }}})
	socket := must.Get(server.Listen(filepath.Join(dir, "s"), -1))(w.t)
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(w.t)
	m.at = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- s.Serve(ctx, socket) }()
	go func() { ended <- s.ServeMembers(ctx, l) }()
	w.cleanup(func() { cancel(); <-ended; <-ended; _ = socket.Close() })
	return m
}

// caller is the header of a uid of the member that calls.
func (m *memberGate) caller(uid uint32) string {
	return peers.Call{Gate: m.w.gate.ID(), UID: uid, PID: 7}.String()
}

// send sends a call with a member's certificate; unreachable is one that got no answer.
func (m *memberGate) send(cert string, version uint16, header http.Header, method, path, body string) error {
	m.w.t.Helper()
	c := &tls.Config{InsecureSkipVerify: true, MaxVersion: version} // the attacker does not care whom it meets
	if cert != "" {
		c.Certificates = []tls.Certificate{m.certs[cert]}
	}
	t := &http.Transport{TLSClientConfig: c}
	defer t.CloseIdleConnections()
	return m.over(t, "https", header, method, path, body)
}

func (m *memberGate) over(t *http.Transport, scheme string, header http.Header, method, path, body string) error {
	m.w.t.Helper()
	r := must.Get(http.NewRequest(method, scheme+"://"+m.at+path, strings.NewReader(body)))(m.w.t)
	r.Header = header.Clone()
	if body != "" && r.Header.Get("Content-Type") == "" {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := t.RoundTrip(r)
	if err != nil {
		return refusal.New(unreachable, "%v", err)
	}
	defer resp.Body.Close()
	b := must.Get(io.ReadAll(resp.Body))(m.w.t)
	if resp.StatusCode == http.StatusBadRequest && !bytes.HasPrefix(bytes.TrimSpace(b), []byte("{")) {
		return refusal.New(unreachable, "%s", b)
	}
	return problem(m.w.t, b)
}

// from is send as a uid of a member, with its own certificate.
func (m *memberGate) from(member string, uid uint32, method, path, body string) error {
	m.w.t.Helper()
	return m.send(member, 0, http.Header{peers.CallerHeader: {m.caller(uid)}}, method, path, body)
}

const memberWish = `{"op":"guest.destroy","target":"guest/victim"}`

// memberRows: another host attacks the member that decides, with certificates, or a member that was taken over does.
var memberRows = []attack{
	{id: "H16a", what: "a certificate that gated.yaml does not name, with a member's name in it, none at all, and one that expired", want: unreachable, run: func(w *world) error {
		m := w.members()
		w.armUnlogged("a connection has no caller")
		h := http.Header{peers.CallerHeader: {m.caller(0)}}
		for _, cert := range []string{"stranger", "", "node1"} {
			require.ErrorContains(w.t, m.send(cert, 0, h, "POST", "/v1/jobs", memberWish), "tls: ", cert)
		}
		return m.send("old", 0, h, "POST", "/v1/jobs", memberWish)
	}},
	{id: "H16b", what: "plain HTTP, and TLS 1.2, with a member's own certificate", want: unreachable, run: func(w *world) error {
		m := w.members()
		w.armUnlogged("a connection has no caller")
		h := http.Header{peers.CallerHeader: {m.caller(0)}}
		t := &http.Transport{}
		defer t.CloseIdleConnections()
		require.Equal(w.t, unreachable, refusal.CodeOf(m.over(t, "http", h, "POST", "/v1/jobs", memberWish)))
		return m.send("node2", tls.VersionTLS12, h, "POST", "/v1/jobs", memberWish)
	}},
	{id: "H16c", what: "a member names callers of another member, two callers, none, another gate, or a token", want: refusal.Malformed, run: func(w *world) error {
		m := w.members()
		w.armUnlogged("it has no caller")
		other := peers.Call{Gate: "0000", UID: 0, PID: 7}.String()
		require.ErrorIs(w.t, m.send("node2", 0, http.Header{peers.CallerHeader: {other}}, "POST", "/v1/jobs", memberWish), refusal.TargetMismatch)
		require.ErrorIs(w.t, m.send("node2", 0, http.Header{peers.CallerHeader: {m.caller(0)}, api.TokenHeader: {"x"}}, "POST", "/v1/jobs", memberWish), refusal.Malformed)
		gate := string(w.gate.ID())
		for _, values := range [][]string{nil, {m.caller(0), m.caller(1)}, {"v1 " + gate + " 0@node1 7 -"}, {"v1 " + gate + " 0 7 - node1"}, {"v1 " + gate + " 0 7 -@node1"}} {
			require.ErrorIs(w.t, m.send("node2", 0, http.Header{peers.CallerHeader: values}, "POST", "/v1/jobs", memberWish), refusal.Malformed, values)
		}
		return m.send("node2", 0, http.Header{peers.CallerHeader: {"v1 " + gate + " 0 7 uid:0@node1"}}, "POST", "/v1/jobs", memberWish)
	}},
	{id: "H16d", what: "a member claims an agent that is not its own", want: refusal.NotAllowed, run: func(w *world) error {
		m := w.members()
		w.armUnlogged("it has no caller")
		call := peers.Call{Gate: w.gate.ID(), UID: 1000, PID: 7, Agent: "builder#1"}
		return m.send("node2", 0, http.Header{peers.CallerHeader: {call.String()}}, "POST", "/v1/jobs", memberWish)
	}},
	{id: "H16e", what: "root of another member, and a listed operator's uid there, act as operators", want: refusal.NotAllowed, run: func(w *world) error {
		m := w.members()
		r := w.destroyRequest()
		w.arm()
		for _, uid := range []uint32{0, 1000, daemonUID} {
			require.ErrorIs(w.t, m.from("node2", uid, "PUT", "/v1/desired/hub", document("  - name: victim\n    state: absent\n")), refusal.NotAllowed)
			require.ErrorIs(w.t, m.from("node2", uid, "POST", "/v1/reload", ""), refusal.NotAllowed)
			require.ErrorIs(w.t, m.from("node2", uid, "POST", "/v1/canary/1/accept", ""), refusal.NotAllowed)
		}
		return m.from("node2", 0, "DELETE", "/v1/jobs/"+r.ID.Job.String(), "")
	}},
	{id: "H16f", what: "a member's caller approves with a signature of a key that is not listed, and calls itself root of the active host", want: refusal.UnknownSigner, run: func(w *world) error {
		m := w.members()
		r := w.destroyRequest()
		w.arm()
		body := string(must.Get(api.Encode(api.EnvelopeOf(r.Payload, w.mallory.sign(w.t, op.Operational, r.Payload))))(w.t))
		h := http.Header{peers.CallerHeader: {m.caller(0)}, "Gated-Peer-Uid": {"0"}, "X-Forwarded-User": {"root"}}
		return m.send("node2", 0, h, "POST", "/v1/requests/"+r.ID.String()+"/approve", body)
	}},
	{id: "H16g", what: "an approval that a member forwarded is sent again, by it and by another member", want: refusal.Replayed, run: func(w *world) error {
		m := w.members()
		r := w.reread(must.Get(w.says(hub, "it goes", ask("guest.destroy", "bystander")))(w.t).Steps[0].ID)
		e := w.envelopeOf(r)
		body := string(must.Get(api.Encode(api.EnvelopeOf(e.Payload, e.Signatures...)))(w.t))
		path := "/v1/requests/" + r.ID.String() + "/approve"
		require.NoError(w.t, m.from("node2", 1000, "POST", path, body))
		require.NoError(w.t, w.runAll())
		w.arm()
		require.ErrorIs(w.t, m.from("node2", 1000, "POST", path, body), refusal.Replayed)
		return m.from("node3", 1000, "POST", path, body)
	}},
	{id: "H16h", what: "a job that waits is withdrawn by the same uid of another member", want: refusal.NotAllowed, run: func(w *world) error {
		m := w.members()
		h := http.Header{peers.CallerHeader: {m.caller(1000)}}
		require.NoError(w.t, m.send("node2", 0, h, "POST", "/v1/jobs", `{"op":"guest.destroy","target":"guest/victim"}`))
		rs := must.Get(w.gate.Requests(w.ctx, op.StatePending))(w.t)
		w.arm()
		return m.from("node3", 1000, "DELETE", fmt.Sprintf("/v1/jobs/%v", rs[len(rs)-1].ID.Job), "")
	}},
	{id: "H16i", what: "a member has a call forwarded for a path that each member answers itself", want: refusal.NotAllowed, run: func(w *world) error {
		m := w.members()
		w.arm()
		for _, path := range []string{"/v1/agents/self", "/v1/reservations", "/v1/backup"} {
			require.ErrorIs(w.t, m.from("node2", 0, "GET", path, ""), refusal.NotAllowed, path)
		}
		require.ErrorIs(w.t, m.from("node2", 0, "POST", "/v1/takeover", ""), refusal.NotAllowed)
		return m.from("node2", 0, "POST", "/v1/agents", `{"name":"x","pid":1}`)
	}},
}
