package several

import (
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"gated/internal/base/op"
	"gated/internal/driver"
	"gated/internal/driver/memory"
	"gated/internal/reconcile"
	"gated/internal/wire/desired"
)

// Any subset of the back ends is away, and any guest changes without the gate. Then no create
// is planned for a name that may exist. No destroy is planned for a name that may mean another
// guest. A step is planned twice, as the reconciler does it: from the list, and from the look
// at its guest just before.
func TestNothingIsPlannedForWhatMayBeElsewhere(t *testing.T) {
	names := []string{"g1", "g2", "g3", "g4"}
	rapid.Check(t, func(t *rapid.T) {
		w := &world{}
		for i := range rapid.IntRange(1, 3).Draw(t, "back ends") {
			w.all = append(w.all, &fake{Driver: memory.New(w.now), name: fmt.Sprintf("b%d", i), patience: make(chan struct{}), asked: map[string]int{}})
		}
		any := func(what string) *fake { return w.all[rapid.IntRange(0, len(w.all)-1).Draw(t, what)] }
		modes := []mode{well, well, away, panicking, hanging}
		if len(w.all) == 1 {
			modes = modes[:4] // a single back end that hangs only delays its callers
		}
		misbehave := func(what string) {
			for _, f := range w.all {
				f.is(rapid.SampledFrom(modes).Draw(t, what+" "+f.name))
			}
		}
		for _, name := range names { // at the start, each name is in one back end
			if rapid.Bool().Draw(t, "there is "+name) {
				any("where "+name).Put(name, nil)
			}
		}
		misbehave("at the start")
		c := w.config()
		c.Logger = slog.New(slog.DiscardHandler)
		d, err := New(t.Context(), c)
		if err != nil {
			t.Fatalf("names in one back end each: %v", err)
		}
		defer d.Close()
		seen := map[string]map[*fake]bool{} // the back ends whose last list had a name
		note := func() {
			for _, f := range w.all {
				if f.mode != well {
					continue
				}
				for _, name := range names {
					if seen[name] == nil {
						seen[name] = map[*fake]bool{}
					}
					seen[name][f] = has(t, f, name)
				}
			}
		}
		note()
		for range rapid.IntRange(1, 4).Draw(t, "rounds") {
			for range rapid.IntRange(0, 2).Draw(t, "other hands") {
				any("into").Put(rapid.SampledFrom(names).Draw(t, "which"), nil)
			}
			for _, m := range d.members { // looks that were given up have ended; otherwise the back end would be away longer
				for m.looks.busy() || m.lists.busy() {
					runtime.Gosched()
				}
			}
			misbehave("now")
			list, err := d.List(t.Context())
			note()
			missing := driver.Missing(err)
			for _, name := range names {
				var where []string // back ends that are there
				mayBe := 0         // number of back ends that are away
				isAway := 0
				for _, f := range w.all {
					switch {
					case f.mode != well:
						isAway++
						if seen[name][f] {
							mayBe++
						}
					case has(t, f, name):
						where = append(where, f.name)
					}
				}
				for state, verb := range map[string]string{desired.Running: "guest.create", desired.Absent: "guest.destroy"} {
					planned := slices.Contains(fromList(list, missing, name, state), verb) || slices.Contains(fromLook(t, d, name, state), verb)
					free := isAway == 0 && len(where) == 0
					one := len(where) == 1 && mayBe == 0
					switch {
					case verb == "guest.create" && planned && !free:
						t.Fatalf("%s would be made; it is in %v, and %d are away", name, where, isAway)
					case verb == "guest.destroy" && planned && !one:
						t.Fatalf("%s would be destroyed; it is in %v, and may be in %d more", name, where, mayBe)
					}
				}
			}
		}
	})
}

func (l *lane) busy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.underWay > 0
}

func has(t *rapid.T, f *fake, name string) bool {
	o, err := f.Driver.Observe(t.Context(), op.At(guest(name)))
	return err == nil && o.Present
}

func wish(name, state string) desired.Guest { return desired.Guest{Name: name, State: state} }

// fromList plans as a round over everything does.
func fromList(list []op.Observed, missing, name, state string) []string {
	have := op.Observed{Target: guest(name), Running: "absent"}
	i := slices.IndexFunc(list, func(o op.Observed) bool { return o.Target.Name == name })
	switch {
	case i >= 0:
		have = list[i]
	case missing != "":
		return nil
	}
	return verbs(reconcile.Plan(wish(name, state), have))
}

// fromLook plans as the gate does before it asks for a step.
func fromLook(t *rapid.T, d *Driver, name, state string) []string {
	have, err := d.Observe(t.Context(), op.At(guest(name)))
	if err != nil {
		return nil
	}
	return verbs(reconcile.Plan(wish(name, state), have))
}

func verbs(asks []op.Ask) (out []string) {
	for _, a := range asks {
		out = append(out, a.Op)
	}
	return out
}
