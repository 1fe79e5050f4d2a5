package daemon_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/life"
	"gated/internal/host/systemd"
	"gated/internal/ledger"
	"gated/internal/ledger/memory"
	"gated/internal/test/must"
)

// meddled is an engine with something that happens before a call of it.
type meddled struct {
	ledger.Engine
	take func()
	read func() error
}

func (b *meddled) Take(ctx context.Context, from uint64) (ledger.Position, error) {
	if b.take != nil {
		b.take()
	}
	return b.Engine.Take(ctx, from)
}

func (b *meddled) Read(ctx context.Context, after uint64, most int) ([]ledger.Group, error) {
	if b.read != nil {
		if err := b.read(); err != nil {
			return nil, err
		}
	}
	return b.Engine.Read(ctx, after, most)
}

// A member that ends while it waits for the one before does not go on at once at its next start: the one before may
// still be at something.
func TestATakeoverThatIsCutOffIsNotFinishedAtOnce(t *testing.T) {
	t.Parallel()
	g := newGroup(t)
	g.first.leases("9s") // the member before holds it until the other one decides
	g.first.start(api.RoleActive)
	g.second.start(api.RoleStandby)
	g.second.follows()
	g.first.engine.Partition(true)
	require.NoError(t, g.second.client.TakeOver(t.Context()))
	g.second.log.await(t, 0, "this member decides")
	require.NoError(t, g.first.lease(), "the member before does not know yet")
	g.second.end()
	g.second.start(api.RoleStandby)
	g.second.becomes(api.RoleActive)
	require.Error(t, g.first.lease(), "the member before may do nothing any more")
	g.first.engine.Partition(false)
	g.first.fenced()
}

// era is the newest one of the ledger.
func (g *group) era() uint64 {
	return must.Get(g.ledger.Member().Position(g.t.Context()))(g.t).Era
}

// lease is why an active member may not act now, nil if it may.
func (m *groupMember) lease() error {
	m.t.Helper()
	if e := m.status().Member.Error; e != nil {
		return refusal.New(e.Code, "%s", e.Detail)
	}
	return nil
}

// The member before may come back after the last look of the standby, and before the standby's era. Then it has the lease
// for a while, and has to be waited for.
func TestAMemberThatComesBackAtTheLastMomentIsWaitedFor(t *testing.T) {
	t.Parallel()
	g := newGroup(t)
	before := g.ledger.Member()
	var taken atomic.Int64
	g.second.wrap = func(e ledger.Engine) ledger.Engine {
		return &meddled{Engine: e, take: func() {
			taken.Store(time.Now().UnixNano())
			assert.NoError(t, before.Beat(g.era()))
		}}
	}
	g.first.start(api.RoleActive)
	g.second.start(api.RoleStandby)
	g.second.follows()
	g.first.engine.Partition(true)
	g.second.becomes(api.RoleActive)
	require.GreaterOrEqual(t, time.Since(time.Unix(0, taken.Load())), shortLease)
	g.first.engine.Partition(false)
	g.first.fenced()
}

// The service manager was told that the standby is ready, so it wants to hear of the daemon while it becomes the active
// member, too.
func TestTheWatchdogHearsOfAMemberThatTakesOver(t *testing.T) {
	g := newGroup(t)
	path := filepath.Join(g.second.dir, "n")
	notify := must.Get(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"}))(t)
	t.Cleanup(func() { require.NoError(t, notify.Close()) })
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "400000")
	t.Setenv("WATCHDOG_PID", "")
	before := g.ledger.Member()
	g.second.wrap = func(e ledger.Engine) ledger.Engine {
		return &meddled{Engine: e, take: func() {
			assert.NoError(t, before.Beat(g.era())) // so it has to wait
			assert.NoError(t, systemd.Notify("STATUS=takes over"))
		}}
	}
	g.second.begin()
	require.NoError(t, notify.SetReadDeadline(time.Now().Add(patience)))
	var pings int
	for taken := false; ; {
		buf := make([]byte, 100)
		n := must.Get(notify.Read(buf))(t)
		said := string(buf[:n])
		taken = taken || said == "STATUS=takes over"
		if taken && said == systemd.Alive {
			pings++
		}
		if taken && strings.HasPrefix(said, systemd.Ready) {
			break
		}
	}
	require.Greater(t, pings, 3, "of about 15 in the lease")
}

