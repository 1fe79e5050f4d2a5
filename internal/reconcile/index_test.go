package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/base/op"
	"gated/internal/test/must"
	"gated/internal/wire/desired"
)

// edits is a reconciler over a directory and a second source, both of which a
// test changes. The test keeps what the last read should have led to.
type edits struct {
	path    string
	dir     *Dir
	ahead   time.Duration // of dir's clock
	second  *lines
	r       *Reconciler
	want    *index
	targets map[op.Target]*target
	held    []*SetDoc // a list that the directory returned, and a copy
	copied  []*SetDoc
}

func newEdits(t *rapid.T, path string) *edits {
	e := &edits{path: path, ahead: time.Hour, second: &lines{}, want: newIndex(false), targets: map[op.Target]*target{}}
	e.dir = must.Get(NewDir(path, time.Minute, func() time.Time { return time.Now().Add(e.ahead) }))(t)
	t.Cleanup(func() { _ = e.dir.Close() })
	e.r = New(Config{Sources: []Source{e.dir, e.second}, Host: "pve1", After: noTimer})
	return e
}

func noTimer(time.Duration, func()) func() { return func() {} }

// drawDocument draws a document of few guests, so that sets often mention the
// same. Some documents are broken or for another host.
func drawDocument(t *rapid.T) string {
	switch rapid.IntRange(0, 15).Draw(t, "kind") {
	case 0:
		return "broken"
	case 1:
		return strings.Replace(document1("a"), "pve1", "pve2", 1)
	case 2:
		return "apiVersion: gated/v1\nhost: pve1\nguests: []\n"
	}
	text := "apiVersion: gated/v1\nhost: pve1\nguests:\n"
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}), 1, 3, rapid.ID).Draw(t, "guests") {
		text += fmt.Sprintf("  - {name: %s, state: %s}\n", name, rapid.SampledFrom([]string{running, stopped}).Draw(t, "state"))
	}
	return text
}

var setNames = rapid.SampledFrom([]string{"1.yaml", "2.yaml", "3.yaml", "4.yaml"})

// edit changes one file, or the second source.
func (e *edits) edit(t *rapid.T) {
	file := filepath.Join(e.path, setNames.Draw(t, "file"))
	switch rapid.SampledFrom([]string{"write", "write", "replace", "remove", "rename", "put", "put", "drop", "fail", "rescan"}).Draw(t, "edit") {
	case "write":
		require.NoError(t, os.WriteFile(file, []byte(drawDocument(t)), 0o644))
	case "replace":
		tmp := filepath.Join(e.path, ".tmp")
		require.NoError(t, os.WriteFile(tmp, []byte(drawDocument(t)), 0o644))
		require.NoError(t, os.Rename(tmp, file))
	case "remove":
		if err := os.Remove(file); err != nil {
			require.ErrorIs(t, err, os.ErrNotExist)
		}
	case "rename":
		if err := os.Rename(file, filepath.Join(e.path, setNames.Draw(t, "to"))); err != nil {
			require.ErrorIs(t, err, os.ErrNotExist)
		}
	case "put":
		e.second.put(setNames.Draw(t, "set"), drawDocument(t))
	case "drop":
		delete(e.second.docs, setNames.Draw(t, "set"))
	case "fail":
		e.second.err = rapid.SampledFrom([]error{nil, nil, errors.New("away")}).Draw(t, "error")
	case "rescan":
		e.ahead += 2 * time.Minute
	}
}

// fromNothing reads both sources with a new Dir, and makes an index from all
// documents.
func (e *edits) fromNothing(t *rapid.T) (ix *index, errs []error) {
	d := must.Get(NewDir(e.path, time.Minute, func() time.Time { return time.Now().Add(e.ahead) }))(t)
	defer func() { _ = d.Close() }()
	d.after = noTimer
	mentions := map[op.Target][]mention{}
	ix = newIndex(true)
	for i, s := range []Source{d, e.second} {
		docs, err := s.Read(context.Background())
		if err == nil {
			err = e.r.checkHost(docs)
		}
		errs = append(errs, err)
		if err != nil {
			ix.whole = false
			continue
		}
		for _, d := range docs {
			ix.sets[d.Set]++
			for j := range d.Doc.Guests {
				g := &d.Doc.Guests[j]
				mentions[g.Target()] = append(mentions[g.Target()], mention{source: i, set: d.Set, guest: g})
			}
		}
	}
	for target, m := range mentions {
		ix.wishes[target] = newWish(m)
	}
	return ix, errs
}

// remembered is a target of which everything is remembered that a change of its
// wish ends.
func remembered() *target {
	return &target{adopted: []adoption{{"1.yaml", "i1"}}, stopped: []stop{{wish: "w"}}, retry: &retry{}, unknown: "why"}
}

