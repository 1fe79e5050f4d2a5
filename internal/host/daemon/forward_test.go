package daemon_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/members"
	"gated/internal/test/must"
	"gated/internal/test/ports"
)

// certificate makes a member's certificate and key, and returns the files and the fingerprint.
func certificate(w *world, name string, until time.Time) (crt, key, fingerprint string) {
	k := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(w.t)
	c := x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: until}
	der := must.Get(x509.CreateCertificate(rand.Reader, &c, &c, &k.PublicKey, k))(w.t)
	encoded := must.Get(x509.MarshalPKCS8PrivateKey(k))(w.t)
	crt = w.file(name+".crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	key = w.file(name+".key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})))
	return crt, key, members.Fingerprint(must.Get(x509.ParseCertificate(der))(w.t))
}

// forwarding is a group whose standby forwards its callers' calls.
type forwarding struct {
	*group
	address map[string]string // of each member
	files   map[string][2]string
	prints  map[string]string
}

func newForwarding(t *testing.T) *forwarding {
	g := &forwarding{group: newFirst(t), address: map[string]string{}, files: map[string][2]string{}, prints: map[string]string{}}
	for _, m := range []*groupMember{g.first, g.second} {
		crt, key, fp := certificate(m.world, m.name, time.Now().Add(time.Hour))
		g.address[m.name], g.files[m.name], g.prints[m.name] = fmt.Sprintf("127.0.0.1:%d", ports.Free(t)), [2]string{crt, key}, fp
	}
	g.second.signer = g.first.signer
	g.write(g.first)
	g.join(g.second)
	text := g.read(g.second)
	for i, key := range g.files["node1"] {
		text = strings.ReplaceAll(text, key, g.files["node2"][i])
	}
	text = strings.Replace(text, "listen: \""+g.address["node1"], "listen: \""+g.address["node2"], 1)
	g.store(g.second, text)
	return g
}

func (g *forwarding) read(m *groupMember) string {
	return string(must.Get(os.ReadFile(filepath.Join(m.state, "gated.yaml")))(g.t))
}

func (g *forwarding) store(m *groupMember, text string) {
	require.NoError(g.t, os.WriteFile(filepath.Join(m.state, "gated.yaml"), []byte(text), 0o600))
}

// write adds the members to a member's gated.yaml.
func (g *forwarding) write(m *groupMember) {
	lines := fmt.Sprintf("  listen: %q\n  certificate: %q\n  key: %q\n  members:\n", g.address[m.name], g.files[m.name][0], g.files[m.name][1])
	for name, address := range g.address {
		lines += fmt.Sprintf("    %s: {address: %q, fingerprint: %q}\n", name, address, g.prints[name])
	}
	text := g.read(m)
	require.Contains(g.t, text, "  lease: 3s\n")
	g.store(m, strings.Replace(text, "  lease: 3s\n", "  lease: 3s\n"+lines, 1))
}

// begin starts both, the first one as the active member, which takes calls then.
func (g *forwarding) start() {
	from := len(g.first.log.String())
	g.first.start(api.RoleActive)
	g.second.start(api.RoleStandby)
	g.first.log.await(g.t, from, "other members' calls are answered")
}

// who is the caller of this test on a member's socket.
func who(member string) string { return fmt.Sprintf("uid:%d@%s", os.Geteuid(), member) }

func TestAStandbyForwardsItsCallersCalls(t *testing.T) {
	t.Parallel()
	g := newForwarding(t)
	g.start()
	job := must.Get(g.second.client.Submit(t.Context(), ask("guest.create", "web"), "once"))(t)
	require.Equal(t, []string{who("node2")}, job.RequestedBy)
	here := must.Get(g.second.client.Job(t.Context(), job.ID))(t)
	require.Equal(t, job.ID, here.ID, "the reads of the standby have it at once")
	again := must.Get(g.second.client.Submit(t.Context(), ask("guest.create", "web"), "once"))(t)
	require.Equal(t, job.ID, again.ID, "a key counts through a standby")
	require.Equal(t, op.StateSucceeded, g.second.await(job.ID).State)

	request := g.second.waiting("db")
	require.NoError(t, g.second.approve(request))
	must.Get(g.second.client.WaitJob(t.Context(), must.Get(g.second.client.Request(t.Context(), request))(t).Job, api.UntilEnded))(t)
	done := must.Get(g.second.client.Request(t.Context(), request))(t)
	require.Equal(t, op.StateSucceeded, g.second.await(done.Job).State)
	var acts []string
	require.NoError(t, g.first.client.Events(t.Context(), 0, false, func(e api.Entry) error {
		if strings.HasPrefix(e.By, "uid:") {
			acts = append(acts, e.By)
		}
		return nil
	}))
	require.NotEmpty(t, acts)
	for _, by := range acts {
		require.Equal(t, who("node2"), by)
	}
	job = must.Get(g.first.client.Submit(t.Context(), ask("guest.create", "own"), ""))(t)
	require.Equal(t, []string{who("node1")}, job.RequestedBy, "so a caller stays the same one after a takeover")
	require.Equal(t, op.StateSucceeded, g.first.await(job.ID).State)
}

