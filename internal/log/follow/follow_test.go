package follow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/store"
	"gated/internal/base/store/storetest"
	"gated/internal/log/audit"
)

var schema = []store.Migration{{Version: 1, Name: "audit", SQL: audit.Schema}, {Version: 2, Name: "tree", SQL: audit.SchemaTree}}

// world is a log, and what a follower told of it.
type world struct {
	t     *testing.T
	store *store.Store
	said  bytes.Buffer
	told  []string
	f     *Follower
}

func newWorld(t *testing.T) *world {
	w := &world{t: t}
	w.store = storetest.Open(t, filepath.Join(t.TempDir(), "audit.db"), store.Options{Migrations: schema},
		func(*store.Tx, []store.Object) ([]storetest.Problem, error) { return nil, nil })
	w.store.OnGroup(audit.Seal)
	w.append("before")
	var err error
	w.f, err = New(t.Context(), w.store, slog.New(slog.NewTextHandler(&w.said, nil)), func(_ *store.Tx, e audit.Entry) {
		w.told = append(w.told, e.Detail)
	})
	require.NoError(t, err)
	return w
}

func (w *world) append(details ...string) {
	w.t.Helper()
	require.NoError(w.t, w.update(nil, details...))
}

func (w *world) update(fails error, details ...string) error {
	return w.store.Update(w.t.Context(), func(tx *store.Tx) error {
		for _, d := range details {
			if _, err := audit.Append(tx, audit.Entry{Time: time.Unix(1, 0), Kind: audit.Planned, Detail: d}); err != nil {
				return err
			}
		}
		return fails
	})
}

func TestEachCommittedEntryIsToldOnceInOrder(t *testing.T) {
	w := newWorld(t)
	require.True(t, w.f.Drain(t.Context()))
	require.Empty(t, w.told, "what was there before is told by nobody")
	w.append("a", "b")
	no := errors.New("no")
	require.ErrorIs(t, w.update(no, "rolled back"), no)
	w.append("c")
	require.True(t, w.f.Drain(t.Context()))
	require.True(t, w.f.Drain(t.Context()))
	require.Equal(t, []string{"a", "b", "c"}, w.told)
}

// The sizes of a batch, below, at and above.
func TestBatches(t *testing.T) {
	for _, n := range []int{batch - 1, batch, batch + 1, 2*batch + 1} {
		w := newWorld(t)
		want := make([]string, n)
		for i := range want {
			want[i] = fmt.Sprint(i)
		}
		w.append(want...)
		require.True(t, w.f.Drain(t.Context()))
		require.Equal(t, want, w.told)
	}
}

func TestNothingIsToldInsideOfATransaction(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.store.Update(t.Context(), func(tx *store.Tx) error {
		_, err := audit.Append(tx, audit.Entry{Time: time.Unix(1, 0), Kind: audit.Planned, Detail: "not yet"})
		require.True(t, w.f.Drain(context.Background()))
		require.Empty(t, w.told)
		return err
	}))
	require.True(t, w.f.Drain(t.Context()))
	require.Equal(t, []string{"not yet"}, w.told)
}

// Run tells by itself after a commit, and ends with its context.
func TestRun(t *testing.T) {
	w := newWorld(t)
	heard := make(chan string, 1)
	w.f.each = func(_ *store.Tx, e audit.Entry) { heard <- e.Detail }
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.f.Run(ctx) }()
	w.append("a")
	require.Equal(t, "a", <-heard)
	w.append("b")
	require.Equal(t, "b", <-heard)
	cancel()
	require.NoError(t, <-ended)
}

// An entry that was changed on disk is left out, with words, and the next one is told.
func TestAnEntryThatCannotBeRead(t *testing.T) {
	w := newWorld(t)
	w.append("a", "b")
	require.NoError(t, w.store.Update(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Exec(`UPDATE audit SET body = x'7b' WHERE seq = 2`)
		return err
	}))
	require.True(t, w.f.Drain(t.Context()))
	require.Equal(t, []string{"b"}, w.told)
	require.Contains(t, w.said.String(), "entry=2")
}

func TestADatabaseThatCannotBeReadIsSaidOnce(t *testing.T) {
	w := newWorld(t)
	w.append("a")
	require.NoError(t, w.store.Close())
	require.False(t, w.f.Drain(t.Context()))
	require.False(t, w.f.Drain(t.Context()))
	require.Equal(t, 1, bytes.Count(w.said.Bytes(), []byte("\n")))
}

// A follower that is too far behind leaves the oldest out, and says how many.
func TestTooFarBehind(t *testing.T) {
	w := newWorld(t)
	// As if so many had been written: numbers may have gaps for this reader.
	require.NoError(t, w.store.Update(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Exec(`INSERT INTO audit(seq, body, hash) SELECT ?, CAST(replace(body, '"seq":1,', '"seq":' || ? || ',') AS BLOB), hash FROM audit WHERE seq = 1`,
			int64(maxBehind+4), int64(maxBehind+4))
		return err
	}))
	require.True(t, w.f.Drain(t.Context()))
	require.Equal(t, []string{"before"}, w.told)
	require.Contains(t, w.said.String(), "entries=3\n")
	require.EqualValues(t, maxBehind+4, w.f.at)
}
