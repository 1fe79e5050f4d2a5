package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"gated/internal/ledger"
)

// World is one empty ledger, and the daemons of its gate.
type World struct {
	// Member returns the engine of another daemon.
	Member func(t *testing.T) ledger.Engine
	// Doubt makes the next Append of an engine of Member be in doubt, and kept or not. Mend ends the fault.
	Doubt func(t *testing.T, e ledger.Engine, kept bool) (mend func())
}

// Engines runs the tests that every engine passes, each in a world of its own.
func Engines(t *testing.T, world func(t *testing.T) World) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, w World)
	}{
		{"groups are read in order, as they were appended", readsInOrder},
		{"an era that was taken fences the one before", fences},
		{"of two who take the same era one gets it", takesOnce},
		{"a gap and a number that is there are not kept", refusesNumbers},
		{"a group in doubt that was kept is settled as kept", func(t *testing.T, w World) { settles(t, w, true) }},
		{"a group in doubt that was not kept never appears", func(t *testing.T, w World) { settles(t, w, false) }},
		{"a ledger that its gate left keeps nothing more", ends},
		{"a base takes the place of groups, and the chain goes on", compacts},
		{"a base that is older, of groups that are not there, or of an earlier era changes nothing", refusesBases},
		{"a group that became the base is settled as kept", settlesBases},
		{"a mended ledger has a base alone, in a later era", mends},
		{"beats are counted, and not those of an earlier era", beats},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, world(t)) })
	}
}

func group(era, n uint64, text string) ledger.Group {
	return ledger.Group{Number: n, Era: era, Previous: ledger.Digest{byte(n), 0, 255}, Body: []byte(text + "\x00\xff"), Signature: []byte{0, byte(n)}}
}

func begin(t *testing.T, e ledger.Engine) uint64 {
	t.Helper()
	p, err := e.Position(context.Background())
	if err == nil {
		p, err = e.Take(context.Background(), p.Era)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p.Era
}

func want(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("the error is %v, not %v", err, want)
	}
}

func has(t *testing.T, e ledger.Engine, after uint64, most int, want ...ledger.Group) {
	t.Helper()
	have, err := e.Read(context.Background(), after, most)
	if err != nil {
		t.Fatal(err)
	}
	if len(have) != len(want) || (len(want) > 0 && !reflect.DeepEqual(have, want)) {
		t.Fatalf("the ledger has %v, not %v", have, want)
	}
}

func readsInOrder(t *testing.T, w World) {
	e := w.Member(t)
	has(t, e, 0, 10)
	era := begin(t, e)
	var all []ledger.Group
	for n := uint64(1); n <= 12; n++ {
		g := group(era, n, fmt.Sprint("group ", n))
		want(t, e.Append(g), nil)
		all = append(all, g)
	}
	other := w.Member(t)
	has(t, other, 0, 5, all[:5]...)
	has(t, other, 5, 100, all[5:]...)
	has(t, other, 12, 100)
	p, err := other.Position(context.Background())
	want(t, err, nil)
	if p.Last != 12 || p.Era != era {
		t.Fatalf("the position is %+v", p)
	}
}

func fences(t *testing.T, w World) {
	old, newer := w.Member(t), w.Member(t)
	first := begin(t, old)
	want(t, old.Append(group(first, 1, "old")), nil)
	second := begin(t, newer)
	if second != first+1 {
		t.Fatalf("era %d follows on %d", second, first)
	}
	want(t, old.Append(group(first, 2, "too late")), ledger.ErrFenced)
	want(t, newer.Append(group(second, 2, "new")), nil)
	want(t, old.Append(group(first, 3, "too late")), ledger.ErrFenced)
	has(t, newer, 0, 10, group(first, 1, "old"), group(second, 2, "new"))
	_, err := old.Take(context.Background(), first)
	want(t, err, ledger.ErrFenced)
}

func takesOnce(t *testing.T, w World) {
	var members []ledger.Engine
	for range 4 {
		members = append(members, w.Member(t))
	}
	p, err := members[0].Position(context.Background())
	want(t, err, nil)
	got := make([]error, len(members))
	var all sync.WaitGroup
	for i, m := range members {
		all.Go(func() { _, got[i] = m.Take(context.Background(), p.Era) })
	}
	all.Wait()
	took := 0
	for _, err := range got {
		if err == nil {
			took++
		} else {
			want(t, err, ledger.ErrFenced)
		}
	}
	if took != 1 {
		t.Fatalf("%d members have the same era: %v", took, got)
	}
}

func refusesNumbers(t *testing.T, w World) {
	e := w.Member(t)
	era := begin(t, e)
	want(t, e.Append(group(era, 2, "gap")), ledger.ErrUnavailable)
	want(t, e.Append(group(era, 1, "first")), nil)
	want(t, e.Append(group(era, 1, "again")), ledger.ErrUnavailable)
	want(t, e.Append(group(era, 3, "gap")), ledger.ErrUnavailable)
	has(t, e, 0, 10, group(era, 1, "first"))
}

func settles(t *testing.T, w World, kept bool) {
	e := w.Member(t)
	era := begin(t, e)
	want(t, e.Append(group(era, 1, "first")), nil)
	doubted := strings.Repeat("doubted", 3000) // long enough that half of the call is half of the group
	mend := w.Doubt(t, e, kept)
	want(t, e.Append(group(era, 2, doubted)), ledger.ErrInDoubt)
	mend()
	is, err := e.Settle(era, 2)
	want(t, err, nil)
	if is != kept {
		t.Fatalf("settled as %v", is)
	}
	expected := []ledger.Group{group(era, 1, "first")}
	if kept {
		expected = append(expected, group(era, 2, doubted))
	}
	has(t, e, 0, 10, expected...)
	n := uint64(len(expected)) + 1
	want(t, e.Append(group(era, n, "next")), nil)
	has(t, e, 0, 10, append(expected, group(era, n, "next"))...)
}

func beats(t *testing.T, w World) {
	e := w.Member(t)
	era := begin(t, e)
	before, err := e.Position(context.Background())
	want(t, err, nil)
	want(t, e.Beat(era), nil)
	after, err := e.Position(context.Background())
	want(t, err, nil)
	if after.Beat != before.Beat+1 {
		t.Fatalf("beat %d follows on %d", after.Beat, before.Beat)
	}
	begin(t, w.Member(t))
	want(t, e.Beat(era), ledger.ErrFenced)
}

func ends(t *testing.T, w World) {
	a, b := w.Member(t), w.Member(t)
	old := begin(t, a)
	era := begin(t, b)
	want(t, a.End(context.Background(), old), ledger.ErrFenced)
	want(t, b.End(context.Background(), era), nil)
	want(t, b.Append(group(era, 1, "a")), ledger.ErrFenced)
	want(t, b.Beat(era), ledger.ErrFenced)
	p, err := a.Position(context.Background())
	want(t, err, nil)
	if p.Era != ledger.Ended || p.Beat != era || p.Last != 0 {
		t.Fatalf("the position is %+v", p)
	}
}
