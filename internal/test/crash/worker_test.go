package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"gated/client"
	"gated/client/api"
	"gated/internal/agents/agent"
	"gated/internal/agents/checkout"
	"gated/internal/base/refusal"
	"gated/internal/test/linear"
)

// workerArg is the first argument under which this test binary is an agent's
// process: workerArg SOCKET CHECKOUT NAME TEAM SEED CLAIMS.
const workerArg = "__worker"

// worker is an agent that edits files of a checkout, each only while it has it
// reserved.
type worker struct {
	ctx    context.Context
	client *client.Client
	root   string
	places []api.Place
	name   string
	team   int // how many workers there are: worker0, worker1, ...
	r      *rand.Rand
	out    io.Writer
}

// work does what a worker does until it has made its claims. It prints a line
// for each reservation that it holds, and returns what must not be.
func work(args []string) error {
	w := &worker{ctx: context.Background(), root: args[1], name: args[2], out: os.Stdout}
	var numbers [3]int
	for i := range numbers {
		var err error
		if numbers[i], err = strconv.Atoi(args[3+i]); err != nil {
			return err
		}
	}
	w.team, w.r = numbers[0], rand.New(rand.NewPCG(uint64(numbers[1]), 0))
	for _, scope := range linear.Scopes {
		place, err := checkout.At(filepath.Join(w.root, scope))
		if err != nil {
			return err
		}
		w.places = append(w.places, place)
	}
	var err error
	if w.client, err = client.New(client.Options{Socket: args[0], Getenv: func(string) string { return "" }}); err != nil {
		return err
	}
	if err := w.register(); err != nil {
		return err
	}
	for range numbers[2] {
		if err := errors.Join(w.claim(), w.given()); err != nil {
			return err
		}
	}
	return w.holdToTheEnd()
}

// register takes the name, as soon as its last process has let it go.
func (w *worker) register() error {
	reaper, err := agent.Reaper(w.ctx)
	if err != nil {
		return err
	}
	for {
		_, err := w.client.RegisterAgent(w.ctx, api.RegisterAgent{Name: w.name, PID: os.Getpid(), Reaper: reaper})
		if !errors.Is(err, refusal.Conflict) {
			return err
		}
	}
}

// reserve waits for one or two patterns; the answer is none where the wait did
// not suffice. It may not for long: two that wait for what the other one was
// handed do not know of that before.
func (w *worker) reserve() (api.Reservation, bool, error) {
	var set linear.Set
	for first := w.r.IntN(len(linear.Universe)); set == 0; {
		set = 1 << first
		if second := w.r.IntN(len(linear.Universe)); linear.Universe[second].Scope == linear.Universe[first].Scope && w.r.IntN(3) == 0 {
			set |= 1 << second
		}
	}
	in := api.Reserve{Scope: w.places[set.Scope()], Patterns: set.Patterns(), TTLSeconds: 600, WaitSeconds: int64(w.r.IntN(3))}
	if w.r.IntN(20) == 0 {
		in.Keep, in.TTLSeconds = true, int64(shortest/time.Second)
	}
	r, err := w.client.Reserve(w.ctx, in)
	if errors.Is(err, refusal.Conflict) {
		return r, false, nil
	}
	return r, err == nil, err
}

// claim is one piece of work: reserve, edit, renew, and release or hand on.
func (w *worker) claim() error {
	r, ok, err := w.reserve()
	if !ok || err != nil {
		return err
	}
	err = w.edit(r, func() error {
		if w.r.IntN(3) == 0 {
			_, err := w.client.Renew(w.ctx, r.ID, 20*time.Minute)
			return err
		}
		return nil
	})
	if err != nil {
		return err
	}
	if w.r.IntN(3) == 0 {
		// Another one may have ended, or be in the way of it.
		_, err := w.client.Transfer(w.ctx, r.ID, fmt.Sprint("worker", w.r.IntN(w.team)))
		if err == nil {
			return nil
		}
		if !errors.Is(err, refusal.UnknownTarget) && !errors.Is(err, refusal.Conflict) && !errors.Is(err, refusal.BadParams) {
			return err
		}
	}
	_, err = w.client.Release(w.ctx, r.ID)
	return err
}

// given edits and releases what others handed on.
func (w *worker) given() error {
	all, err := w.client.AllReservations(w.ctx, client.ReservationQuery{Agent: w.name})
	if err != nil {
		return err
	}
	for _, r := range all {
		err := w.edit(r, func() error { return nil })
		if err == nil {
			_, err = w.client.Release(w.ctx, r.ID)
		}
		if err != nil && !errors.Is(err, refusal.UnknownTarget) { // what is kept may have lapsed
			return err
		}
	}
	return nil
}

// holdToTheEnd ends while it holds something.
func (w *worker) holdToTheEnd() error {
	r, ok, err := w.reserve()
	if !ok || err != nil {
		return err
	}
	return w.edit(r, func() error { return nil })
}

// edit writes a marker into each file of a reservation, does something, and
// finds the markers again. A lock on each file, which ends with its process,
// shows that nobody else is in it.
func (w *worker) edit(r api.Reservation, during func() error) (err error) {
	set, ok := linear.SetOf(linear.ScopeOf(w.root, r.Scope), r.Patterns)
	if !ok {
		return fmt.Errorf("%s was never asked for: %s %v", r.ID, r.Scope, r.Patterns)
	}
	marker := fmt.Appendf(nil, "%s %d %s", w.name, os.Getpid(), r.ID)
	var files []*os.File
	defer func() {
		for _, f := range files {
			err = errors.Join(err, f.Close())
		}
	}()
	for _, path := range set.Paths() {
		f, err := os.OpenFile(filepath.Join(w.root, path), os.O_RDWR, 0)
		if err != nil {
			return err
		}
		files = append(files, f)
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			return w.breach(r, "somebody is in %s: %w", path, err)
		}
		if err := errors.Join(f.Truncate(0), seekAndWrite(f, marker)); err != nil {
			return err
		}
	}
	fmt.Fprintln(w.out, "holds", r.ID)
	if err := during(); err != nil {
		return err
	}
	for _, f := range files {
		if got, err := os.ReadFile(f.Name()); err != nil || !bytes.Equal(got, marker) {
			return w.breach(r, "in %s is %q, not %q: %w", f.Name(), got, marker, errors.Join(err, errDisturbed))
		}
	}
	return nil
}

// errDisturbed is what must not be: somebody else was in a file.
var errDisturbed = errors.New("disturbed")

// breach is an error, unless the reservation's time was up before the worker
// was done, as on a machine that stood still.
func (w *worker) breach(r api.Reservation, format string, args ...any) error {
	if time.Now().After(r.ExpiresAt) {
		return nil
	}
	return fmt.Errorf("%s has %s and "+format, append([]any{w.name, r.ID}, args...)...)
}

func seekAndWrite(f *os.File, text []byte) error {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err := f.Write(text)
	return err
}