// The lease of the member that decides counts, and not only the standby's own.
func TestMembersWithDifferentLeases(t *testing.T) {
	t.Parallel()
	g := newGroup(t)
	g.first.leases("12s")
	g.first.start(api.RoleActive)
	g.second.start(api.RoleStandby)
	g.second.follows()
	g.first.engine.Partition(true)
	g.second.becomes(api.RoleActive)
	require.Error(t, g.first.lease(), "two members that both may act")
	g.first.engine.Partition(false)
	g.first.fenced()
}

// leases sets the lease in gated.yaml.
func (m *groupMember) leases(length string) {
	path := filepath.Join(m.state, "gated.yaml")
	text := string(must.Get(os.ReadFile(path))(m.t))
	require.Contains(m.t, text, "lease: 3s")
	require.NoError(m.t, os.WriteFile(path, []byte(strings.Replace(text, "lease: 3s", "lease: "+length, 1)), 0o600))
}

// A step may take several calls. A member that lost the lease sends no further one.
func TestAStepSendsNoFurtherCallWithoutTheLease(t *testing.T) {
	t.Parallel()
	g := newGroup(t)
	g.first.start(api.RoleActive)
	g.second.start(api.RoleStandby)
	require.Equal(t, op.StateSucceeded, g.first.submit(ask("guest.create", "web")).State)
	require.Equal(t, op.StateSucceeded, g.first.submit(ask("guest.start", "web")).State)
	request := *g.first.submit(ask("guest.destroy", "web")).Request
	held := g.cluster.Hold("qmstop")
	require.NoError(t, g.first.approve(request))
	<-held.Came()
	g.second.follows()
	g.first.engine.Partition(true)
	g.second.becomes(api.RoleActive)
	job := g.second.await(must.Get(g.second.client.Request(t.Context(), request))(t).Job)
	require.Equal(t, op.StateInterrupted, job.Steps[0].State)
	from := len(g.first.log.String())
	held.Release()
	g.first.log.await(t, from, "a target is tried again later")
	require.NotZero(t, g.cluster.VMID("web"), "the member before destroyed it")
	g.first.engine.Partition(false)
	g.first.fenced()
	require.NotZero(t, g.cluster.VMID("web"))
}

// What another host began is unresolved until its end is known. So a restart of the new member goes by that, too.
func TestAnEraIsAMembersOwnOnlyWhenNothingOfTheOneBeforeIsLeft(t *testing.T) {
	t.Parallel()
	g := newGroup(t)
	_, held := g.takenOver()
	require.False(t, life.Began(g.second.state, g.era()))
	_, err := life.ToSQLite(t.Context(), g.second.migrate())
	require.Error(t, err, "it runs")
	g.second.end()

	m, err := life.ToSQLite(t.Context(), g.second.migrate())
	require.ErrorIs(t, err, refusal.Conflict, "%v", m)
	require.Contains(t, refusal.As(err).Hint, "start the daemon")
	held.Release()
	g.second.start(api.RoleStandby)
	g.second.becomes(api.RoleActive)
	require.Eventually(t, func() bool { return life.Began(g.second.state, g.era()) }, patience, 10*time.Millisecond)
	g.second.end()
	g.second.start(api.RoleActive)
	g.first.engine.Partition(false)
	g.first.fenced()
}

// A host that was copied has the file of its era, too. It has booted since.
func TestAnEraOfAnotherBootIsNoMembersOwn(t *testing.T) {
	t.Parallel()
	g := newGroup(t)
	g.first.start(api.RoleActive)
	g.first.end()
	require.True(t, life.Began(g.first.state, g.era()))
	require.NoError(t, os.WriteFile(filepath.Join(g.first.state, "ledger.era"), fmt.Appendf(nil, "%d another-boot\n", g.era()), 0o600))
	require.False(t, life.Began(g.first.state, g.era()))
	g.first.start(api.RoleStandby)
}

func TestTwoMembersOfOneName(t *testing.T) {
	t.Parallel()
	g := newGroup(t)
	g.first.start(api.RoleActive)
	third := g.member("node1")
	g.join(third)
	third.refuses("another daemon that decides has the name node1")
	require.NoError(t, g.first.lease())
	g.first.end()
	third.start(api.RoleStandby)
	third.becomes(api.RoleActive)
}