// The same number on two hosts is two callers, and an operator of one host is none of another.
func TestACallerOfAnotherMemberHasNoRightsHere(t *testing.T) {
	t.Parallel()
	g := newForwarding(t)
	g.start()
	request := g.first.waiting("web")
	g.second.follows()
	job := must.Get(g.second.client.Request(t.Context(), request))(t).Job
	_, err := g.second.client.Cancel(t.Context(), job)
	require.ErrorIs(t, err, refusal.NotAllowed)
	require.ErrorContains(t, err, who("node2"))
	_, err = g.second.client.PutSet(t.Context(), "s", "", []byte("guests: {}\n"))
	require.ErrorIs(t, err, refusal.NotAllowed)
	require.ErrorContains(t, err, "@node2 is not an admin's")
	require.Equal(t, op.StatePending, must.Get(g.first.client.Job(t.Context(), job))(t).State)
	_, err = g.second.client.Reload(t.Context())
	require.ErrorIs(t, err, refusal.Standby, "a reload is of one daemon")

	// An operator of the active member's file is one.
	g.second.end()
	g.first.end()
	text := g.read(g.first)
	g.store(g.first, text+fmt.Sprintf("admins: [%d@node2]\n", os.Geteuid()))
	g.start()
	_, err = g.second.client.PutSet(t.Context(), "s", "", []byte("{}\n"))
	require.NotErrorIs(t, err, refusal.NotAllowed)
}

func TestATakeoverTurnsTheWayAround(t *testing.T) {
	t.Parallel()
	g := newForwarding(t)
	g.start()
	request := g.second.waiting("web")
	signed := g.second.envelope(request)
	g.first.engine.Partition(true)
	_, err := g.second.client.Submit(t.Context(), ask("guest.create", "other"), "")
	require.Error(t, err, "a member that does not hold its lease, or whose append does not come through, takes nothing")
	g.second.becomes(api.RoleActive)
	g.second.log.await(t, 0, "other members' calls are answered")
	g.first.engine.Partition(false)
	g.first.fenced()
	g.first.start(api.RoleStandby)
	g.first.follows()
	must.Get(g.first.client.Approve(t.Context(), request, signed))(t)
	done := must.Get(g.first.client.Request(t.Context(), request))(t)
	require.Equal(t, op.StateSucceeded, g.first.await(done.Job).State)
	_, err = g.first.client.Approve(t.Context(), request, signed)
	require.Error(t, err, "a signature is used once, whichever way it takes")
}

func TestAnActiveMemberThatIsGoneIsNamed(t *testing.T) {
	t.Parallel()
	g := newForwarding(t)
	g.first.leases("30s") // the standby takes over after that
	g.start()
	g.first.end()
	var err error
	require.Eventually(t, func() bool { // a call on a connection that just ends may have come through, and says so
		_, err = g.second.client.Submit(t.Context(), ask("guest.create", "web"), "")
		return !errors.Is(err, refusal.Unavailable)
	}, patience, 10*time.Millisecond)
	require.ErrorIs(t, err, refusal.Standby)
	require.ErrorContains(t, err, "node1")
}

