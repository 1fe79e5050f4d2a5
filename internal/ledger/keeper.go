package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gated/internal/base/store"
)

// readAtOnce is how many groups one Read asks for.
const readAtOnce = 256

// The reasons for which a daemon does not begin with a ledger. Each needs an operator.
var (
	// ErrLost: the ledger has fewer groups than the database here. It lost some, or it was rolled back.
	ErrLost = errors.New("the ledger lost groups that are in the database here")
	// ErrForked: the ledger has another group under a number that is in the database here.
	ErrForked = errors.New("the ledger has another group than the database here")
	// ErrEnded: the gate left the ledger.
	ErrEnded = errors.New("the gate left this ledger, and lives in the database of one member")
	// ErrRolledBack: the ledger's era is lower than the one of the database here, or of one of its groups.
	ErrRolledBack = errors.New("the ledger went back to an earlier era")
)

// Settings are what a Keeper needs.
type Settings struct {
	Engine Engine
	Gate   string // its id
	Signer Signer
	// Verifier is the public half of Signer.
	Verifier Verifier
	// Pause waits before Settle asks again, for the try-th time from 1, unless stop is closed; nil is Pause. After an error
	// of it Settle does not ask again.
	Pause func(try int, stop <-chan struct{}) error
}

// Keeper keeps the groups of a store in a ledger, as its active daemon. It implements store.Keeper, and like it is for
// one goroutine.
type Keeper struct {
	Settings
	era    uint64
	most   uint64 // how many groups the ledger said to have when the era began
	last   Link   // the newest group that is kept
	sealed Group  // the one that Seal made
	after  Link   // and the link after it
}

// New returns a keeper that has not begun.
func New(s Settings) *Keeper { return &Keeper{Settings: s} }

// Begin checks that the ledger is the one that the database here knows, and begins a new era in it. So an earlier active
// daemon keeps nothing from now on.
func (k *Keeper) Begin(ctx context.Context, here store.Place) error {
	p, err := k.known(ctx, here)
	if err != nil {
		return err
	}
	if p, err = k.Engine.Take(ctx, p.Era); err != nil {
		return fmt.Errorf("begin era %d of the ledger: %w", p.Era+1, err)
	}
	k.era, k.most, k.last = p.Era, p.Last, linkOf(here)
	return nil
}

// Era returns the era that Begin took, 0 before.
func (k *Keeper) Era() uint64 { return k.era }

// Check checks that the ledger goes on from a place of a database here.
func (s Settings) Check(ctx context.Context, here store.Place) error {
	_, err := s.known(ctx, here)
	return err
}

// known is Check, and returns how far the ledger is.
func (s Settings) known(ctx context.Context, here store.Place) (p Position, err error) {
	if p, err = s.Engine.Position(ctx); err != nil {
		return p, fmt.Errorf("read how far the ledger is: %w", err)
	}
	switch {
	case p.Era == Ended:
		return p, ErrEnded
	case p.Last < here.Number:
		return p, fmt.Errorf("%w: it has %d groups, and %d are here, so the decisions of %d groups would be lost", ErrLost, p.Last, here.Number, here.Number-p.Last)
	case p.Era < here.Era:
		return p, fmt.Errorf("%w: era %d, and here %d", ErrRolledBack, p.Era, here.Era)
	}
	return p, s.same(ctx, here)
}

// same checks the ledger's group at the place of the database here.
func (s Settings) same(ctx context.Context, here store.Place) error {
	if here.Number == 0 {
		return nil
	}
	groups, err := s.Engine.Read(ctx, here.Number-1, 1)
	if err != nil {
		return fmt.Errorf("read group %d of the ledger: %w", here.Number, err)
	}
	if len(groups) != 1 || groups[0].Number != here.Number {
		return s.sameBase(ctx, here)
	}
	g := groups[0]
	if DigestOf(s.Gate, g) != here.Digest || !s.Verifier.Verify(message(s.Gate, g), g.Signature) {
		return fmt.Errorf("%w: group %d", ErrForked, here.Number)
	}
	return nil
}

func linkOf(p store.Place) Link { return Link{p.Number, p.Era, p.Digest} }

func (l Link) place() store.Place { return store.Place{Number: l.Number, Era: l.Era, Digest: l.Digest} }

