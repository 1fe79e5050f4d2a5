// Package fscktest opens stores for tests and runs fsck on each when the test has
// ended, as far as its tables go: the whole of it where the whole schema is
// there.
package fscktest

import (
	"fmt"
	"testing"

	"gated/internal/base/store"
	"gated/internal/base/store/storetest"
	"gated/internal/host/fsck"
	_ "gated/internal/ledger/ledgertest" // if the environment asks for a ledger
)

// Open is storetest.Open with fsck.
func Open(t testing.TB, path string, o store.Options) *store.Store {
	t.Helper()
	return storetest.Open(t, path, o, look)
}

// Watch is storetest.Watch with fsck.
func Watch(t testing.TB, path string, migrations []store.Migration) {
	t.Helper()
	storetest.Watch(t, path, migrations, look)
}

// Breaks says which rules the test breaks on purpose: they have to be found
// broken when it has ended, and no others.
func Breaks(t testing.TB, s *store.Store, rules ...fsck.Rule) {
	t.Helper()
	for _, r := range rules {
		storetest.Breaks(t, s.Path(), string(r))
	}
}

func look(tx *store.Tx, schema []store.Object) ([]storetest.Problem, error) {
	r, err := fsck.Checker{Schema: schema}.Run(tx)
	var out []storetest.Problem
	for _, p := range r.Problems {
		if p.Rule != fsck.Schema && p.Code != "row-invalid" { // storetest says so
			out = append(out, storetest.Problem{Rule: string(p.Rule), Says: fmt.Sprintf("%s: %s (%s)", p.Where, p.Detail, p.Code)})
		}
	}
	return out, err
}