// A file that was edited on a standby keeps it from nothing.
func TestAStandbyWhoseListOfSignersWasEditedFollowsARotation(t *testing.T) {
	t.Parallel()
	g := newGroup(t)
	g.first.start(api.RoleActive)
	g.second.start(api.RoleStandby)
	edited := append(must.Get(os.ReadFile(g.second.signers()))(t), "# mine\n"...)
	require.NoError(t, os.WriteFile(g.second.signers(), edited, 0o600))
	fresh, alice := g.first.person("carol"), person{"alice", g.first.pub, g.first.signer}
	id := must.Get(g.first.rotate(2, []any{fresh.line(t, op.Operational)}, nil))(t)
	must.Get(g.first.sign(id, op.Operational, fresh, alice))(t)
	require.Equal(t, op.StateSucceeded, g.first.done(id))
	require.Eventually(t, func() bool {
		s, err := g.second.client.Status(t.Context())
		return err == nil && s.Epoch == 2
	}, patience, 20*time.Millisecond, "%s", g.second.log)
	require.Equal(t, edited, must.Get(os.ReadFile(g.second.signers()))(t))
	g.second.inHealth("signers", false, "was edited by hand")
	g.first.end()
	g.second.becomes(api.RoleActive)
	require.Contains(t, g.second.health("signers").Detail, "was edited by hand")
}

// A ledger that goes away between two calls of one look is asked again.
func TestAStandbyOutlivesALedgerThatGoesAwayInALook(t *testing.T) {
	t.Parallel()
	g := newGroup(t)
	g.first.start(api.RoleActive)
	away := make(chan struct{}, 1)
	g.second.wrap = func(e ledger.Engine) ledger.Engine {
		return &meddled{Engine: e, read: func() error {
			select {
			case <-away:
				return ledger.ErrUnavailable
			default:
				return nil
			}
		}}
	}
	g.second.start(api.RoleStandby)
	away <- struct{}{}
	g.second.log.await(t, 0, "the standby follows again")
	require.Equal(t, api.RoleStandby, g.second.status().Member.Role)
}

// A gate that left its ledger gets a new one, and not the one that it left.
func TestAGateDoesNotGoBackToALedgerThatEnded(t *testing.T) {
	t.Parallel()
	g := newGroup(t)
	g.first.start(api.RoleActive)
	g.first.end()
	must.Get(life.ToSQLite(t.Context(), g.first.migrate()))(t)
	_, err := life.ToLedger(t.Context(), g.first.migrate())
	require.ErrorIs(t, err, refusal.Conflict)
	require.Contains(t, refusal.As(err).Detail, "left this ledger")
	require.Contains(t, refusal.As(err).Hint, "another PostgreSQL database")
}

// An operator may call a ledger lost that another member still decides with. Then that member is fenced.
func TestALedgerThatIsCalledLostAndAnswersIsEnded(t *testing.T) {
	t.Parallel()
	for name, breaks := range map[string]func(g *group){
		"whole": func(*group) {},
		"set back": func(g *group) {
			g.ledger.Change(func(groups []ledger.Group, era uint64) ([]ledger.Group, uint64) { return groups[:len(groups)-1], era })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGroup(t)
			g.first.start(api.RoleActive)
			id := g.first.status().Gate
			g.second.start(api.RoleStandby)
			g.second.follows()
			g.second.end()
			breaks(g)
			o := g.second.migrate()
			o.Lost = true
			require.NotEqual(t, id, must.Get(life.ToSQLite(t.Context(), o))(t).Gate)
			require.Equal(t, ledger.Ended, g.era())
			g.first.fenced()
		})
	}
}

// A group that stays in doubt keeps all later ones waiting, and not the stop of the daemon, whoever wrote in that group.
func TestAMemberWhoseGroupIsInDoubtCanBeStopped(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]int{"a call's": 0, "a part's": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGroup(t)
			g.first.start(api.RoleActive)
			groups := len(g.ledger.Groups()) + before
			g.first.engine.Order(slices.Repeat([]memory.Fault{memory.None}, before)...)
			g.first.engine.Order(memory.InDoubtKept)
			g.first.engine.Order(slices.Repeat([]memory.Fault{memory.Away}, 100_000)...)
			ctx, hangUp := context.WithCancel(t.Context())
			told := make(chan error, 1)
			go func() {
				_, err := g.first.client.Submit(ctx, ask("guest.create", "web"), "")
				told <- err
			}()
			require.Eventually(t, func() bool { return len(g.ledger.Groups()) > groups }, patience, time.Millisecond)
			hangUp()
			<-told
			g.first.end()
			require.Contains(t, g.first.log.String(), "the audit log could not be told of the stop")
			g.first.start(api.RoleActive)
		})
	}
}
