// Package ledgertest puts a ledger below the stores that tests open, if GATED_TEST_LEDGER is in their environment: memory,
// or pg: and how to connect to a PostgreSQL server with a synchronous standby. When a test has ended, the groups are replayed in an empty store, whose tables must then be the same.
package ledgertest

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"gated/internal/base/store"
	"gated/internal/base/store/storetest"
	"gated/internal/ledger"
	"gated/internal/ledger/memory"
)

// variable asks for a ledger.
const variable = "GATED_TEST_LEDGER"

func init() {
	kind := os.Getenv(variable)
	connection, onPostgres := strings.CutPrefix(kind, "pg:")
	switch {
	case kind == "":
	case kind == "memory":
		storetest.Below = func(path string, o *store.Options) func() []storetest.Problem { return below(path, o, inMemory) }
	case onPostgres && onServer == nil:
		panic(variable + "=" + kind + " needs tests with -tags ledgerpg")
	case onPostgres:
		storetest.Below = func(path string, o *store.Options) func() []storetest.Problem {
			return below(path, o, onServer(connection))
		}
	default:
		panic(variable + "=" + kind + ": there are memory, and pg: with a connection string")
	}
}

// Key signs groups in tests.
type Key struct{ private ed25519.PrivateKey }

// NewKey returns the key of a number: always the same one.
func NewKey(number byte) Key {
	return Key{ed25519.NewKeyFromSeed(bytes.Repeat([]byte{number}, ed25519.SeedSize))}
}

// Sign implements ledger.Signer.
func (k Key) Sign(message []byte) ([]byte, error) { return ed25519.Sign(k.private, message), nil }

// Verify implements ledger.Verifier.
func (k Key) Verify(message, signature []byte) bool {
	return ed25519.Verify(k.private.Public().(ed25519.PublicKey), message, signature)
}

// Gate is the gate of test ledgers.
var Gate = strings.Repeat("9a", 16)

// Keeper returns a keeper on an engine.
func Keeper(e ledger.Engine) *ledger.Keeper {
	return ledger.New(ledger.Settings{Engine: e, Gate: Gate, Signer: NewKey(1), Verifier: NewKey(1), Pause: thrice})
}

// thrice lets Settle ask three times, without a wait.
func thrice(try int, _ <-chan struct{}) error {
	if try == 3 {
		return errors.New("asked three times")
	}
	return nil
}

// opened is the ledger of a database.
type opened struct {
	open    func() ledger.Engine // for one more daemon
	engines []ledger.Engine      // of each daemon so far
}

var ledgers = struct {
	sync.Mutex
	of map[string]*opened
}{of: map[string]*opened{}}

// inMemory makes an empty ledger.
func inMemory() func() ledger.Engine {
	l := memory.New()
	return func() ledger.Engine { return l.Member() }
}

// below gives a database its ledger.
func below(path string, o *store.Options, empty func() func() ledger.Engine) func() []storetest.Problem {
	ledgers.Lock()
	defer ledgers.Unlock()
	l := ledgers.of[path]
	if l == nil {
		l = &opened{open: empty()}
		ledgers.of[path] = l
	}
	e := l.open()
	l.engines = append(l.engines, e)
	o.Keeper, o.Local = Keeper(e), ledger.LocalNames()
	migrations := o.Migrations
	return func() []storetest.Problem {
		again := l.open()
		err := errors.Join(Compare(context.Background(), again, path, migrations), again.Close())
		for _, e := range l.engines {
			err = errors.Join(err, e.Close())
		}
		if err != nil {
			return []storetest.Problem{{Rule: "ledger", Says: err.Error()}}
		}
		return nil
	}
}

// Compare replays a ledger in an empty store, and compares all tables that travel with those of the database at path,
// which must be closed.
func Compare(ctx context.Context, e ledger.Engine, path string, migrations []store.Migration) (err error) {
	dir, err := os.MkdirTemp("", "replay")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	there, err := store.Open(ctx, filepath.Join(dir, "replay.db"),
		store.Options{Migrations: migrations, Keeper: Keeper(e), Local: ledger.LocalNames()})
	if err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	replayed, err := rows(ctx, there)
	if err := errors.Join(err, there.Close()); err != nil {
		return err
	}
	here, err := store.OpenReadOnly(ctx, path, store.Options{Migrations: migrations})
	if err != nil {
		return err
	}
	want, err := rows(ctx, here)
	if err := errors.Join(err, here.Close()); err != nil {
		return err
	}
	return differ(want, replayed)
}

func rows(ctx context.Context, s *store.Store) (out []byte, err error) {
	err = s.View(ctx, func(tx *store.Tx) error {
		out, err = tx.Rows(ledger.LocalNames())
		return err
	})
	return out, err
}

// differ names the first row that differs.
func differ(want, have []byte) error {
	if bytes.Equal(want, have) {
		return nil
	}
	var list []store.Change
	for c, err := range store.DecodeChanges(have) {
		if err != nil {
			return err
		}
		list = append(list, c)
	}
	n := 0
	for c, err := range store.DecodeChanges(want) {
		if err != nil {
			return err
		}
		if n == len(list) {
			return fmt.Errorf("a row of %s was not replayed: %v", c.Table, c.New)
		}
		if !bytes.Equal(store.AppendChange(nil, c), store.AppendChange(nil, list[n])) {
			return fmt.Errorf("a row of %s is %v, and replayed it is of %s %v", c.Table, c.New, list[n].Table, list[n].New)
		}
		n++
	}
	return fmt.Errorf("a row of %s is there only in the replay: %v", list[n].Table, list[n].New)
}
