package matrix_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver/proxmox/pvetest"
	"gated/internal/host/config"
	"gated/internal/host/daemon"
	"gated/internal/host/life"
	"gated/internal/ledger"
	"gated/internal/ledger/memory"
	"gated/internal/people/pubkey"
	"gated/internal/test/must"
	"gated/internal/test/postgres"
)

// ledgerRow is one attack on a gate that two members know. Its id is the matrix's.
type ledgerRow struct {
	id       string
	what     string
	want     refusal.Code
	run      func(*ledgerGate) error
	postgres bool // the ledger is in PostgreSQL, with a synchronous standby
}

// memberLease is as short as gated.yaml allows.
const memberLease = 3 * time.Second

// ledgerGate is a gate that two daemons know, their ledger, and the one cluster that has the guests.
type ledgerGate struct {
	t       *testing.T
	ledger  *memory.Ledger // nil if it is in PostgreSQL
	pair    *postgres.Pair // nil if it is in memory
	dsn     string         // of the ledger
	id      api.GateID     // of the gate
	cluster *pvetest.Cluster
	alice   key
	first   *memberDaemon // the active one, when the row begins
	second  *memberDaemon // the standby
	all     []*memberDaemon

	early   int          // how many groups there were before the request
	request string       // to destroy the victim, which waits
	signed  api.Envelope // alice's approval of it

	toFirst, toSecond *postgres.Proxy // the second member's ways to the pair

	before  map[string]seenGuest
	changes int
	touched map[string]bool // guests that the row rightly changed
	asked   int             // how many changes the row rightly asked the cluster for
	repair  func()          // undoes the attack; nil: there is nothing to undo
	decides *memberDaemon   // who is the active one in the end; nil is the first
}

// seenGuest is a guest as its administrator sees it, and what its disks hold.
type seenGuest struct {
	Guest   pvetest.Guest
	Volumes map[string]pvetest.Volume
}

// memberDaemon is a member, as on a host of its own.
type memberDaemon struct {
	*ledgerGate
	name, dir, state, socket string
	client                   *client.Client
	engine                   *memory.Member // of its newest daemon
	loses                    atomic.Bool    // the answer to the next group that approves
	stop                     context.CancelFunc
	ended                    chan error

	mu  sync.Mutex
	log bytes.Buffer
}

// Write implements io.Writer for what the daemon logs.
func (m *memberDaemon) Write(b []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.log.Write(b)
}

func (m *memberDaemon) logged() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.log.String()
}

// memberAttacks are all rows against two members.
func memberAttacks() []ledgerRow {
	var all []ledgerRow
	for _, rows := range [][]ledgerRow{ownerRows(), takeoverRows, postgresRows} {
		all = append(all, rows...)
	}
	return all
}

var memberID = regexp.MustCompile(`^(L\d\d)[a-z]$`)

// TestMembers has each attack on a gate of its own, with two daemons.
func TestMembers(t *testing.T) {
	var ran, refused, accepted atomic.Int64
	t.Cleanup(func() {
		fmt.Printf("matrix: %d cases against two members, %d refused as expected, %d accepted\n", ran.Load(), refused.Load(), accepted.Load())
		assert.Equal(t, ran.Load(), refused.Load())
		assert.Zero(t, accepted.Load())
	})
	rows, seen := map[string]bool{}, map[string]bool{}
	for _, r := range memberAttacks() {
		m := memberID.FindStringSubmatch(r.id)
		require.NotNil(t, m, "%q is no id", r.id)
		require.False(t, seen[r.id], "%s is there twice", r.id)
		rows[m[1]], seen[r.id] = true, true
		t.Run(r.id, func(t *testing.T) {
			t.Parallel()
			t.Log(r.what)
			g := newMembers(t, r.postgres)
			ran.Add(1)
			err := r.run(g)
			if err == nil {
				accepted.Add(1)
			}
			g.verdict(r, err)
			refused.Add(1)
		})
	}
	for n := 1; n <= 12; n++ {
		require.True(t, rows[fmt.Sprintf("L%02d", n)], "there is no row L%02d", n)
	}
}