// takeAll compares all wishes with all earlier ones. It returns the targets that
// are due, and changes what is remembered of targets.
func takeAll(old, ix *index, targets map[op.Target]*target) []op.Target {
	r := &Reconciler{wishes: ix, targets: targets}
	var due []op.Target
	for t, w := range ix.wishes {
		before := old.wishes[t]
		if before != nil && before.same(w) {
			w.found = before.found
			continue
		}
		due = append(due, t)
		m := r.target(t)
		m.retry = nil
		if before != nil {
			m.stopped = nil
		}
		r.forget(ix, t, before)
	}
	for t, before := range old.wishes {
		if ix.wishes[t] == nil {
			due = append(due, t)
			r.forget(ix, t, before)
			if m := targets[t]; m != nil {
				m.adopted, m.unknown = nil, ""
			}
		}
	}
	return due
}

// check reads the sources, and compares the result with one made from nothing.
func (e *edits) check(t *rapid.T) {
	e.r.queue = newQueue(time.Now, noTimer)
	e.r.targets, e.targets = map[op.Target]*target{}, map[op.Target]*target{}
	for target, w := range e.r.wishes.wishes {
		w.found, e.want.wishes[target].found = asWished, asWished
		e.r.targets[target], e.targets[target] = remembered(), remembered()
	}
	e.r.read(context.Background())

	ix, errs := e.fromNothing(t)
	due := takeAll(e.want, ix, e.targets)
	e.want = ix
	require.Equal(t, ix, e.r.wishes)
	require.ElementsMatch(t, due, slices.Collect(maps.Keys(e.r.queue.waiting)))
	require.Equal(t, e.targets, e.r.targets)
	for i, err := range errs {
		if err == nil {
			require.NoError(t, e.r.sources[i].err)
			continue
		}
		require.EqualError(t, e.r.sources[i].err, err.Error())
	}
	require.Equal(t, e.copied, e.held, "a list that was returned does not change")
	e.held = e.r.sources[0].docs
	e.copied = slices.Clone(e.held)
}

// TestIndexEqualsOneMadeFromNothing: after any changes of files and sets, the
// index, the queue and what is remembered of targets are those of a reconciler
// that compares all wishes with all earlier ones.
func TestIndexEqualsOneMadeFromNothing(t *testing.T) {
	root := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		e := newEdits(t, must.Get(os.MkdirTemp(root, ""))(t))
		e.dir.after = noTimer
		for range rapid.IntRange(1, 12).Draw(t, "reads") {
			for range rapid.IntRange(0, 3).Draw(t, "edits") {
				e.edit(t)
			}
			e.check(t)
		}
	})
}

// TestIndexIsReadWhileItChanges is for the race detector: rounds, status and
// withdrawals read the index while a source changes.
func TestIndexIsReadWhileItChanges(t *testing.T) {
	w := newWorld(t, "a", "b")
	w.wish("[{name: a, state: running}]")
	list := must.Get(w.fleet.List(t.Context()))(t)
	stop := make(chan struct{})
	var wg, began sync.WaitGroup
	for _, use := range []func(){
		func() { w.r.compare(wished, 1, list, "") },
		func() { w.r.Status() },
		func() { w.r.Standing(nil, 10) },
		func() { w.r.wishesNot("site", guestTarget("a")) },
		func() { w.r.pursue(t.Context(), w.driver, guestTarget("a")) },
	} {
		began.Add(1)
		wg.Go(func() {
			use()
			began.Done()
			for {
				select {
				case <-stop:
					return
				default:
					use()
				}
			}
		})
	}
	began.Wait()
	for i := range 50 {
		w.source.put("site", fmt.Sprintf("apiVersion: gated/v1\nhost: pve1\nguests: [{name: a, state: running, cpus: %d}]\n", 1+i%2))
		w.source.put("other", "apiVersion: gated/v1\nhost: pve1\nguests: [{name: "+[]string{"a", "b"}[i%2]+", state: running}]\n")
		w.r.read(t.Context())
	}
	close(stop)
	wg.Wait()
	require.Equal(t, map[string]int{"site": 1, "other": 1}, w.r.wishes.sets)
	require.Equal(t, []string{"other"}, w.r.wishes.wishes[guestTarget("b")].sets)
}

// TestManySetsMentionOneGuest: a hub may send a thousand sets that all mention the
// same guests. The memory for their wishes grows with the mentions, and not with
// their square.
func TestManySetsMentionOneGuest(t *testing.T) {
	const sets, guests = 1000, 20
	var docs []*SetDoc
	for i := range sets {
		d := &SetDoc{Set: fmt.Sprintf("%04d", i), Digest: fmt.Sprint(i), Doc: desired.Document{Host: "pve1"}}
		for j := range guests {
			d.Doc.Guests = append(d.Doc.Guests, desired.Guest{Name: fmt.Sprint("g", j), State: running})
		}
		docs = append(docs, d)
	}
	r := &Reconciler{wishes: newIndex(true), targets: map[op.Target]*target{}}
	for _, c := range []change{{added: docs}, {gone: docs}} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		require.Len(t, r.takeChanges(c), guests)
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(sets*guests*1024), "bytes, at most 1 KiB for a mention")
		for _, w := range r.wishes.wishes {
			require.Len(t, w.sets, sets)
			require.Equal(t, sets, len(w.mentions))
		}
	}
	require.Empty(t, r.wishes.wishes)
}
