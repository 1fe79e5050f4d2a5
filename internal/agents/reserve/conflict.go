package reserve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gated/internal/agents/glob"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
)

// Check returns the reservations of others that overlap paths, by id. It returns at most MaxConflicts, and whether
// there are more. It grants and registers nothing. Of the place, Device and Inode do not matter. It ignores claims that wait.
// Its refusals are those of Reserve for the same question.
func (b *Book) Check(ctx context.Context, by op.Requester, p Place, patterns []string, m Mode) (conflicts []Conflict, more bool, err error) {
	w, err := readWish(by, p, patterns, m, MaxCheck)
	if err != nil {
		return nil, false, err
	}
	in, err := b.checked(ctx, w, b.inside)
	if errors.Is(err, refusal.TooComplex) {
		var done func()
		if done, err = b.turn(ctx, by.Account().Lane()); err == nil {
			defer done()
			in, err = b.checked(ctx, w, maxWork)
		}
	}
	if err != nil {
		return nil, false, b.shown(err)
	}
	b.lives(in.conflicts)
	return in.conflicts, in.more, nil
}

// checked searches on a snapshot and returns what is in the way. It is TooComplex if that takes more than work. If work
// is the most that any search may spend, it returns the conflicts that it found by then.
func (b *Book) checked(ctx context.Context, w *wish, work int64) (in inTheWay, err error) {
	full := work == maxWork
	err = b.view(ctx, func(tx *store.Tx, now time.Time) error {
		s := b.search(tx, now, &work, w, MaxConflicts)
		s.only = w.excludes
		unseen := s.near()
		if unseen != nil && !(full && errors.Is(unseen, refusal.TooComplex) && len(s.hits) > 0) {
			return unseen
		}
		s.more = s.more || unseen != nil
		in, err = w.told(s)
		return err
	})
	return in, err
}

// inTheWay says why a claim cannot be granted now. It has the reservations of others. If there are none, it has an
// earlier claim that waits.
type inTheWay struct {
	conflicts []Conflict
	more      bool
	before    *waiter
}

func (in inTheWay) any() bool { return len(in.conflicts) > 0 || in.before != nil }

// alive reports whether a holder's process lives.
func (b *Book) alive(h Holder) bool {
	return h.Name == "" || b.cfg.Alive == nil || b.cfg.Alive(h)
}

// lives and living set Alive of each conflict and each reservation.
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

// refusal names the holders in the way. It leaves out another agent's reason, because this text goes where readers
// expect the gate's own words. Conflict has the reason.
func (in inTheWay) refusal() error {
	if len(in.conflicts) == 0 {
		w := in.before
		return refusal.New(refusal.Conflict, "%s has been waiting since %s for paths that overlap, and comes first",
			w.holder, moment(w.since)).
			WithHint("wait in line behind it: --wait-for D")
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
	return refusal.New(refusal.Conflict, "%s", text).WithHint("%s", in.wayOut())
}

// wayOut is the hint for conflicts. It names only holders that live, and advises to narrow only patterns of more than
// one path.
func (in inTheWay) wayOut() string {
	ways := []string{"wait in line for it: --wait-for D"}
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

// described says which holder has a reservation, since when and until when.
func described(c Conflict) string {
	text := fmt.Sprintf("%s of %v, which %s (uid %v, %s) has had since %s, till %s", shownPattern(c.Overlaps), c.ID, c.Holder, c.Holder.Account(),
		c.Life(), moment(c.CreatedAt), moment(c.ExpiresAt))
	if c.Mode == Shared {
		text += ", shared"
	}
	return text
}

// shownPattern quotes a pattern, and cuts a long one.
func shownPattern(p string) string { return fmt.Sprintf("%.80q", p) }

func moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }
