package daemon_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver/proxmox/pvetest"
	"gated/internal/host/config"
	"gated/internal/host/daemon"
	"gated/internal/host/fsck/fscktest"
	"gated/internal/host/life"
	"gated/internal/ledger"
	"gated/internal/ledger/memory"
	"gated/internal/test/must"
)

// shortLease is as short as gated.yaml allows.
const shortLease = 3 * time.Second

// group is a gate that two members know: their ledger in memory, and one cluster with the guests.
type group struct {
	t       *testing.T
	ledger  *memory.Ledger
	cluster *pvetest.Cluster
	first   *groupMember
	second  *groupMember
}

// groupMember is one of the daemons, as on a host of its own.
type groupMember struct {
	*world
	name   string
	engine *memory.Member // of its newest daemon
	of     *memory.Ledger
	wrap   func(ledger.Engine) ledger.Engine // what stands between its daemon and the engine; nil is nothing
}

// newGroup makes a gate with a ledger and joins a second member.
func newGroup(t *testing.T) *group {
	g := newFirst(t)
	g.join(g.second)
	return g
}

// newFirst is newGroup before the second member joins.
func newFirst(t *testing.T) *group {
	g := &group{t: t, ledger: memory.New(), cluster: pvetest.New(t)}
	g.first, g.second = g.member("node1"), g.member("node2")
	o := g.first.options()
	o.Store = &config.Store{Postgres: "host=/nowhere", Member: "node1", Durability: "replicated", Lease: shortLease}
	o.Engines = g.first.engines
	fscktest.Watch(t, filepath.Join(g.first.state, "gated.db"), life.Migrations())
	must.Get(life.Init(t.Context(), o))(t)
	g.first.config(g.proxmox(g.first.world))
	return g
}

func (g *group) member(name string) *groupMember {
	return &groupMember{world: newUnheard(g.t), name: name, of: g.ledger}
}

// proxmox is the section of gated.yaml for the cluster.
func (g *group) proxmox(w *world) string {
	token := w.file("token", pvetest.TokenID+"="+pvetest.Secret+"\n")
	return fmt.Sprintf("proxmox: {url: %q, token_file: %q, fingerprint: %q, node: %s, storage: local-lvm, templates: {default: {kind: qemu, disk: 1, ostype: l26}}}\n",
		strings.TrimSuffix(g.cluster.URL(), "/api2/json"), token, g.cluster.Fingerprint(), pvetest.Node)
}

// join has a member join with the first one's settings and key.
func (g *group) join(m *groupMember) life.Joined {
	g.t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(g.first.state, "gated.yaml")))(g.t)
	settings := m.file("gated.yaml", strings.ReplaceAll(string(text), "member: node1", "member: "+m.name))
	fscktest.Watch(g.t, filepath.Join(m.state, "gated.db"), life.Migrations())
	return must.Get(life.Join(g.t.Context(), life.JoinOptions{StateDir: m.state, Config: settings,
		Key: filepath.Join(g.first.state, "gate.key"), Engines: m.engines}))(g.t)
}

// engines opens the ledger for one start of the member.
func (m *groupMember) engines(context.Context, config.Store, op.GateID) (ledger.Engine, error) {
	m.engine = m.of.Member()
	if m.wrap != nil {
		return m.wrap(m.engine), nil
	}
	return m.engine, nil
}

// start has the member serve, and returns when it answers in a role.
func (m *groupMember) start(role string) {
	m.t.Helper()
	m.begin()
	m.becomes(role)
}

// alone has a gate without a ledger serve.
func (m *groupMember) alone() {
	m.t.Helper()
	m.begin()
	require.Eventually(m.t, func() bool {
		s, err := m.client.Status(m.t.Context())
		return err == nil && s.Member == nil
	}, patience, 20*time.Millisecond, "%s does not serve:\n%s", m.name, m.log)
}