// Nothing but another member's certificate, within its dates, gets as far as a call.
func TestCertificatesThatAreNotBelieved(t *testing.T) {
	t.Parallel()
	g := newForwarding(t)
	g.start()
	try := func(certs []tls.Certificate, version uint16) error {
		c := &tls.Config{InsecureSkipVerify: true, MaxVersion: version, Certificates: certs} // the test is about the other end
		conn, err := tls.Dial("tcp", g.address["node1"], c)
		if err != nil {
			return err
		}
		defer conn.Close()
		require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
		_, err = fmt.Fprintf(conn, "GET /v1/jobs HTTP/1.1\r\nHost: x\r\n\r\n")
		if err != nil {
			return err
		}
		_, err = conn.Read(make([]byte, 1)) // in TLS 1.3 the refusal comes with the first answer
		return err
	}
	load := func(files [2]string) []tls.Certificate {
		return []tls.Certificate{must.Get(tls.LoadX509KeyPair(files[0], files[1]))(t)}
	}
	crt, key, _ := certificate(g.second.world, "stranger", time.Now().Add(time.Hour))
	require.ErrorContains(t, try(nil, 0), "tls: ", "none")
	require.ErrorContains(t, try(load([2]string{crt, key}), 0), "tls: ", "a stranger's")
	require.ErrorContains(t, try(load(g.files["node1"]), 0), "tls: ", "its own: no member forwards to itself")
	require.ErrorContains(t, try(load(g.files["node2"]), tls.VersionTLS12), "tls: ", "an old protocol")
	require.NoError(t, try(load(g.files["node2"]), 0))
	require.Contains(t, g.first.log.String(), "is no other member's")
}

func TestAMemberWhoseCertificateIsWrongIsToldWhatToDo(t *testing.T) {
	t.Parallel()
	g := newForwarding(t)
	crt, key, _ := certificate(g.second.world, "other", time.Now().Add(time.Hour))
	text := g.read(g.second)
	was := g.files["node2"]
	g.store(g.second, strings.NewReplacer(was[0], crt, was[1], key).Replace(text))
	g.first.start(api.RoleActive)
	err := g.second.serveAll(t.Context())
	refused(t, err, refusal.Conflict, "store.members.node2 says another one", "gated.yaml of each member")

	// The active member does not know the new one.
	block, _ := pem.Decode(must.Get(os.ReadFile(crt))(t))
	print := members.Fingerprint(must.Get(x509.ParseCertificate(block.Bytes))(t))
	g.store(g.second, strings.NewReplacer(was[0], crt, was[1], key, g.prints["node2"], print).Replace(text))
	g.second.start(api.RoleStandby)
	_, err = g.second.client.Submit(t.Context(), ask("guest.create", "web"), "")
	refused(t, err, refusal.NotAllowed, "does not accept the certificate of member node2", "store.members.node2.fingerprint")
	g.second.end()

	// An expired one.
	crt, key, print = certificate(g.second.world, "old", time.Now().Add(-time.Hour))
	g.store(g.second, strings.NewReplacer(was[0], crt, was[1], key, g.prints["node2"], print).Replace(text))
	g.second.start(api.RoleStandby)
	_, err = g.second.client.Submit(t.Context(), ask("guest.create", "web"), "")
	refused(t, err, refusal.Unavailable, "this member's certificate expired on", "make a new one")
}

// Status says when a member's certificate ends, and warns in the last 30 days.
func TestAMemberWarnsBeforeItsCertificateEnds(t *testing.T) {
	t.Parallel()
	g := newForwarding(t)
	until := time.Now().Add(31 * 24 * time.Hour)
	crt, key, print := certificate(g.second.world, "long", until)
	was := g.files["node2"]
	g.store(g.second, strings.NewReplacer(was[0], crt, was[1], key, g.prints["node2"], print).Replace(g.read(g.second)))
	busy := must.Get(net.Listen("tcp", g.address["node1"]))(t)
	g.first.start(api.RoleActive)
	g.second.start(api.RoleStandby)
	check := func(m *groupMember, name string) (found []api.Health) {
		for _, h := range m.status().Health {
			if h.Name == name {
				found = append(found, h)
			}
		}
		return found
	}
	h := check(g.first, "certificate")
	require.Len(t, h, 1)
	require.False(t, h[0].OK, "it has an hour")
	require.Contains(t, h[0].Detail, "in less than 30 days: make a new one")
	h = check(g.second, "certificate")
	require.True(t, h[0].OK, h[0].Detail)
	require.WithinDuration(t, until, *g.second.status().Member.CertificateUntil, time.Minute)
	g.first.log.await(t, 0, "other members cannot ask this one")
	h = check(g.first, "other members")
	require.Len(t, h, 1)
	require.Contains(t, h[0].Detail, "cannot listen on "+g.address["node1"])
	require.NoError(t, busy.Close())
}
