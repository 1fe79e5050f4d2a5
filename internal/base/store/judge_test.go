package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/stretchr/testify/require"
)

// afterAKill looks at what a process that is killed now leaves: the database and
// its log, as they are, without what connections know.
func (l *life) afterAKill(when string) {
	l.copies++
	to := filepath.Join(l.beside, fmt.Sprint(l.copies, ".db"))
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(l.path + suffix)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		require.NoError(l.t, err)
		require.NoError(l.t, os.WriteFile(to+suffix, b, 0o600))
	}
	if len(l.told) == 0 && l.empty(to) {
		return // it was killed before it was made
	}
	l.look(to)
}

// empty reports whether there is a database at all.
func (l *life) empty(path string) bool {
	info, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0
}

// look opens a copy as the next start would, and judges it.
func (l *life) look(path string) {
	s, err := Open(context.Background(), path, Options{Migrations: l.schema})
	require.NoError(l.t, err)
	l.judge(s)
	require.NoError(l.t, s.Check(context.Background()))
	require.NoError(l.t, s.Close())
}

// judge holds the rows against what was told. What nobody could read yet may be
// either way, but never by half.
func (l *life) judge(s *Store) {
	have := keys(l.t, s)
	counted := have["head"]
	delete(have, "head")
	for k, told := range l.told {
		switch {
		case told == kept && !have[k]:
			l.lost++
			l.t.Errorf("%+v: %s is lost", l.fault, k)
		case told == notKept && have[k]:
			l.twice++
			l.t.Errorf("%+v: %s is there", l.fault, k)
		}
	}
	for k := range have {
		require.NotZero(l.t, l.told[k], "%s is nobody's", k)
	}
	if !counted {
		require.Empty(l.t, have)
		return
	}
	var n []byte
	require.NoError(l.t, s.View(context.Background(), func(tx *Tx) error {
		return tx.QueryRow(`SELECT v FROM items WHERE k = 'head'`).Scan(&n)
	}))
	require.Equal(l.t, strconv.Itoa(len(have)), string(n), "half a group")
}

// schemaIsWhole checks that the database has one of the versions, and that the
// snapshot from before the first migration is there if that went through.
func (l *life) schemaIsWhole() {
	if len(l.schema) != newest {
		return // nothing is migrated
	}
	v := version(l.t, l.path)
	require.LessOrEqual(l.t, v, newest)
	if v == oldest {
		return
	}
	name := preName(l.path, oldest+1)
	require.Equal(l.t, oldest, version(l.t, name))
	s, err := OpenReadOnly(context.Background(), name, Options{Migrations: l.schema})
	require.NoError(l.t, err)
	require.True(l.t, keys(l.t, s)["first0"])
	require.NoError(l.t, s.Check(context.Background()))
	require.NoError(l.t, s.Close())
	if l.s == nil {
		return
	}
	all, err := Snapshots(l.path)
	require.NoError(l.t, err)
	require.LessOrEqual(l.t, len(all), keepSnapshots, "%v", all)
}
