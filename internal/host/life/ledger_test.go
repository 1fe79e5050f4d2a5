package life

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/host/config"
	"gated/internal/ledger"
	"gated/internal/ledger/memory"
	"gated/internal/log/audit"
	"gated/internal/people/pubkey"
	"gated/internal/test/must"
)

// decide has the member of a state directory decide something, as a daemon would.
func decide(t *testing.T, dir string, l *memory.Ledger) {
	t.Helper()
	o := must.Get(OpenActive(t.Context(), dir, slog.New(slog.DiscardHandler), l.Member()))(t)
	o.Store.OnGroup(audit.Seal)
	write(t, o)
	at := must.Get(o.Store.Place(t.Context()))(t)
	require.NoError(t, RememberEra(dir, at.Era))
	require.NoError(t, o.Close())
}

// write makes an entry of the audit log.
func write(t *testing.T, o *Opened) {
	t.Helper()
	require.NoError(t, o.Store.Update(t.Context(), func(tx *store.Tx) error {
		key, err := ReadKey(filepath.Join(o.Dir.Path(), "gate.key"))
		known, e := audit.PublicKey(tx, o.ID.Gate)
		if err = errors.Join(err, e); err == nil && known == "" {
			err = audit.SetPublicKey(tx, o.ID.Gate, key.Public)
		}
		if err != nil {
			return err
		}
		_, err = audit.Append(tx, audit.Entry{Kind: audit.Started, Gate: o.ID.Gate, Time: time.Unix(1_800_000_000, 0)})
		return err
	}))
}

// memberOf makes a state directory whose gate is in a ledger.
func memberOf(t *testing.T, l *memory.Ledger) string {
	dir := filepath.Join(t.TempDir(), "state")
	must.Get(Init(t.Context(), InitOptions{StateDir: dir, Host: "pve1", Operators: []pubkey.Arg{{Path: "../../../testdata/keys/alice.pub", Principal: "alice@example.com"}},
		Store: &config.Store{Postgres: "host=/nowhere", Member: "node1", Durability: "replicated", Lease: 3 * time.Second}, Engines: enginesOf(l.Member())}))(t)
	conf := filepath.Join(dir, "gated.yaml")
	require.NoError(t, os.WriteFile(conf, []byte(text(t, conf)+`proxmox: {url: "https://192.0.2.1:8006", token_file: /nowhere, fingerprint: "`+strings.Repeat("AA:", 31)+`AA", node: pve1, storage: local-lvm, templates: {default: {kind: qemu, disk: 1, ostype: l26}}}`+"\n"), 0o600))
	return dir
}

func TestALedgerIsCompactedAndRepaired(t *testing.T) {
	l := memory.New()
	dir := memberOf(t, l)
	engines := func(context.Context, config.Store, op.GateID) (ledger.Engine, error) { return l.Member(), nil }
	o := LedgerOptions{StateDir: dir, Engines: engines}
	decide(t, dir, l)
	decide(t, dir, l)

	c := must.Get(Compact(t.Context(), o))(t)
	require.Positive(t, c.Dropped)
	require.Equal(t, c.Here.Number, c.Base)
	require.Empty(t, l.Groups())
	decide(t, dir, l)
	must.Get(VerifyLedger(t.Context(), o))(t)
	r := FsckReport{Sound: true}
	require.NoError(t, FsckLedger(t.Context(), o, &r))
	require.True(t, r.Sound, r.Problems)

	_, err := RepairLedger(t.Context(), RepairOptions{LedgerOptions: o})
	require.ErrorIs(t, err, refusal.Conflict, "nothing is lost")
	l.Change(func([]ledger.Group, uint64) ([]ledger.Group, uint64) { return nil, 1 })
	mended := must.Get(RepairLedger(t.Context(), RepairOptions{LedgerOptions: o}))(t)
	require.Greater(t, mended.EntriesHere, mended.EntriesThere)
	require.Greater(t, mended.Era, mended.Here.Era)
	decide(t, dir, l)
	r = FsckReport{Sound: true}
	require.NoError(t, FsckLedger(t.Context(), o, &r))
	require.True(t, r.Sound, r.Problems)
}