// newMembers makes a gate with two members, two guests with data, and a signed approval that was not sent yet.
func newMembers(t *testing.T, onPostgres bool) *ledgerGate {
	g := &ledgerGate{t: t, alice: keyOf(t, "alice"), touched: map[string]bool{}}
	if onPostgres {
		g.onPostgres()
	} else {
		g.ledger, g.dsn = memory.New(), "host=/nowhere"
	}
	g.cluster = pvetest.New(t)
	g.first, g.second = g.member("node1"), g.member("node2")
	g.init()
	g.first.start(api.RoleActive)
	g.id = must.Get(g.first.client.Status(t.Context()))(t).Gate
	for _, name := range []string{"victim", "bystander"} {
		require.Equal(t, op.StateSucceeded, g.first.submit("guest.create", name).State, "%s", g.first.logged())
		g.cluster.Write(g.cluster.VMID(name), "scsi0", []byte("the only copy of "+name))
	}
	if g.ledger != nil {
		g.early = len(g.ledger.Groups())
	}
	g.request = *g.first.submit("guest.destroy", "victim").Request
	g.signed = g.envelope(g.first, g.request)
	g.join(g.second)
	g.second.start(api.RoleStandby)
	return g
}

func (g *ledgerGate) init() {
	o := life.InitOptions{StateDir: g.first.state, Host: testHost, Operators: []pubkey.Arg{{Path: g.alice.path + ".pub"}},
		Store: &config.Store{Postgres: g.dsn, Member: g.first.name, Durability: "replicated", Lease: memberLease}, Engines: g.first.engines()}
	//fsck:none each row ends with fsck
	must.Get(life.Init(g.t.Context(), o))(g.t)
	token := filepath.Join(g.first.dir, "token")
	require.NoError(g.t, os.WriteFile(token, []byte(pvetest.TokenID+"="+pvetest.Secret+"\n"), 0o600))
	path := filepath.Join(g.first.state, "gated.yaml")
	text := must.Get(os.ReadFile(path))(g.t)
	text = fmt.Appendf(text, "proxmox: {url: %q, token_file: %q, fingerprint: %q, node: %s, storage: local-lvm, templates: {default: {kind: qemu, disk: 1, ostype: l26}}}\n",
		strings.TrimSuffix(g.cluster.URL(), "/api2/json"), token, g.cluster.Fingerprint(), pvetest.Node)
	require.NoError(g.t, os.WriteFile(path, text, 0o600))
}

func (g *ledgerGate) member(name string) *memberDaemon {
	dir := must.Get(os.MkdirTemp("/tmp", "gm"))(g.t) // a socket's path is short
	g.t.Cleanup(func() { require.NoError(g.t, os.RemoveAll(dir)) })
	m := &memberDaemon{ledgerGate: g, name: name, dir: dir, state: filepath.Join(dir, "state"), socket: filepath.Join(dir, "s")}
	m.client = must.Get(client.New(client.Options{Socket: m.socket, Getenv: func(string) string { return "" }}))(g.t)
	g.t.Cleanup(func() {
		m.client.Close()
		if m.stop != nil {
			m.stop()
			<-m.ended
		}
	})
	g.all = append(g.all, m)
	return m
}

// tryJoin has a member join with the first one's settings and key.
func (g *ledgerGate) tryJoin(m *memberDaemon, entries int64) error {
	text := string(must.Get(os.ReadFile(filepath.Join(g.first.state, "gated.yaml")))(g.t))
	text = strings.Replace(connectsBy(g.t, text, g.dsn, g.dsnOf(m)), "member: "+g.first.name, "member: "+m.name, 1)
	settings := filepath.Join(m.dir, "gated.yaml")
	require.NoError(g.t, os.WriteFile(settings, []byte(text), 0o600))
	//fsck:none each row ends with fsck
	_, err := life.Join(g.t.Context(), life.JoinOptions{StateDir: m.state, Config: settings, Key: filepath.Join(g.first.state, "gate.key"),
		AtLeast: entries, Engines: m.engines()})
	return err
}

func (g *ledgerGate) join(m *memberDaemon) {
	g.t.Helper()
	require.NoError(g.t, g.tryJoin(m, 0))
}

// engines opens the ledger for one start of the member; nil is PostgreSQL.
func (m *memberDaemon) engines() life.Engines {
	if m.ledger == nil {
		return nil
	}
	return func(context.Context, config.Store, op.GateID) (ledger.Engine, error) {
		m.engine = m.ledger.Member()
		return losingEngine{m.engine, &m.loses}, nil
	}
}

