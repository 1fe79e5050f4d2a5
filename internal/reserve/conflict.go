package reserve

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gated/internal/glob"
	"gated/internal/op"
)

// inTheWay is why a claim cannot be granted now: reservations of others, or,
// where there are none, a claim that came before and waits.
type inTheWay struct {
	conflicts []Conflict
	more      bool
	before    *waiter
}

func (in inTheWay) any() bool { return len(in.conflicts) > 0 || in.before != nil }

// alive fills in whether the holders are.
func (b *Book) alive(h Holder) bool {
	return h.Name == "" || b.cfg.Alive == nil || b.cfg.Alive(h)
}

// lives and living say of each whether its holder is alive.
func (b *Book) lives(list []Conflict) {
	for i := range list {
		list[i].Alive = b.alive(list[i].Holder)
	}
}

func (b *Book) living(list []Reservation) []Reservation {
	for i := range list {
		list[i].Alive = b.alive(list[i].Holder)
	}
	return list
}

// refusal says who is in the way. The reason of another agent is not in it, for
// its text goes where words of the gate's own are expected; it is in Conflict.
func (in inTheWay) refusal() error {
	if len(in.conflicts) == 0 {
		w := in.before
		return op.Refuse(op.Conflict, "%s has been waiting since %s for paths that overlap, and comes first", w.holder, moment(w.since)).
			WithHint("wait in line behind it: --wait D")
	}
	c := in.conflicts[0]
	text := fmt.Sprintf("%s overlaps %s", shownPattern(c.Pattern), described(c))
	switch n := len(in.conflicts) - 1; {
	case in.more:
		text += fmt.Sprintf("; %d others and more are in the way", n)
	case n == 1:
		text += "; one other is in the way"
	case n > 1:
		text += fmt.Sprintf("; %d others are in the way", n)
	}
	return op.Refuse(op.Conflict, "%s", text).WithHint("%s", in.wayOut())
}

// wayOut is what somebody can do about conflicts: ask only who is there to be
// asked, and narrow only what is wider than one path.
func (in inTheWay) wayOut() string {
	ways := []string{"wait in line for it: --wait D"}
	for _, c := range in.conflicts {
		if c.Holder.Name != "" && c.Alive {
			ways = append(ways, fmt.Sprintf("ask %s to release it", c.Holder))
			break
		}
	}
	if slices.ContainsFunc(in.conflicts, func(c Conflict) bool { return wide(c.Pattern) }) {
		ways = append(ways, "reserve something narrower")
	}
	return strings.Join(ways, "; or ")
}

// wide reports whether a pattern may be more than one path.
func wide(pattern string) bool {
	return glob.Quote(pattern) != pattern || strings.HasSuffix(pattern, "/")
}

// described says of a reservation who holds it, since when and until when.
func described(c Conflict) string {
	text := fmt.Sprintf("%s of %v, which %s (uid %d, %s) has had since %s, till %s", shownPattern(c.Overlaps), c.ID, c.Holder, c.Holder.UID,
		c.Life(), moment(c.CreatedAt), moment(c.ExpiresAt))
	if c.Mode == Shared {
		text += ", shared"
	}
	return text
}

// shownPattern quotes a pattern, cut where it is long.
func shownPattern(p string) string { return fmt.Sprintf("%.80q", p) }

func moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }
