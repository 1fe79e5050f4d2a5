package gates

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// watcher keeps what one gate says. Only its own goroutine changes the snapshot.
type watcher struct {
	set    *Set
	client *client.Client
	shown  atomic.Pointer[Gate]
	stir   chan struct{} // has one if news is not empty

	mu   sync.Mutex
	is   Known // with host and id once the gate was met
	news news
}

// news is what happened since the last look.
type news struct {
	steps map[string]bool // that changed
	all   bool            // look at everything
	lost  bool            // the gate's events broke, and it does not answer
}

// maxSteps is how many requests are read one by one; more are read as a list.
const maxSteps = 32

func (s *Set) watcher(k Known) (*watcher, error) {
	w := &watcher{set: s, is: k, stir: make(chan struct{}, 1)}
	o, err := s.optionsOf(k.Address)
	if err != nil {
		return nil, err
	}
	o.Unattended, o.MaxAnswer, o.MaxValues = true, maxAnswer, maxValues
	o.Lost = func() { w.tell(func(n *news) { n.lost = true }) }
	o.Back = func() { w.tell(func(n *news) { n.lost, n.all = false, true }) }
	o.Opened = func() { w.tell(func(*news) {}) } // each look asks who the gate is, and another one may have come to the address
	if w.client, err = client.New(o); err != nil {
		return nil, err
	}
	w.shown.Store(&Gate{Known: k, Err: errNotAsked})
	return w, nil
}

// optionsOf returns how the gate at an address is reached. For the one place that a client.yaml of this host names, that
// file also says which uid may run it.
func (s *Set) optionsOf(at client.Address) (client.Options, error) {
	o := s.config.Options
	if o.Socket == "" && o.Remote == "" {
		if paths := o.Paths(); len(paths) == 1 && client.UnixAddress(paths[0]) == at {
			return o, nil
		}
	}
	return o.At(at)
}

var errNotAsked = refusal.New(refusal.Unavailable, "the gate was not asked yet").WithHint("wait a few seconds")

// run watches the gate until ctx ends. It tries again after each error, with pauses that double up to a bound.
func (w *watcher) run(ctx context.Context) {
	pace := w.set.pace
	pause := pace.first
	for ctx.Err() == nil {
		began := w.set.config.Now()
		err := w.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		w.fail(err)
		if w.set.config.Now().Sub(began) >= pace.steady {
			pause = pace.first
		}
		if rest(ctx, pause) != nil {
			return
		}
		pause = min(2*pause, pace.longest)
	}
}

// fail shows an error beside what the gate said before. What another gate said is not kept, and what the pinned one
// said is not shown beside it.
func (w *watcher) fail(err error) {
	err = inShort(err)
	g := *w.shown.Load()
	if g.Err == nil || g.Err.Error() != err.Error() {
		w.set.config.Logger.Warn("a gate does not answer as it should", "gate", g.Name, "why", err)
	}
	if anotherGate(err) {
		g = Gate{Known: g.Known}
	}
	g.Err = err
	w.set.show(w, g)
}

// maxWhy bounds the sentence of an error, in bytes: it has words of the gate, and is kept, shown and logged.
const maxWhy = 1000

// inShort returns a refusal with a sentence and a hint of at most maxWhy bytes, and any other error as it is.
func inShort(err error) error {
	var r *refusal.Refusal
	if !errors.As(err, &r) || len(r.Detail) <= maxWhy && len(r.Hint) <= maxWhy {
		return err
	}
	return refusal.New(r.Code, "%s", begin(r.Detail)).WithHint("%s", begin(r.Hint))
}

// begin returns the first maxWhy bytes of a text, and marks that it goes on.
func begin(text string) string {
	if len(text) <= maxWhy {
		return text
	}
	return strings.ToValidUTF8(text[:maxWhy], "") + "…"
}

// follow looks at everything, and then again at what changes, until there is an error.
func (w *watcher) follow(ctx context.Context) error {
	after, err := w.begin(ctx)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.client.Events(ctx, after, true, w.happened) }()
	defer func() { stop(); <-ended }()
	again := time.NewTicker(w.set.pace.every)
	defer again.Stop()
	for {
		select {
		case err := <-ended:
			ended <- err
			return err
		case <-again.C:
			w.tell(func(n *news) { n.all = true })
			continue
		case <-w.stir:
		}
		if err := rest(ctx, w.set.pace.settle); err != nil {
			return err
		}
		n := w.take()
		switch {
		case n.lost && w.shown.Load().Err == error(errLost): // which is shown already
		case n.lost:
			w.fail(errLost)
		default:
			if err := w.look(ctx, n); err != nil {
				return err
			}
		}
	}
}

var errLost = refusal.New(refusal.Unavailable, "the gate's events broke off, and it does not answer now").
	WithHint("it is asked again every few seconds")

// happened notes what an event changed. It does not wait for anything.
func (w *watcher) happened(e api.Entry) error {
	w.tell(func(n *news) {
		switch {
		case e.Class == op.Benign: // nobody signs it
		case e.Step == "":
			n.all = n.all || e.Job != "" || e.Kind == "rotated"
		case len(n.steps) > maxSteps:
			n.all = true
		default:
			if n.steps == nil {
				n.steps = map[string]bool{}
			}
			n.steps[e.Step] = true
		}
	})
	return nil
}

func (w *watcher) tell(change func(*news)) {
	w.mu.Lock()
	change(&w.news)
	w.mu.Unlock()
	select {
	case w.stir <- struct{}{}:
	default: // the last one was not taken yet
	}
}

// take returns the news, and forgets them.
func (w *watcher) take() news {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.news
	w.news = news{lost: n.lost}
	return n
}

// identify asks the gate who it is, and refuses another one.
func (w *watcher) identify(ctx context.Context) (api.Status, error) {
	ask := w.set.config.Identify
	if ask == nil {
		ask = func(ctx context.Context, cl *client.Client) (api.Status, error) { return cl.Status(ctx) }
	}
	st, err := ask(ctx, w.client)
	if err != nil {
		return api.Status{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch is := w.is; {
	case !st.Gate.Valid() || st.Host == "" || op.CheckText("host", st.Host) != nil:
		return api.Status{}, refusal.New(refusal.Internal, "what answers at %s says that it is gate %q on %q, which is none",
			is.Address, st.Gate, st.Host).WithHint("is it a gate, and of this version?")
	case is.ID == "" && is.Address.Remote():
		return api.Status{}, refusal.New(refusal.NotAllowed, "the gate at %s was never met: it says that it is %s on %s",
			is.Address, st.Gate, op.Shown(st.Host)).
			WithHint("compare the id with what gated status prints on that host, then meet it as this user: opsign -H %s list",
				is.Address)
	case is.ID != "" && (is.ID != st.Gate || is.Host != st.Host):
		return api.Status{}, refusal.New(refusal.TargetMismatch, "another gate answers at %s: gate %s on %s is known there, "+
			"and gate %s on %s answers", is.Address, is.ID, op.Shown(is.Host), st.Gate, op.Shown(st.Host)).
			WithHint("nothing of it is shown, and nothing was signed. Ask whoever runs the gate. If it was made anew: " +
				"opsign forget with its address, opsign list to meet it, and start this program again")
	}
	w.is.ID, w.is.Host = st.Gate, st.Host
	return st, nil
}

func rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