func (m *groupMember) begin() {
	ctx, stop := context.WithCancel(m.t.Context())
	m.stop, m.ended = stop, make(chan error, 1)
	go func() { m.ended <- m.serveAll(ctx) }()
	m.t.Cleanup(func() {
		if m.stop != nil {
			m.end()
		}
	})
}

// serveAll is Serve until ctx ends, with what it returned.
func (m *groupMember) serveAll(ctx context.Context) error {
	//fsck:none newGroup has it watched
	return daemon.Serve(ctx, daemon.ServeOptions{StateDir: m.state, Socket: m.socket, Engines: m.engines,
		Logger: slog.New(slog.NewTextHandler(m.log, nil))})
}

// end stops the member, which has to end without an error.
func (m *groupMember) end() {
	m.t.Helper()
	m.stop()
	m.stop = nil
	select {
	case err := <-m.ended:
		require.NoError(m.t, err, m.log)
	case <-time.After(2 * patience):
		m.t.Fatalf("%s does not end:\n%s", m.name, m.log)
	}
}

// fenced waits until the member ends because another one took over.
func (m *groupMember) fenced() {
	m.t.Helper()
	select {
	case err := <-m.ended:
		require.ErrorIs(m.t, err, ledger.ErrFenced)
	case <-time.After(patience):
		m.t.Fatalf("%s does not end:\n%s", m.name, m.log)
	}
	m.stop()
	m.stop = nil
}

// becomes waits until the member answers in a role.
func (m *groupMember) becomes(role string) {
	m.t.Helper()
	require.Eventually(m.t, func() bool {
		s, err := m.client.Status(m.t.Context())
		return err == nil && s.Member != nil && s.Member.Role == role
	}, patience, 20*time.Millisecond, "%s does not become %s:\n%s", m.name, role, m.log)
}

// follows waits until a standby has all groups that there are.
func (m *groupMember) follows() {
	m.t.Helper()
	all := uint64(len(m.of.Groups()))
	require.Eventually(m.t, func() bool { return m.status().Member.Group >= all }, patience, 20*time.Millisecond, "%s", m.log)
}

func TestAStandbyAnswersReadsAndNamesTheActiveMember(t *testing.T) {
	t.Parallel()
	g := newGroup(t)
	g.first.start(api.RoleActive)
	g.second.start(api.RoleStandby)
	request := g.first.waiting("web")
	g.second.follows()

	got := must.Get(g.second.client.Request(t.Context(), request))(t)
	require.Equal(t, op.StatePending, got.State, "a standby shows what waits")
	s := g.second.status()
	require.Equal(t, "node1", s.Member.Active)
	require.Equal(t, g.first.status().Gate, s.Gate)

	_, err := g.second.client.Submit(t.Context(), ask("guest.create", "other"), "")
	require.ErrorIs(t, err, refusal.Standby)
	require.ErrorContains(t, err, "member node1 decides")
	require.ErrorIs(t, g.second.approve(request), refusal.Standby)
	require.Empty(t, g.first.newest("refused").Kind, "a standby writes nothing, as an active member writes what it refuses")
}

func TestAStandbyTakesOverWhatWaits(t *testing.T) {
	t.Parallel()
	g := newGroup(t)
	g.first.start(api.RoleActive)
	g.second.start(api.RoleStandby)
	request := g.first.waiting("web")
	signed := g.first.envelope(request)
	g.second.follows()
	id := g.first.status().Gate
	g.first.engine.Partition(true)
	g.second.becomes(api.RoleActive)
	require.Equal(t, id, g.second.status().Gate, "the gate's id stays")

	must.Get(g.second.client.Approve(t.Context(), request, signed))(t)
	job := must.Get(g.second.client.Request(t.Context(), request))(t)
	require.Equal(t, op.StateSucceeded, g.second.await(job.Job).State)
	require.Zero(t, g.cluster.VMID("web"))

	_, err := g.first.client.Submit(t.Context(), ask("guest.create", "other"), "")
	require.ErrorIs(t, err, refusal.Unavailable, "the old member decides nothing")
	g.first.engine.Partition(false)
	g.first.fenced()
	g.first.start(api.RoleStandby)
	g.first.follows()
	_, err = g.first.client.Approve(t.Context(), request, signed)
	require.ErrorIs(t, err, refusal.Standby)
	g.second.end()
	g.first.becomes(api.RoleActive)
	_, err = g.first.client.Approve(t.Context(), request, signed)
	require.Error(t, err, "a signature is used once, whichever member used it")
	require.NotErrorIs(t, err, refusal.Standby)
}

