package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// spares is how many signers a bench has for rotations to take out.
const spares = cellsOfBench + 1

// bench is a machine with a program that has crash points, on which one cell
// after the other runs.
type bench struct {
	*checked
	*story
	order  string   // the file that says where to end
	spare  []string // fingerprints of signers that are left to take out
	cells  int
	random *rand.Rand
	agents map[string]*client.Client // of this cell
	past   []*signature              // that a gate counted which was restored since
}

func newBench(t *testing.T, store string) *bench {
	dir := t.TempDir()
	var files, fingerprints []string
	for i := range spares {
		file := filepath.Join(dir, fmt.Sprint("spare", i))
		fingerprints = append(fingerprints, writeKey(t, file, fmt.Sprintf("spare%d@example.com", i)))
		files = append(files, file+".pub")
	}
	m := newMachineOn(t, store, filepath.Join(bin, taggedDir, "gated"), time.Hour, files...)
	l := newLedger()
	b := &bench{checked: newChecked(m, l), story: &story{machine: m, ledger: l, strike: func(int64) {}}, order: filepath.Join(m.dir, "order"),
		spare: fingerprints, random: rand.New(rand.NewPCG(*seed, 3)), agents: map[string]*client.Client{}}
	m.env = []string{"GATED_CRASH_AT=@" + b.order}
	m.start()
	return b
}

// m is the machine, which both halves have.
func (b *bench) m() *machine { return b.checked.machine }

// name is a name of this cell's own.
func (b *bench) name(of string) string { return fmt.Sprintf("%s%d", of, b.cells) }

// arm has the program end at a point for the n-th time from now, or write down
// every point that it passes.
func (b *bench) arm(order string) {
	tmp := b.order + ".tmp"
	require.NoError(b.m().t, os.WriteFile(tmp, []byte(order), 0o600))
	require.NoError(b.m().t, os.Rename(tmp, b.order))
}

func (b *bench) disarm() { require.NoError(b.m().t, os.RemoveAll(b.order)) }

// perform does a kind's operation under an order and returns when the daemon is
// down, whether it was killed on the way, and what was wrong if not.
func (b *bench) perform(k kind, c *cell, order string) (cut bool, err error) {
	b.arm(order)
	defer b.disarm()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if k.launches {
		err = k.do(ctx, b, c)
		switch struck := errors.Is(err, errCut); {
		case b.m().cmd == nil:
			return struck, err
		case struck:
			return b.m().over(), err
		default:
			return b.m().finish(), err
		}
	}
	over := make(chan error, 1)
	go func() { over <- k.do(ctx, b, c) }()
	select {
	case end := <-b.m().ended:
		b.m().ended <- end
		cancel()
		<-over
		return b.m().over(), nil
	case err = <-over:
	}
	if errors.Is(err, errCut) {
		return b.m().over(), err
	}
	return b.m().finish(), err
}

// traced runs a kind without a crash and returns how often it passed each point.
func (b *bench) traced(k kind, of *figures) map[string]int {
	c := b.cell(k)
	file := filepath.Join(b.m().dir, "trace")
	cut, err := b.perform(k, c, "trace "+file)
	require.False(b.m().t, cut, k.name)
	require.NoError(b.m().t, err, "%s without a crash", k.name)
	counts := map[string]int{}
	for _, name := range strings.Fields(string(read(file))) {
		counts[name]++
	}
	require.NoError(b.m().t, os.RemoveAll(file))
	b.verify(k, of, c, "undisturbed")
	return counts
}

// cell is one run of a kind.
type cell struct {
	name   string // of its guest
	inc    op.Incarnation
	job    string            // the step's job, once it is known
	digest string            // of the guest's files before
	told   map[string]string // whatever else a kind has to remember
	done   bool              // the operation was acknowledged
}

func (b *bench) cell(k kind) *cell {
	b.cells++
	c := &cell{name: b.name("g"), told: map[string]string{}}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if k.prepare != nil {
		require.NoError(b.m().t, k.prepare(ctx, b, c), "prepare %s\n%s", k.name, b.m().log.String())
	}
	c.done = false
	return c
}

// at runs a kind that is cut off at a point, and everything that must hold then.
// It reports whether the point was reached.
func (b *bench) at(k kind, of *figures, point string, n int) bool {
	c := b.cell(k)
	cut, err := b.perform(k, c, fmt.Sprintf("%s:%d", point, n))
	if !cut {
		require.NoError(b.m().t, err, "%s, which %s:%d did not cut off", k.name, point, n)
	}
	b.verify(k, of, c, fmt.Sprintf("%s:%d", point, n))
	return cut
}

