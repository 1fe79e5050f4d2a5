package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/faults"
)

// life is one run of a script with one fault, and what callers were told in it.
type life struct {
	t      *testing.T
	dir    string // the store's, where calls fail
	beside string // where none do
	path   string
	fault  faults.Fault
	s      *Store
	schema []Migration
	told   map[string]answer
	copies int
	copied string            // a copy that was made well
	then   map[string]answer // what was told before it was
	tally
}

// answer is what somebody was told about a row.
type answer int

const (
	kept answer = iota + 1
	notKept
	unread // nobody can say yet: two failures in a row
)

func newLife(t *testing.T, dir string, f faults.Fault) *life {
	l := &life{t: t, dir: filepath.Join(dir, "life"), beside: filepath.Join(filepath.Dir(dir), "beside-"+filepath.Base(dir)), fault: f, told: map[string]answer{}}
	l.path = filepath.Join(l.dir, "gated.db")
	require.NoError(t, os.Mkdir(l.dir, 0o700))
	require.NoError(t, os.Mkdir(l.beside, 0o700))
	return l
}

// run lives once, and returns what kind of call failed first; 0 if none did.
func (l *life) run(s script) faults.Kind {
	s.setUp(l)
	require.NoError(l.t, faults.Arm(l.fault))
	s.work(l)
	kind, err := faults.Disarm()
	require.NoError(l.t, err)
	l.afterAKill("at the end")
	l.schemaIsWhole()
	l.lookAtCopy()
	if l.s == nil {
		l.open(l.schema) // else it goes on without a restart
	}
	l.put("when all is well again", 10)
	l.judge(l.s)
	before := keys(l.t, l.s)
	l.close()
	l.open(l.schema)
	require.Equal(l.t, before, keys(l.t, l.s))
	l.judge(l.s)
	l.close()
	require.NoError(l.t, os.RemoveAll(l.dir))
	require.NoError(l.t, os.RemoveAll(l.beside))
	return kind
}

// again does something until it succeeds: at the second try, unless nothing
// works.
func (l *life) again(what string, do func(try int) error) bool {
	for try := range 2 {
		err := do(try)
		if err == nil {
			return true
		}
		if !l.fault.Lasting {
			require.Zero(l.t, try, "%s, %d: %v", what, l.fault.Nth, err)
		}
	}
	return false
}

// head counts the rows that a group leaves, in a row of its own: as the audit
// log's head, it is written with them or not at all.
func head(tx *Tx) error {
	_, err := tx.Exec(`INSERT INTO items (k, v) SELECT 'head', CAST(count(*) AS BLOB) FROM items WHERE k <> 'head'
		ON CONFLICT DO UPDATE SET v = excluded.v`)
	return err
}

func (l *life) open(schema []Migration) {
	l.schema = schema
	l.again("open", func(int) error {
		s, err := Open(context.Background(), l.path, Options{Migrations: schema})
		if err == nil {
			s.OnGroup(head)
			l.s = s
		}
		return err
	})
}

// close closes the store, also one that cannot do it well: that is a kill.
func (l *life) close() {
	if l.s == nil {
		return
	}
	_ = l.s.Close()
	l.s = nil
}

// put writes a row of that size, under another key at the second try.
func (l *life) put(k string, size int) {
	if l.s == nil {
		return
	}
	l.again("put "+k, func(try int) error {
		name := fmt.Sprint(k, try)
		err := l.s.Update(context.Background(), putSized(name, size))
		l.note(name, err)
		return err
	})
}

// note remembers what somebody was told, and looks at what a kill right
// afterwards would leave.
func (l *life) note(k string, err error) {
	switch {
	case err == nil:
		l.told[k] = kept
		return
	case strings.Contains(err.Error(), "cannot be read yet"), strings.Contains(err.Error(), "nothing else is either"):
		require.True(l.t, l.fault.Lasting, "one failure leaves no doubt: %v", err)
		l.told[k] = unread
	default:
		l.told[k] = notKept
	}
	require.ErrorIs(l.t, err, ErrUnavailable)
	if !l.fault.Lasting {
		l.afterAKill(err.Error())
	}
}

// group writes rows in one group. The functions of two further calls fail, and one
// of these calls writes a row instead. So the group runs twice.
func (l *life) group(names ...string) {
	const instead = "instead"
	if l.s == nil {
		return
	}
	l.again("group", func(try int) error {
		release, err := l.blockWriter()
		if err != nil {
			return err
		}
		var calls []*call
		for _, k := range names {
			c := &call{fn: put(fmt.Sprint(k, try)), done: make(chan error, 1)}
			calls = append(calls, c)
			require.NoError(l.t, l.s.writer.enqueue(context.Background(), c))
		}
		for i, or := range []func(*Tx, error) error{nil, func(tx *Tx, _ error) error { return put(fmt.Sprint(instead, try))(tx) }} {
			c := &call{fn: func(tx *Tx) error { return errors.Join(put(fmt.Sprint("dropped", i))(tx), errMine) }, or: or, done: make(chan error, 1)}
			calls = append(calls, c)
			require.NoError(l.t, l.s.writer.enqueue(context.Background(), c))
		}
		release()
		var told []error
		for _, c := range calls {
			told = append(told, <-c.done)
		}
		own := len(names)
		require.Error(l.t, told[own])
		told = slices.Delete(told, own, own+1)
		for i, k := range append(slices.Clone(names), instead) {
			require.Equal(l.t, told[0] == nil, told[i] == nil, "half a group")
			l.told[fmt.Sprint(k, try)] = notKept // until it is known: a kill is looked at in between
			if told[i] == nil {
				l.told[fmt.Sprint(k, try)] = kept
			}
		}
		for i, k := range append(slices.Clone(names), instead) {
			l.note(fmt.Sprint(k, try), told[i])
		}
		return told[0]
	})
}

// blockWriter keeps the writer busy until release is called.
func (l *life) blockWriter() (release func(), err error) {
	entered, released := make(chan struct{}), make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- l.s.Update(context.Background(), holder(l.s.writer, false, entered, released))
	}()
	select {
	case <-entered:
		return func() { close(released) }, nil
	case err := <-ended:
		require.ErrorIs(l.t, err, ErrUnavailable)
		return nil, err
	}
}

// checkpointOften has the WAL folded into the database after each commit, for
// the connection that the writer has.
func (l *life) checkpointOften() {
	if l.s == nil {
		return
	}
	l.again("pragma", func(int) error {
		return l.s.Update(context.Background(), func(tx *Tx) error { return tx.s.control(`PRAGMA wal_autocheckpoint = 1`) })
	})
}

// copy makes a copy that has all that was told, or none at all.
func (l *life) copy() {
	if l.s == nil {
		return
	}
	l.again("copy", func(try int) error {
		to := filepath.Join(l.dir, fmt.Sprint("copy", try))
		err := l.s.Snapshot(context.Background(), to)
		if err == nil {
			l.copied, l.then = to, maps.Clone(l.told)
			return nil
		}
		if _, left := os.Lstat(to); !l.fault.Lasting {
			require.ErrorIs(l.t, left, fs.ErrNotExist, "%v", err)
		}
		return err
	})
}

func (l *life) lookAtCopy() {
	if l.copied == "" {
		return
	}
	now := l.told
	l.told = l.then
	l.look(l.copied)
	l.told = now
}