func TestAnOperatorHasAStandbyTakeOver(t *testing.T) {
	t.Parallel()
	g := newGroup(t)
	g.first.start(api.RoleActive)
	require.ErrorIs(t, g.first.client.TakeOver(t.Context()), refusal.Conflict, "it decides already")
	g.second.start(api.RoleStandby)
	request := g.first.waiting("web")
	signed := g.first.envelope(request)
	require.NoError(t, g.second.client.TakeOver(t.Context()))
	g.first.fenced()
	g.second.becomes(api.RoleActive)
	must.Get(g.second.client.Approve(t.Context(), request, signed))(t)
	require.Equal(t, op.StateSucceeded, g.second.await(must.Get(g.second.client.Request(t.Context(), request))(t).Job).State)
}

func TestAGateOfOneHostHasNoTakeover(t *testing.T) {
	w := newServing(t)
	require.ErrorIs(t, w.client.TakeOver(t.Context()), refusal.Conflict)
	w.haltSound()
}

// takenOver has the second member take over while the cluster works on a destroy that the first one asked for and that
// operators signed. The first one is cut off from the ledger.
func (g *group) takenOver() (request string, held *pvetest.Held) {
	g.t.Helper()
	g.first.start(api.RoleActive)
	g.second.start(api.RoleStandby)
	request = g.first.waiting("web")
	held = g.cluster.Hold("qmdestroy")
	require.NoError(g.t, g.first.approve(request))
	<-held.Asked() // so the first member recorded the task's id
	g.second.follows()
	g.first.engine.Partition(true)
	g.second.becomes(api.RoleActive)
	return request, held
}

// The cluster still works on what the member before asked for. The next one waits for that, and does not ask again.
func TestAStepThatTheMemberBeforeDispatchedRunsNoSecondTime(t *testing.T) {
	t.Parallel()
	g := newGroup(t)
	request, held := g.takenOver()
	held.Release()
	job := g.second.await(must.Get(g.second.client.Request(t.Context(), request))(t).Job)
	require.Equal(t, op.StateSucceeded, job.State)
	require.Len(t, held.UPIDs(), 1, "the cluster was asked once")
	g.first.engine.Partition(false)
	g.first.fenced()
	require.Len(t, held.UPIDs(), 1)
}

// The journal says which numbers of Proxmox VE had a guest, and it is in each member. So the next one gives none of them again.
func TestTheNextMemberGivesNoNumberAgain(t *testing.T) {
	t.Parallel()
	g := newGroup(t)
	g.first.start(api.RoleActive)
	g.second.start(api.RoleStandby)
	request := g.first.waiting("web")
	vmid := g.cluster.VMID("web")
	require.NotZero(t, vmid)
	require.NoError(t, g.first.approve(request))
	require.Equal(t, op.StateSucceeded, g.first.await(must.Get(g.first.client.Request(t.Context(), request))(t).Job).State)
	require.False(t, g.cluster.Exists(vmid))
	g.second.follows()
	g.first.end()
	g.second.becomes(api.RoleActive)
	require.Equal(t, op.StateSucceeded, g.second.submit(ask("guest.create", "next")).State)
	require.NotEqual(t, vmid, g.cluster.VMID("next"))
}