// verify starts the daemon again and checks all that must hold.
func (b *bench) verify(k kind, of *figures, c *cell, when string) {
	t := b.m().t
	t.Helper()
	when = fmt.Sprintf("%s at %s (cell %d)", k.name, when, b.cells)
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	if k.recover != nil {
		require.NoError(t, k.recover(ctx, b, c), when)
	} else {
		b.m().sound(when + ", before the start")
		b.m().start()
	}
	wrong := b.settle(ctx)
	wrong = append(wrong, b.sentOnce(ctx)...)
	wrong = append(wrong, b.resend(ctx, b.checked.ledger.someSpent(b.random))...)
	if k.check != nil {
		wrong = append(wrong, k.check(ctx, b, c)...)
	}
	wrong = append(wrong, b.wholeGuests(ctx)...)
	of.count(wrong)
	for _, w := range wrong {
		t.Errorf("%s: %s", when, w)
	}
	b.dismiss(ctx)
	b.m().sound(when + ", in the end")
	if t.Failed() {
		t.Fatalf("%s; the daemon's log:\n%s", when, b.m().log.String())
	}
	b.forget()
}

// sentOnce sends each approval whose answer was lost once more. It may count now
// if it did not before; then it is one that was accepted.
func (b *bench) sentOnce(ctx context.Context) (wrong []string) {
	for _, s := range b.checked.ledger.approvals {
		if s.accepted {
			continue
		}
		r, err := b.send(ctx, s)
		switch {
		case err == nil && r.State == op.StateAuthorized || err == nil && r.State == op.StateDispatched:
		case err == nil:
			wrong = append(wrong, fmt.Sprintf("%s was approved and is %s", s.request, r.State))
		default:
			wrong = append(wrong, checkReplay(s.request, err)...)
		}
		if s.accepted = true; s.request == "" {
			s.request = r.ID
		}
	}
	return append(wrong, b.settle(ctx)...)
}

// send hands an approval in. What was signed before it was asked for has no request
// that anybody was told of.
func (b *bench) send(ctx context.Context, s *signature) (api.Request, error) {
	if s.request == "" {
		return b.client().SubmitSigned(ctx, s.envelope)
	}
	return b.client().Approve(ctx, s.request, s.envelope)
}

// wholeGuests says which guests of the root cannot be read, or are none.
func (b *bench) wholeGuests(ctx context.Context) (wrong []string) {
	guests := must.Get(b.client().Guests(ctx))(b.m().t)
	known := map[string]bool{}
	for _, g := range guests {
		known[g.Name] = true
		if g.Error != nil {
			wrong = append(wrong, fmt.Sprintf("guest %s is not whole: %s", g.Name, g.Error.Detail))
		}
	}
	entries := must.Get(os.ReadDir(b.m().root))(b.m().t)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") && !known[e.Name()] {
			wrong = append(wrong, e.Name()+" is in the root, and the daemon knows of no such guest")
		}
	}
	return wrong
}

// forget lets go of what only this cell needed. The bystanders, one cell in ten,
// are looked at to the end.
func (b *bench) forget() {
	if b.cells%10 != 0 {
		clear(b.checked.ledger.files)
	}
	b.checked.ledger.approvals = slices.DeleteFunc(b.checked.ledger.approvals, func(s *signature) bool { return b.random.IntN(4) > 0 })
	clear(b.agents)
}

// dismiss ends the cell's agents, and those whose tokens nobody was told: a uid
// may not have any number of them.
func (b *bench) dismiss(ctx context.Context) {
	for name, own := range b.agents {
		_, err := own.Unregister(ctx, b.name(name))
		if !errors.Is(err, refusal.NotAllowed) { // it has ended: its token is nobody's
			require.NoError(b.m().t, err)
		}
		own.Close()
	}
	left := must.Get(b.client().Agents(ctx))(b.m().t)
	for _, a := range left {
		if _, err := b.client().Unregister(ctx, a.Name); err != nil {
			require.ErrorIs(b.m().t, err, refusal.NotHolder) // an older state's
		}
	}
}

func (b *bench) client() *client.Client { return b.m().client }

// ask submits steps, signs what waits for it if sign says so, and waits for the
// end. What was acknowledged is in the ledger.
func (b *bench) ask(ctx context.Context, c *cell, signed bool, asks ...api.Ask) error {
	in := api.Submit{Steps: asks, Reason: "crash"}
	if len(asks) == 1 {
		in = api.Submit{Op: &asks[0].Op, Target: &asks[0].Target, Params: asks[0].Params, Reason: "crash"}
	}
	j, err := b.client().Submit(ctx, in, "")
	if err = b.answered(err); err != nil {
		return err
	}
	b.checked.ledger.job(j)
	c.job = j.ID
	if !signed {
		return nil
	}
	for _, s := range j.Steps {
		if s.State == op.StatePending {
			if err := b.approve(ctx, s.ID); err != nil {
				return err
			}
		}
	}
	j, err = b.settled(ctx, j.ID)
	if err == nil && j.State != op.StateSucceeded {
		return fmt.Errorf("%s is %s: %v", j.ID, j.State, j.Error)
	}
	c.done = err == nil
	return err
}

// state is how the cell's job stands, "" where none was acknowledged.
func (b *bench) state(ctx context.Context, c *cell) op.State {
	if c.job == "" {
		return ""
	}
	j := must.Get(b.client().Job(ctx, c.job))(b.m().t)
	return j.State
}
