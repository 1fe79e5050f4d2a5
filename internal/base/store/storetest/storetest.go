// Package storetest opens stores for tests and checks their databases when the
// test has ended: pages, indexes, constraints and references, that the schema is
// still the one that was asked for, and what the caller adds.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"testing"

	"gated/internal/base/store"
)

// Look reports what is wrong in a database: each problem by the name of the rule
// that it breaks, and in words. schema is what its migrations make.
type Look func(tx *store.Tx, schema []store.Object) ([]Problem, error)

// Problem is one of those.
type Problem struct{ Rule, Says string }

// watched is a database that is checked when a test has ended.
type watched struct {
	path       string
	migrations []store.Migration
	look       Look
	breaks     []string
	removed    bool
	below      func() []Problem // what Below returned
}

// databases are those that are watched, by path. A test may open one as often as
// it likes; it is checked once, when the test that opened it first has ended.
var databases = struct {
	sync.Mutex
	of map[string]*watched
}{of: map[string]*watched{}}

// Below puts a Keeper below each store that Open opens, if it is set. after runs when the test has ended, and tells what
// is wrong below. A test program sets Below before its tests.
var Below func(path string, o *store.Options) (after func() []Problem)

// Open opens a store, which is closed when the test has ended, and has its
// database checked then, with look where that is not nil. It rehearses each group,
// so that a function that may not run twice fails its test.
func Open(t testing.TB, path string, o store.Options, look Look) *store.Store {
	t.Helper()
	_, o.Rehearse = t.(*testing.T) // a benchmark measures what a daemon does
	var below func() []Problem
	if Below != nil {
		below = Below(path, &o)
	}
	s, err := store.Open(context.WithoutCancel(t.Context()), path, o)
	if err != nil {
		t.Fatal(err)
	}
	Watch(t, s.Path(), o.Migrations, look)
	change(t, s.Path(), func(w *watched) { w.below = below })
	t.Cleanup(func() { _ = s.Close() }) // a test that closes it has heard the error
	return s
}

// Watch has a database checked that the test opens otherwise. It has to be
// closed by the end of the test, by a cleanup that is registered after this call.
// A benchmark's database is not checked: its size is its purpose.
func Watch(t testing.TB, path string, migrations []store.Migration, look Look) {
	t.Helper()
	databases.Lock()
	defer databases.Unlock()
	if w, again := databases.of[path]; again {
		w.migrations = migrations // of the newest program
		return
	}
	w := &watched{path: path, migrations: migrations, look: look}
	databases.of[path] = w
	t.Cleanup(func() {
		databases.Lock()
		delete(databases.of, path)
		databases.Unlock()
		if _, bench := t.(*testing.B); bench || t.Failed() {
			return
		}
		for _, p := range w.check() {
			t.Errorf("%s after the test: %s: %s", path, p.Rule, p.Says)
		}
	})
}

// Breaks says that the test breaks a database on purpose, and the rules that have
// to be found broken when it has ended, and no others.
func Breaks(t testing.TB, path string, rules ...string) {
	t.Helper()
	change(t, path, func(w *watched) { w.breaks = append(w.breaks, rules...) })
}

// Unchecked says that look would tell nothing of what the test made: why not is
// for whoever reads it. Pages, constraints and schema are looked at all the same.
func Unchecked(t testing.TB, path, why string) {
	t.Helper()
	if why == "" {
		t.Fatal("nobody says why it is not to be checked")
	}
	change(t, path, func(w *watched) { w.look = nil })
}

// Removed says that the test takes the database away.
func Removed(t testing.TB, path string) {
	t.Helper()
	change(t, path, func(w *watched) { w.removed = true })
}

func change(t testing.TB, path string, fn func(*watched)) {
	t.Helper()
	databases.Lock()
	defer databases.Unlock()
	w, ok := databases.of[path]
	if !ok {
		t.Fatalf("%s is not watched", path)
	}
	fn(w)
}

// check returns what is wrong and was not to be, and what was to be and is not.
func (w *watched) check() (out []Problem) {
	_, err := os.Stat(w.path)
	if gone := errors.Is(err, fs.ErrNotExist); gone || w.removed {
		if gone != w.removed {
			out = append(out, Problem{"database", fmt.Sprintf("it is gone: %t", gone)})
		}
		return out
	}
	all, err := w.problems()
	if err != nil {
		all = append(all, Problem{"database", err.Error()})
	}
	if w.below != nil && len(w.breaks) == 0 {
		all = append(all, w.below()...)
	}
	left := slices.Clone(w.breaks)
	for _, p := range all {
		if !slices.Contains(w.breaks, p.Rule) {
			out = append(out, p)
		}
		left = slices.DeleteFunc(left, func(rule string) bool { return rule == p.Rule })
	}
	for _, rule := range left {
		out = append(out, Problem{rule, "it was to be broken, and is not"})
	}
	return out
}

func (w *watched) problems() (out []Problem, err error) {
	ctx := context.Background()
	schema, err := schemaOf(ctx, w.migrations)
	if err != nil {
		return nil, err
	}
	s, err := store.OpenReadOnly(ctx, w.path, store.Options{Migrations: w.migrations})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.Check(ctx); err != nil {
		return nil, err
	}
	err = s.View(ctx, func(tx *store.Tx) (err error) {
		out, err = w.read(tx, schema)
		return err
	})
	return out, err
}

// schemas are those that were made already, by their migrations: to make one takes
// longer than all that is looked for in it.
var schemas sync.Map

func schemaOf(ctx context.Context, list []store.Migration) ([]store.Object, error) {
	key := fmt.Sprintf("%#v", list)
	if made, ok := schemas.Load(key); ok {
		return slices.Clone(made.([]store.Object)), nil
	}
	schema, err := store.Schema(ctx, list)
	if err == nil {
		schemas.Store(key, slices.Clone(schema))
	}
	return schema, err
}

func (w *watched) read(tx *store.Tx, schema []store.Object) (out []Problem, err error) {
	have, err := tx.Schema()
	if err != nil {
		return nil, err
	}
	if !slices.Equal(have, schema) {
		out = append(out, Problem{"schema", "it is not as the migrations make it"})
	}
	for _, o := range schema {
		broken, err := tx.Violated(o)
		if err != nil {
			return out, err
		}
		for _, expr := range broken {
			out = append(out, Problem{"database", "a row of " + o.Name + " does not meet " + expr})
		}
	}
	if w.look == nil {
		return out, nil
	}
	more, err := w.look(tx, schema)
	return append(out, more...), err
}
