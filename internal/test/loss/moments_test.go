package loss

import (
	"fmt"
	"sync"

	"gated/internal/base/op"
)

// moments is a bed whose back end tells when the driver calls it.
type moments interface {
	// during has fn called at each call that the driver's work makes, before its effect, until it is told nil. takes says that
	// the call may take bytes. A bed that looks for what comes after a change calls fn also before the first look after one.
	during(fn func(takes bool))
}

// telling lets a bed tell of moments.
type telling struct {
	mu      sync.Mutex
	fn      func(takes bool)
	changed bool // by the last call
}

// called tells of a call that changes something, and of the first look after one.
func (t *telling) called(changes, takes bool) {
	t.mu.Lock()
	is := changes || t.changed
	t.changed = changes
	t.mu.Unlock()
	if is {
		t.here(changes && takes)
	}
}

func (t *telling) during(fn func(takes bool)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fn, t.changed = fn, false
}

func (t *telling) here(takes bool) {
	t.mu.Lock()
	fn := t.fn
	t.mu.Unlock()
	if fn != nil {
		fn(takes)
	}
}

// lurk is a hand that waits for a moment within a step.
type lurk struct {
	how  uint8
	at   int // 0: after the permit was used, before the driver's work; n: the n-th moment of it, or right after it
	skip int // so many steps go on undisturbed first
	name string
	nth  int64
}

// lastMoment is the last that a sequence can name.
const lastMoment = 7

// lurkOf reads a lurk from an action: which hand, when, and at whose guest. A name that is "" is that of the step.
func lurkOf(a action, name string, nth int64) lurk {
	l := lurk{how: a.args[0], at: int(a.args[1] % (lastMoment + 1)), skip: int(a.args[2] % 4), nth: nth}
	if a.args[3]%4 == 3 {
		l.name = name
	}
	return l
}

// within is what a hand did while a step was under way.
type within struct {
	deed
	at int
	// seen says that the driver had to notice: it came before the driver's work, or at a call that takes nothing, and the driver made
	// one afterwards that may. It can look before that.
	seen bool
	took []item         // by the hand
	from string         // the holder that the hand was at
	made map[item]where // by the hand
	err  error
}

// watch is a step under way, for which a hand waits.
type watch struct {
	lurk
	bed  bed
	step op.Step

	mu   sync.Mutex
	now  int
	done bool
	last bool // the hand came at a call that may take bytes
	did  within
}

// begin is the moment right before the driver's work.
func (w *watch) begin() {
	w.moment(false)
	if b, ok := w.bed.(moments); ok {
		b.during(w.moment)
	}
}

// end is the moment right after the driver's work, and returns what the hand did.
func (w *watch) end() []within {
	if b, ok := w.bed.(moments); ok {
		b.during(nil)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.done {
		w.act()
	}
	if w.did.says == "" && w.did.err == nil {
		return nil
	}
	return []within{w.did}
}

func (w *watch) moment(takes bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case !w.done && w.now == w.at:
		w.act()
		w.last = takes
	case w.done && takes && !w.last:
		w.did.seen = true
	}
	w.now++
}

// act has the hand do what it waited to do, and notes what that took and made.
func (w *watch) act() {
	w.done = true
	hands, ok := w.bed.(hands)
	name := w.name
	if name == "" {
		name = w.step.Target.Name
	}
	at := w.bed.holder(name)
	if !ok {
		return
	}
	before, err := w.bed.holdings()
	d := hands.meddle(name, otherThan(w.bed, name), w.how, w.nth)
	after, err2 := w.bed.holdings()
	if d.name = name; err == nil {
		err = err2
	}
	w.did = within{deed: d, from: at, at: w.now, seen: w.now == 0, made: map[item]where{}, err: err}
	for it := range before {
		if _, there := after[it]; !there {
			w.did.took = append(w.did.took, it)
		}
	}
	for it, is := range after {
		if _, had := before[it]; !had && it.part != inMemory { // what a program holds comes and goes by itself
			w.did.made[it] = is
		}
	}
}

// otherThan is the last other guest that there is.
func otherThan(b bed, name string) string {
	other := ""
	for _, n := range names {
		if n != name && b.holder(n) != "" {
			other = n
		}
	}
	return other
}

// came takes in what hands did within steps, before the oracle asks what became of the bytes. What a hand took itself is not
// the gate's. What it made in time may not be taken by that step.
func (o *oracle) came(steps []ran) error {
	for _, r := range steps {
		for _, h := range r.hands {
			if h.err != nil {
				return fmt.Errorf("what is there cannot be read within %s: %w", r.step.ID, h.err)
			}
			o.say("    by hand, at moment %d of %s, at %s: %s", h.at, r.step.ID, h.name, h.says)
			if h.seen {
				o.share(h.deed)
			}
			for _, it := range h.took {
				if it.holder == h.from || o.given[it.holder] {
					delete(o.items, it)
				}
			}
			for it, is := range h.made {
				if h.seen {
					o.items[it] = is
				}
			}
			o.disturbed = true
		}
	}
	return nil
}

// deeds are what hands did before a step's work, and after it began. Of a compensation, only what it overwrote came before it: it
// did nothing if it failed, and what a hand switched is switched by a hand. Another step may have overwritten a field that a hand
// changed while it was under way, so that counts as before it.
func (r ran) deeds() (before, after []deed) {
	for _, h := range r.hands {
		overwritten := h.at == 0 && r.err == nil && h.field != "running"
		if overwritten || r.step.Undoes == 0 && (h.at == 0 || h.field != "") {
			before = append(before, h.deed)
		} else {
			after = append(after, h.deed)
		}
	}
	return before, after
}

// disturbance says what a hand did within a step that no signature for it covers: it protected the step's guest, or made the
// item. It is "" if the step may take the item.
func (r ran) disturbance(it item) string {
	for _, h := range r.hands {
		_, made := h.made[it]
		if h.seen && (made || h.guards && h.name == r.step.Target.Name) {
			return h.says
		}
	}
	return ""
}
