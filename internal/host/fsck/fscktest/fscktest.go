// Package fscktest opens stores for tests and runs fsck on each when the test has
// ended, as far as its tables go: the whole of it where the whole schema is
// there.
package fscktest

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"gated/internal/base/store"
	"gated/internal/base/store/storetest"
	"gated/internal/host/fsck"
	_ "gated/internal/ledger/ledgertest" // if the environment asks for a ledger
	"gated/internal/log/archive"
	"gated/internal/test/acceptor"
)

// Open is storetest.Open with fsck.
func Open(t testing.TB, path string, o store.Options) *store.Store {
	t.Helper()
	return storetest.Open(t, path, o, looking(path, o.Migrations))
}

// Watch is storetest.Watch with fsck.
func Watch(t testing.TB, path string, migrations []store.Migration) {
	t.Helper()
	storetest.Watch(t, path, migrations, looking(path, migrations))
}

// Breaks says which rules the test breaks on purpose: they have to be found
// broken when it has ended, and no others.
func Breaks(t testing.TB, s *store.Store, rules ...fsck.Rule) {
	t.Helper()
	for _, r := range rules {
		storetest.Breaks(t, s.Path(), string(r))
	}
}

// looking is fsck with the segments in the directory archive beside the database, where a daemon has them if its settings name no other.
func looking(path string, migrations []store.Migration) storetest.Look {
	return func(tx *store.Tx, schema []store.Object) ([]storetest.Problem, error) {
		return look(fsck.Checker{Schema: schema, Archive: archive.NewDir(filepath.Join(filepath.Dir(path), "archive")), Migrations: migrations}, tx)
	}
}

func look(checker fsck.Checker, tx *store.Tx) ([]storetest.Problem, error) {
	r, err := checker.Run(tx)
	var out []storetest.Problem
	for _, p := range r.Problems {
		if p.Rule != fsck.Schema && p.Code != "row-invalid" { // storetest says so
			out = append(out, storetest.Problem{Rule: string(p.Rule), Says: fmt.Sprintf("%s: %s (%s)", p.Where, p.Detail, p.Code)})
		}
	}
	if slices.ContainsFunc(r.Problems, func(p fsck.Problem) bool { return p.Rule == fsck.AuditLog }) {
		return out, err // the log is not the one that the gate wrote, so the model says nothing of it
	}
	if err != nil || !slices.ContainsFunc(checker.Schema, func(o store.Object) bool { return o.Name == "audit" }) {
		return out, err
	}
	steps, err := acceptor.Replay(tx)
	for _, v := range steps {
		out = append(out, storetest.Problem{Rule: "model", Says: v.String()})
	}
	return out, err
}