// After reads and checks groups after a place. The newest that it returned is the one on which Seal goes on.
func (k *Keeper) After(ctx context.Context, here store.Place) ([]store.Kept, error) {
	kept, err := Read(ctx, k.Engine, k.Gate, k.Verifier, here)
	if err != nil {
		return nil, err
	}
	k.last = linkOf(here)
	if len(kept) > 0 {
		k.last = linkOf(kept[len(kept)-1].Place)
	}
	switch {
	case len(kept) == 0 && here.Number < k.most:
		return nil, fmt.Errorf("%w: it said that it has %d groups, and it shows %d", ErrLost, k.most, here.Number)
	case k.last.Era >= k.era:
		return nil, fmt.Errorf("%w: it has a group of era %d, and era %d has only begun", ErrRolledBack, k.last.Era, k.era)
	}
	return kept, nil
}

// Read reads some of the groups after a place, and checks each. For the zero Place, that may be the base and no group.
func Read(ctx context.Context, e Engine, gate string, key Verifier, here store.Place) ([]store.Kept, error) {
	groups, err := e.Read(ctx, here.Number, readAtOnce)
	if err != nil {
		return nil, fmt.Errorf("read the groups after %d: %w", here.Number, err)
	}
	if len(groups) == 0 || groups[0].Number != here.Number+1 {
		if kept, err := begin(ctx, e, gate, key, here); err != nil || kept != nil {
			return kept, err
		}
	}
	var kept []store.Kept
	link := linkOf(here)
	for _, g := range groups {
		if link, err = Verify(gate, key, link, g); err != nil {
			return nil, err
		}
		schema, changes, err := decodeBody(groupForm, g.Body)
		if err != nil {
			return nil, fmt.Errorf("group %d: %w", g.Number, err)
		}
		kept = append(kept, store.Kept{Place: link.place(), Schema: schema, Changes: changes})
	}
	return kept, nil
}

// Seal signs the next group.
func (k *Keeper) Seal(schema int, changes []byte) (store.Place, error) {
	body, err := encodeBody(groupForm, schema, changes)
	if err != nil {
		return store.Place{}, err
	}
	if k.sealed, k.after, err = sign(k.Gate, k.Signer, k.last, k.era, body); err != nil {
		return store.Place{}, err
	}
	return k.after.place(), nil
}

// Keep appends the sealed group.
func (k *Keeper) Keep() error {
	err := k.Engine.Append(k.sealed)
	switch {
	case err == nil:
		k.last = k.after
		return nil
	case errors.Is(err, ErrInDoubt):
		return fmt.Errorf("%w: %w", store.ErrKeepInDoubt, err)
	default:
		return err
	}
}

// Settle asks the engine whether the sealed group is kept, until it knows.
func (k *Keeper) Settle(stop <-chan struct{}) (kept bool, err error) {
	pause := k.Pause
	if pause == nil {
		pause = Pause
	}
	for try := 1; ; try++ {
		if kept, err = k.Engine.Settle(k.sealed.Era, k.sealed.Number); err == nil {
			return kept, k.settled(kept)
		}
		if errors.Is(err, ErrFenced) {
			return false, err // it will not learn more
		}
		if over := pause(try, stop); over != nil {
			return false, errors.Join(over, err)
		}
	}
}

// settled goes on after the sealed group if it is kept. It reads the group first: under this number must be no other.
func (k *Keeper) settled(kept bool) error {
	if !kept {
		return nil
	}
	// A large group has a second more for each MiB.
	ctx, cancel := context.WithTimeout(context.Background(), readLimit+time.Duration(len(k.sealed.Body)>>20)*time.Second)
	defer cancel()
	if err := k.same(ctx, k.after.place()); err != nil {
		return err
	}
	k.last = k.after
	return nil
}

// readLimit bounds how long Settle reads a group. A read that is cancelled changes nothing.
const readLimit = 10 * time.Second

var _ store.Keeper = (*Keeper)(nil)

// Pause waits longer with each try, at most a second, or until stop is closed.
func Pause(try int, stop <-chan struct{}) error {
	t := time.NewTimer(min(time.Second, 10*time.Millisecond<<min(try, 10)))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-stop:
		return errors.New("the store waits no longer")
	}
}
