package ledger_test

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/store"
	"gated/internal/ledger"
	"gated/internal/ledger/ledgertest"
	"gated/internal/test/must"
)

// crashDir names the directory in which this program, started again with crash points, writes until it is killed.
const crashDir = "GATED_TEST_LEDGER_CRASH"

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		if err := writeUntilKilled(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var countedSchema = []store.Migration{{Version: 1, Name: "counted", SQL: `CREATE TABLE counted(n INTEGER PRIMARY KEY AUTOINCREMENT) STRICT;`}}

// files is a ledger in a directory, which outlives the process. One process at a time uses it.
type files string

func (f files) Position(context.Context) (p ledger.Position, err error) {
	era, err := os.ReadDir(filepath.Join(string(f), "eras"))
	if err == nil || errors.Is(err, os.ErrNotExist) {
		var groups []os.DirEntry
		groups, err = os.ReadDir(filepath.Join(string(f), "groups"))
		p.Last = uint64(len(groups))
	}
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	p.Era = uint64(len(era))
	return p, err
}

func (f files) put(kind string, n uint64, v any) error {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(v); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(string(f), kind), 0o700); err != nil {
		return err
	}
	return os.WriteFile(f.name(kind, n), b.Bytes(), 0o600)
}

func (f files) name(kind string, n uint64) string {
	return filepath.Join(string(f), kind, fmt.Sprintf("%09d", n))
}

func (f files) Take(ctx context.Context, from uint64) (ledger.Position, error) {
	if err := f.put("eras", from+1, from+1); err != nil {
		return ledger.Position{}, err
	}
	return f.Position(ctx)
}

func (f files) Append(g ledger.Group) error { return f.put("groups", g.Number, g) }

func (f files) Settle(_, number uint64) (bool, error) {
	_, err := os.Stat(f.name("groups", number))
	return err == nil, nil
}

func (f files) Read(_ context.Context, after uint64, most int) (out []ledger.Group, err error) {
	for n := after + 1; len(out) < most; n++ {
		b, err := os.ReadFile(f.name("groups", n))
		if errors.Is(err, os.ErrNotExist) {
			break
		}
		var g ledger.Group
		if err := errors.Join(err, gob.NewDecoder(bytes.NewReader(b)).Decode(&g)); err != nil {
			return nil, err
		}
		out = append(out, g)
	}
	return out, nil
}

func (f files) Base(context.Context) (ledger.Base, error) { return ledger.Base{}, nil }
func (f files) BaseBody(context.Context, ledger.Base) ([]byte, error) {
	return nil, ledger.ErrUnavailable
}
func (f files) PutBase(ledger.Base, []byte, uint64) error { return ledger.ErrUnavailable }
func (f files) Mend(context.Context, ledger.Position, uint64, ledger.Base, []byte) error {
	return ledger.ErrUnavailable
}
func (f files) Beat(uint64) error                 { return nil }
func (f files) End(context.Context, uint64) error { return ledger.ErrUnavailable }
func (f files) Close() error                      { return nil }

func openCounted(ctx context.Context, dir string) (*store.Store, error) {
	//fsck:none it has no table of a gate
	return store.Open(ctx, filepath.Join(dir, "counted.db"), store.Options{Migrations: countedSchema,
		Keeper: ledgertest.Keeper(files(filepath.Join(dir, "ledger"))), Local: ledger.LocalNames()})
}

// writeUntilKilled writes a row a group, and prints its number when it was told that the row is kept.
func writeUntilKilled(dir string) error {
	s, err := openCounted(context.Background(), dir)
	if err != nil {
		return err
	}
	for range 5 {
		var n int64
		if err := s.Update(context.Background(), func(tx *store.Tx) (err error) {
			n, err = tx.Insert(`INSERT INTO counted DEFAULT VALUES`)
			return err
		}); err != nil {
			return err
		}
		fmt.Println(n)
	}
	return s.Close()
}

// TestKilledBetweenLedgerAndCommit kills a program at each crash point of a group. What it was told is there after the
// next start, and what the ledger has acknowledged is there although it was not committed. Nothing is there twice.
func TestKilledBetweenLedgerAndCommit(t *testing.T) {
	program := filepath.Join(t.TempDir(), "ledger.test")
	build := exec.Command("go", "test", "-c", "-tags", "crashpoints", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // a part of what other tests compile
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	for point, kept := range map[string]int{"ledger.captured": 0, "store.written": 0, "ledger.sent": 0, "ledger.acknowledged": 1, "store.committed": 1} {
		for n := 1; n <= 3; n++ {
			t.Run(fmt.Sprintf("%s %d", point, n), func(t *testing.T) {
				dir := t.TempDir()
				cmd := exec.Command(program)
				cmd.Env = append(os.Environ(), crashDir+"="+dir, fmt.Sprintf("GATED_CRASH_AT=%s:%d", point, n))
				told, err := cmd.Output()
				var ended *exec.ExitError
				require.ErrorAs(t, err, &ended)
				require.Equal(t, syscall.SIGKILL, ended.Sys().(syscall.WaitStatus).Signal())
				require.Equal(t, n-1, strings.Count(string(told), "\n"), string(told))

				s := must.Get(openCounted(t.Context(), dir))(t)
				var rows, last int
				require.NoError(t, s.View(t.Context(), func(tx *store.Tx) error {
					return tx.QueryRow(`SELECT count(*), coalesce(max(n), 0) FROM counted`).Scan(&rows, &last)
				}))
				require.Equal(t, n-1+kept, rows)
				require.Equal(t, rows, last)
				require.NoError(t, s.Update(t.Context(), func(tx *store.Tx) error {
					_, err := tx.Insert(`INSERT INTO counted DEFAULT VALUES`)
					return err
				}))
				require.NoError(t, s.Close())
				require.NoError(t, ledgertest.Compare(t.Context(), files(filepath.Join(dir, "ledger")), s.Path(), countedSchema))
			})
		}
	}
}
