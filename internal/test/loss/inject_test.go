package loss

import (
	"context"
	"errors"
	"slices"
	"sync"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/gate"
)

// mishap is how a step goes wrong.
type mishap uint8

// The mishaps. Those that do not say "done" use the permit, or not even that, and
// leave the back end as it was.
const (
	refused   mishap = iota // the driver refuses it before its permit is used
	busy                    // the back end is not there, before the permit is used
	failed                  // it fails, and leaves the target as it was
	flaky                   // it fails in a way that may go away
	lost                    // it is not done, and its answer is lost
	lied                    // it is not done, and the back end says that it is
	panics                  // the driver panics, and nothing is done
	killed                  // the daemon is killed, and nothing is done
	lostDone                // it is done, and its answer is lost
	flakyDone               // it is done, and the answer is that it may go away
	panicDone               // it is done, and the driver panics
	killDone                // it is done, and the daemon is killed before it knows
	mishapCount
)

var mishapNames = [mishapCount]string{"refused", "busy", "failed", "flaky", "lost", "lied", "panic", "killed", "lost-done", "flaky-done",
	"panic-done", "kill-done"}

// plot is a mishap that waits for its step.
type plot struct {
	mishap mishap
	skip   int // so many steps go well first
	times  int
}

// ran is a step that came to its driver, and used its permit.
type ran struct {
	step  op.Step
	job   op.Job
	by    op.Requester // who asked; of a compensation, who asked for its job
	lied  bool
	had   []string // the backups of its target when it lied
	from  string   // the holder that its target had before
	hands []within // what hands did while it was under way
	err   error    // of the driver's work
	done  bool     // the work was done, and the driver says so or its answer is lost
}

// turned is a step that its driver refused before its permit was used, and not for a moment alone.
type turned struct {
	id  op.StepID
	err error
	at  int // how much had been done by then
}

// injector is a driver whose steps go wrong as plotted. It notes every step whose
// permit was used.
type injector struct {
	driver.Driver
	bed    bed
	gate   *gate.Gate
	ctx    context.Context // of the life
	killed chan struct{}   // closed when a mishap kills the daemon

	log *runLog

	mu    sync.Mutex
	plots []plot
	lurks []lurk
	dead  bool
}

// runLog has the steps that came to their driver, over the lives of a daemon.
type runLog struct {
	mu   sync.Mutex
	ran  []ran
	late []ran // the journal could not be asked about them any more, after a kill

	turned []turned
	moves  int // what steps and hands did so far
}

var errMishap = errors.New("a mishap of the test")

// next returns the mishap of the step that begins now, or none.
func (i *injector) next() (mishap, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.plots) == 0 {
		return 0, false
	}
	p := &i.plots[0]
	if p.skip > 0 {
		p.skip--
		return 0, false
	}
	m := p.mishap
	if p.times--; p.times <= 0 {
		i.plots = slices.Delete(i.plots, 0, 1)
	}
	return m, true
}

// disturbed returns the hand that waits for the step whose work begins now, or nil.
func (i *injector) disturbed(step op.Step) *watch {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.lurks) == 0 {
		return nil
	}
	if l := &i.lurks[0]; l.skip > 0 {
		l.skip--
		return nil
	}
	w := &watch{lurk: i.lurks[0], bed: i.bed, step: step}
	i.lurks = i.lurks[1:]
	return w
}

// catchUp notes what ran beside the step that a kill cut off.
func (i *injector) catchUp() {
	i.log.mu.Lock()
	late := i.log.late
	i.log.late = nil
	i.log.mu.Unlock()
	for _, r := range late {
		i.note(r)
	}
}

// take returns what ran since the last call.
func (l *runLog) take() []ran {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.ran
	l.ran = nil
	return out
}

func (l *runLog) add(r ran) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ran = append(l.ran, r)
	l.moves++
}

// moved notes that something was done beside the steps.
func (l *runLog) moved() { l.mu.Lock(); defer l.mu.Unlock(); l.moves++ }

// soFar is how much was done so far.
func (l *runLog) soFar() int { l.mu.Lock(); defer l.mu.Unlock(); return l.moves }

// turnedAway notes that a driver refused a step.
func (l *runLog) turnedAway(id op.StepID, err error) {
	if driver.IsTransient(err) || errors.Is(err, refusal.Unavailable) || errors.Is(err, context.Canceled) {
		return // the step waits
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turned = append(l.turned, turned{id, err, l.moves})
}

// takeTurned returns what drivers refused since the last call.
func (l *runLog) takeTurned() []turned {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.turned
	l.turned = nil
	return out
}

// Prepare has the driver prepare the step, or has a mishap happen to it.
func (i *injector) Prepare(ctx context.Context, step op.Step, cleanup func(func())) (op.Observed, driver.Action, error) {
	from := i.bed.holder(step.Target.Name)
	m, wrong := i.next()
	if wrong && m == refused {
		return op.Observed{}, driver.Action{}, refusal.New(refusal.Conflict, "%v", errMishap)
	}
	if wrong && m == busy {
		return op.Observed{}, driver.Action{}, driver.Transient(errMishap)
	}
	if spec, err := op.Lookup(step.Op); err == nil && spec.Identity == op.Makes && m == flakyDone {
		m = lostDone // no driver may say of a guest that is there that making it may be tried again
	}
	now, act, err := i.Driver.Prepare(ctx, step, cleanup)
	if err != nil {
		i.log.turnedAway(step.ID, err)
	}
	return now, driver.Around(act, func(ctx context.Context, do driver.Work) (driver.Result, error) {
		if wrong && m < lostDone {
			i.note(ran{step: step, from: from, lied: m == lied, had: now.Backups})
			return i.answer(m)
		}
		r := ran{step: step, from: from}
		w := i.disturbed(step)
		if w != nil {
			w.begin()
		}
		did, err := do(ctx)
		if r.err = err; w != nil {
			r.hands = w.end()
		}
		r.done = err == nil && (!wrong || m == lostDone || m == killDone)
		i.note(r)
		if !wrong || err != nil {
			return did, err
		}
		return i.answer(m)
	}), err
}

// answer is what the mishap has the driver say.
func (i *injector) answer(m mishap) (driver.Result, error) {
	switch m {
	case flaky, flakyDone:
		return driver.Result{}, driver.Transient(errMishap)
	case lost, lostDone:
		return driver.Result{}, driver.Unknown(errMishap)
	case lied:
		return driver.Result{}, nil
	case panics, panicDone:
		panic(errMishap)
	case killed, killDone:
		i.die()
	}
	return driver.Result{}, errMishap
}

// die is the moment of a kill: nothing of this life goes on.
func (i *injector) die() {
	i.mu.Lock()
	if !i.dead {
		i.dead = true
		close(i.killed)
	}
	i.mu.Unlock()
	<-i.ctx.Done()
}

// note writes a step down whose permit was used.
func (i *injector) note(r ran) {
	var err error
	if r.job, err = i.gate.Job(context.WithoutCancel(i.ctx), r.step.ID.Job); err != nil {
		i.log.mu.Lock()
		defer i.log.mu.Unlock()
		i.log.late = append(i.log.late, r)
		return
	}
	r.step = r.job.Steps[r.step.ID.Index-1]
	if len(r.job.Requesters) > 0 {
		r.by = r.job.Requesters[0]
	}
	i.log.add(r)
}
