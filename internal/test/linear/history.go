package linear

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// History records what several callers ask one gate, and is a Gate itself.
type History struct {
	Gate Gate
	Now  func() time.Time // the gate's clock, or one that reads the same

	mu     sync.Mutex
	events int64
	ops    []entry
}

// entry is an operation and where in the history it began and ended.
type entry struct {
	*Op
	client     int
	begin, end int64
}

// Client is one caller's way into the history: it asks one thing at a time.
func (h *History) Client(number int) Gate { return client{h, number} }

type client struct {
	history *History
	number  int
}

// Do asks and records it.
func (c client) Do(call Call) Answer {
	h := c.history
	o := &Op{Call: call}
	begin, since := h.event()
	o.Since = since
	o.Answer = h.Gate.Do(call)
	end, until := h.event()
	o.Until = until
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, entry{o, c.number, begin, end})
	return o.Answer
}

// event numbers a beginning or an end: those of one come before those of
// another only if they did.
func (h *History) event() (number, clock int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events++
	return h.events, h.Now().UnixNano()
}

// Ops returns what was recorded, in the order in which it began.
func (h *History) Ops() []*Op {
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.SortFunc(h.ops, func(a, b entry) int { return int(a.begin - b.begin) })
	var out []*Op
	for _, e := range h.ops {
		out = append(out, e.Op)
	}
	return out
}

// String shows the history, one operation a line, with where it began and ended.
func (h *History) String() string {
	h.Ops()
	var b strings.Builder
	for _, e := range h.ops {
		at := func(ns int64) string { return time.Unix(0, ns).UTC().Format("15:04:05.000") }
		fmt.Fprintf(&b, "%4d-%-4d #%d %s-%s  %s -> %s\n", e.begin, e.end, e.client, at(e.Since), at(e.Until), e.Call, e.Answer)
	}
	return b.String()
}

// Verdict looks for an order in which one thing after the other would have been
// answered so, for at most patience. It is Unknown when that did not suffice.
// Where there is none, stuck is the operation that ended first of those which the
// longest order lacks: often what is wrong.
func (h *History) Verdict(patience time.Duration) (verdict porcupine.CheckResult, stuck string) {
	h.Ops()
	h.annotate()
	var history []porcupine.Operation
	for _, e := range h.ops {
		history = append(history, porcupine.Operation{ClientId: e.client, Input: e.Op, Call: e.begin, Return: e.end})
	}
	verdict = porcupine.CheckOperationsTimeout(model(), history, patience)
	if verdict != porcupine.Illegal {
		return verdict, ""
	}
	_, info := porcupine.CheckOperationsVerbose(model(), history, patience)
	longest := map[int]bool{}
	for _, order := range info.PartialLinearizations()[0] {
		if len(order) > len(longest) {
			clear(longest)
			for _, i := range order {
				longest[i] = true
			}
		}
	}
	first := -1
	for i, e := range h.ops {
		if !longest[i] && (first < 0 || e.end < h.ops[first].end) {
			first = i
		}
	}
	e := h.ops[first]
	return verdict, fmt.Sprintf("%d operations have an order; %d-%d has none: %s -> %s", len(longest), e.begin, e.end, e.Call, e.Answer)
}

// model is how porcupine wants it.
func model() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init:  func() []any { return []any{state{}} },
		Equal: func(a, b any) bool { return a.(state).equal(b.(state)) },
		Step: func(s, input, _ any) []any {
			var out []any
			for _, after := range step(s.(state), input.(*Op)) {
				out = append(out, after)
			}
			return out
		},
	}
	return m.ToModel()
}

// annotate notes at each operation what only the whole history can tell.
func (h *History) annotate() {
	made := map[string]Held{}
	for i := range h.ops {
		if e := &h.ops[i]; e.Late {
			e.end, e.Until = h.events+1, h.Now().UnixNano()
		}
	}
	slices.SortFunc(h.ops, func(a, b entry) int { return int(a.end - b.end) })
	for _, e := range h.ops {
		for _, held := range e.Held {
			if _, ok := made[held.ID]; !ok {
				made[held.ID] = e.first(held)
			}
		}
	}
	slices.SortFunc(h.ops, func(a, b entry) int { return int(a.begin - b.begin) })
	for _, e := range h.ops {
		e.made = made
		e.behind = slices.ContainsFunc(h.ops, func(w entry) bool {
			return w.Kind == Reserve && w.Wait > 0 && w.Agent != e.Agent && w.begin < e.end && e.begin < w.end &&
				w.Set.overlaps(e.Set) && !(w.Shared && e.Shared)
		})
	}
}

// first is a reservation as it was made, in the first answer that shows it: a
// transfer shows its receiver.
func (o *Op) first(h Held) Held {
	if o.Kind == Transfer {
		h.Agent = o.Agent
	}
	return h
}
