package daemon_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver/proxmox/pvetest"
	"gated/internal/host/config"
	"gated/internal/host/life"
	"gated/internal/ledger"
	"gated/internal/ledger/memory"
	"gated/internal/test/must"
)

// section is the store of gated.yaml for a member.
func section(name string) string {
	return "store: {postgres: \"host=/nowhere\", member: " + name + ", lease: 3s}\n"
}

// withoutStore takes the section out of gated.yaml.
func (m *groupMember) withoutStore() {
	path := filepath.Join(m.state, "gated.yaml")
	text := string(must.Get(os.ReadFile(path))(m.t))
	begin := strings.Index(text, "\nstore:")
	require.Positive(m.t, begin)
	rest := text[begin+len("\nstore:"):]
	_, rest, found := strings.Cut(rest, "\n")
	require.True(m.t, found)
	for strings.HasPrefix(rest, "  ") {
		_, rest, _ = strings.Cut(rest, "\n")
	}
	require.NoError(m.t, os.WriteFile(path, []byte(text[:begin+1]+rest), 0o600))
}

func (m *groupMember) migrate() life.MigrateOptions {
	return life.MigrateOptions{StateDir: m.state, Engines: m.engines}
}

func TestAGateGetsALedgerAndLeavesIt(t *testing.T) {
	t.Parallel()
	g := &group{t: t, ledger: memory.New(), cluster: pvetest.New(t)}
	g.first, g.second = g.member("node1"), g.member("node2")
	w := g.first.world
	w.init()
	w.config(g.proxmox(w))
	_, err := life.ToLedger(t.Context(), g.first.migrate())
	require.ErrorIs(t, err, refusal.BadParams, "gated.yaml has no store")
	g.first.alone()
	request := w.waiting("web")
	signed := w.envelope(request)
	id := w.status().Gate
	g.first.end()

	w.config(section("node1"))
	g.first.refuses("gated member migrate --to postgres")
	m := must.Get(life.ToLedger(t.Context(), g.first.migrate()))(t)
	require.Equal(t, id, m.Gate)
	require.EqualValues(t, 1, m.Groups)
	_, err = life.ToLedger(t.Context(), g.first.migrate())
	require.ErrorIs(t, err, refusal.Conflict, "it is in a ledger already")
	g.join(g.second)
	g.first.start(api.RoleActive)
	g.second.start(api.RoleStandby)
	g.first.end()
	g.second.becomes(api.RoleActive)
	must.Get(g.second.client.Approve(t.Context(), request, signed))(t)
	g.second.await(must.Get(g.second.client.Request(t.Context(), request))(t).Job)
	g.second.end()

	m = must.Get(life.ToSQLite(t.Context(), g.first.migrate()))(t)
	require.Equal(t, id, m.Gate)
	_, err = life.ToSQLite(t.Context(), g.second.migrate())
	require.ErrorIs(t, err, refusal.Conflict, "the first member goes on")
	_, err = life.ToSQLite(t.Context(), g.first.migrate())
	require.ErrorIs(t, err, refusal.Conflict, "it is in no ledger any more")
	g.second.refuses("the gate left this ledger")
	g.first.withoutStore()
	g.first.alone()
	_, err = w.client.Approve(t.Context(), request, signed)
	require.Error(t, err, "what was approved in the ledger counts here")
	require.Equal(t, id, w.status().Gate)
	g.first.end()
	w.sound()
}

// refuses starts the member, which has to end with that text.
func (m *groupMember) refuses(text string) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), patience)
	defer cancel()
	err := m.serveAll(ctx)
	require.Error(m.t, err)
	r := refusal.As(err)
	require.Contains(m.t, r.Detail+" "+r.Hint, text)
}

// A ledger that is lost may have had approvals that no member has. So none of before counts under the new id.
func TestAGateWhoseLedgerIsLostGetsANewID(t *testing.T) {
	t.Parallel()
	g := newGroup(t)
	g.first.start(api.RoleActive)
	request := g.first.waiting("web")
	signed := g.first.envelope(request)
	id := g.first.status().Gate
	g.first.end()

	o := g.first.migrate()
	o.Engines = func(context.Context, config.Store, op.GateID) (ledger.Engine, error) {
		return nil, ledger.ErrUnavailable
	}
	_, err := life.ToSQLite(t.Context(), o)
	require.ErrorIs(t, err, ledger.ErrUnavailable)
	o.Lost = true
	m := must.Get(life.ToSQLite(t.Context(), o))(t)
	require.NotEqual(t, id, m.Gate)
	g.first.withoutStore()
	g.first.alone()
	_, err = g.first.client.Approve(t.Context(), request, signed)
	require.Error(t, err)
	require.Equal(t, m.Gate, g.first.status().Gate)
	require.Equal(t, "ledger-lost", g.first.newest("ledger-lost").Kind)
	g.first.end()
	g.first.sound()
}

// What changes the gate from outside is refused while other members would go on with what it was.
func TestWhatChangesAGateFromOutsideNeedsThatItLeftItsLedger(t *testing.T) {
	t.Parallel()
	g := newGroup(t)
	g.first.start(api.RoleActive)
	request := g.first.waiting("web")
	signed := g.first.envelope(request)
	g.first.end()
	copied := filepath.Join(g.first.dir, "copy.db")
	require.NoError(t, life.Backup(t.Context(), g.first.state, copied))
	must.Get(life.CheckBackup(t.Context(), copied, func(int64) {}))(t)

	_, err := life.Restore(t.Context(), copied, g.first.state)
	require.ErrorIs(t, err, refusal.Conflict)
	require.Contains(t, refusal.As(err).Hint, "gated member migrate --to sqlite")
	_, err = life.AdoptSigners(t.Context(), g.first.state, g.first.signers(), agreed)
	require.ErrorIs(t, err, refusal.Conflict)
	require.Contains(t, refusal.As(err).Hint, "gated member migrate --to sqlite")

	o := g.first.migrate()
	o.Lost = true
	must.Get(life.ToSQLite(t.Context(), o))(t)
	r := must.Get(life.Restore(t.Context(), copied, g.first.state))(t)
	g.first.withoutStore()
	g.first.alone()
	require.Equal(t, r.GateID, g.first.status().Gate)
	_, err = g.first.client.Approve(t.Context(), request, signed)
	require.Error(t, err, "it was signed for another gate id")
	g.first.end()
	g.first.sound()
}