// begin has the member serve.
func (m *memberDaemon) begin() {
	ctx, stop := context.WithCancel(context.Background())
	m.stop, m.ended = stop, make(chan error, 1)
	o := daemon.ServeOptions{StateDir: m.state, Socket: m.socket, Engines: m.engines(), Logger: slog.New(slog.NewTextHandler(m, nil))}
	go func(ended chan<- error) {
		//fsck:none each row ends with fsck
		ended <- daemon.Serve(ctx, o)
	}(m.ended)
}

// start has the member serve, and returns when it answers in a role.
func (m *memberDaemon) start(role string) {
	m.t.Helper()
	m.begin()
	m.becomes(role)
}

// becomes waits until the member answers in a role.
func (m *memberDaemon) becomes(role string) {
	m.t.Helper()
	require.Eventually(m.t, func() bool {
		s, err := m.client.Status(m.t.Context())
		return err == nil && s.Member != nil && s.Member.Role == role
	}, time.Minute, 20*time.Millisecond, "%s does not become %s:\n%s", m.name, role, m.logged())
}

// fails waits until the member ends by itself, and returns with what.
func (m *memberDaemon) fails() error {
	m.t.Helper()
	select {
	case err := <-m.ended:
		m.stop()
		m.stop = nil
		require.Error(m.t, err, "%s ended without an error", m.name)
		return err
	case <-time.After(time.Minute):
		require.Fail(m.t, "the member goes on", "%s:\n%s", m.name, m.logged())
		return nil
	}
}

// refuses starts the member, which has to end by itself, and returns with what.
func (m *memberDaemon) refuses() error {
	m.t.Helper()
	m.begin()
	return m.fails()
}

// fenced waits until the member ends because another one took over.
func (m *memberDaemon) fenced() {
	m.t.Helper()
	require.ErrorIs(m.t, m.fails(), ledger.ErrFenced)
}

// end stops the member, which has to end without an error.
func (m *memberDaemon) end() {
	m.t.Helper()
	if m.stop == nil {
		return
	}
	m.stop()
	m.stop = nil
	require.NoError(m.t, <-m.ended, "%s", m.logged())
}

// follows waits until a standby has as many groups as the active member.
func (m *memberDaemon) follows(active *memberDaemon) {
	m.t.Helper()
	all := must.Get(active.client.Status(m.t.Context()))(m.t).Member.Group
	require.Eventually(m.t, func() bool {
		s, err := m.client.Status(m.t.Context())
		return err == nil && s.Member.Group >= all
	}, time.Minute, 20*time.Millisecond, "%s", m.logged())
}

// submit asks for an operation on a guest, and waits until it ends or waits for a signature.
func (m *memberDaemon) submit(name, target string) api.Job {
	m.t.Helper()
	full := "guest/" + target
	j := must.Get(m.client.Submit(m.t.Context(), api.Submit{Op: &name, Target: &full, Reason: "matrix"}, ""))(m.t)
	return m.await(j.ID)
}

func (m *memberDaemon) await(id string) api.Job {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), time.Minute)
	defer cancel()
	j, err := m.client.AwaitJob(ctx, id, func(j api.Job) bool { return !j.State.Open() || j.State == op.StatePending })
	require.NoError(m.t, err, "%s", m.logged())
	return j
}

// jobOf is the job of a request, when it has ended or waits.
func (m *memberDaemon) jobOf(request string) api.Job {
	m.t.Helper()
	return m.await(must.Get(m.client.Request(m.t.Context(), request))(m.t).Job)
}

// envelope is alice's approval of a request as a member shows it.
func (g *ledgerGate) envelope(m *memberDaemon, request string) api.Envelope {
	g.t.Helper()
	payload := must.Get(m.client.Payload(g.t.Context(), request))(g.t)
	return api.EnvelopeOf(payload, g.alice.sign(g.t, op.Operational, payload))
}

// approve hands alice's approval in. A member that found meanwhile that it may decide no more ends, perhaps before it answers.
func (m *memberDaemon) approve() error {
	err := failure(m.client.Approve(m.t.Context(), m.request, m.signed))
	var ended *client.Unreachable
	if errors.As(err, &ended) {
		select {
		case why := <-m.ended:
			require.ErrorIs(m.t, why, ledger.ErrFenced)
			m.ended <- why // for who waits for its end
		case <-time.After(time.Minute):
			require.Fail(m.t, "a member that goes on gives no answer", "%s:\n%s", m.name, m.logged())
		}
		return refusal.New(refusal.Unavailable, "%v", ended)
	}
	return err
}
