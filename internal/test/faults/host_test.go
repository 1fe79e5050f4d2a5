package faults

import (
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/gate"
	"gated/internal/host/life"
	"gated/internal/log/audit"
	"gated/internal/log/checkpoint"
	"gated/internal/test/gateworld"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

const (
	hostName = "pve1"
	hostID   = gateworld.ID
)

var (
	hub  = op.Requester{Source: op.SourceAPI, UID: 1000, PID: 77}
	noon = gateworld.Noon
)

// host is a gate over a store whose calls fail and over guests that are only in
// memory, and what its callers were told.
type host struct {
	t      testing.TB
	dir    string // the database's, where calls fail
	beside string // where none do
	path   string
	fault  Fault
	store  *store.Store
	gate   *gate.Gate
	guests guests
	alice  mint.Key
	key    checkpoint.Key

	jobs  int                    // that somebody was told of
	told  map[op.StepID]op.State // what was said last of each step
	spent map[op.RequestID]authz.Envelope
	acted map[op.StepID]int
	doubt bool // the fsync of a COMMIT failed, and all after it: a kill may keep that one
	tally
}

// prepared is a database that was made and filled, without its log, and the
// guests that it tells of.
type prepared struct {
	database []byte
	guests   guests
	key      checkpoint.Key
	jobs     int
	told     map[op.StepID]op.State
}

// prepare makes the guests of the story, on which nothing fails.
func prepare(t testing.TB, dir string) prepared {
	h := &host{t: t, path: filepath.Join(dir, "prepared.db"), guests: guests{}, alice: mint.Ed25519(t, "alice"),
		told: map[op.StepID]op.State{}, acted: map[op.StepID]int{}}
	h.key = must.Get(checkpoint.NewKey(hostID))(t)
	h.store, h.gate = h.open(h.path)
	require.NoError(t, h.store.Update(t.Context(), func(tx *store.Tx) error {
		if err := audit.SetPublicKey(tx, hostID, h.key.Public); err != nil {
			return err
		}
		return h.gate.Append(tx, audit.Entry{Kind: audit.Keyed, By: "gate", Parts: audit.Parts{HeadKey: h.key.Public}})
	}))
	for _, name := range []string{"signed", "benign", "rejected", "cancelled", "later"} {
		h.benign("guest.create", name)
	}
	require.NoError(t, h.store.Close())
	b := must.Get(os.ReadFile(h.path))(t)
	return prepared{b, h.guests, h.key, h.jobs, h.told}
}

func newHost(t testing.TB, dir string, p prepared, f Fault) *host {
	h := &host{t: t, dir: filepath.Join(dir, "host"), beside: filepath.Join(filepath.Dir(dir), "beside-"+filepath.Base(dir)), fault: f,
		guests: maps.Clone(p.guests), alice: mint.Ed25519(t, "alice"), key: p.key, jobs: p.jobs, told: maps.Clone(p.told),
		spent: map[op.RequestID]authz.Envelope{}, acted: map[op.StepID]int{}}
	h.path = filepath.Join(h.dir, "gated.db")
	require.NoError(t, os.Mkdir(h.dir, 0o700))
	require.NoError(t, os.Mkdir(h.beside, 0o700))
	require.NoError(t, os.WriteFile(h.path, p.database, 0o600))
	h.store, h.gate = h.open(h.path)
	return h
}

// open opens a database and puts the gate before it, as a start does.
func (h *host) open(path string) (*store.Store, *gate.Gate) {
	//fsck:none each story runs fsck when calls fail no more
	s := must.Get(store.Open(h.t.Context(), path, store.Options{Migrations: life.Migrations()}))(h.t)
	return s, gateworld.New(h.t, s, gateworld.Still, gate.Config{Observer: h.guests, Host: hostName, ID: hostID, Key: h.key,
		Trust: gateworld.Trust(h.t, gateworld.Line(h.alice, op.Operational)), UID: 4242, Logger: slog.New(slog.DiscardHandler)})
}

// afterAKill looks at what a process that is killed now leaves.
func (h *host) afterAKill() {
	to := filepath.Join(h.beside, "killed.db")
	for _, suffix := range []string{"", "-wal", "-shm"} {
		require.NoError(h.t, os.RemoveAll(to+suffix))
	}
	for _, suffix := range []string{"", "-wal"} {
		b := must.Get(os.ReadFile(h.path + suffix))(h.t)
		require.NoError(h.t, os.WriteFile(to+suffix, b, 0o600))
	}
	s, g := h.open(to)
	h.judge(s, g, h.doubt)
	require.NoError(h.t, s.Close())
}
