package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/test/must"
)

func TestWishesBecomeTrue(t *testing.T) {
	w := newWorld(t, "foreign")
	w.wish("[{name: a, state: running, memory: 1GiB}, {name: b, state: stopped}]")
	require.ElementsMatch(t, []string{"guest.create a", "guest.create b"}, w.fleet.took())
	w.look()
	require.Empty(t, w.fleet.took())

	w.wish("[{name: a, state: stopped, memory: 2GiB, labels: {x: y}}, {name: b, state: stopped}]")
	require.Equal(t, []string{"guest.set-config a", "guest.stop a"}, w.fleet.took())
	w.look()
	require.Empty(t, w.fleet.took())
	require.Empty(t, w.requests())

	// Drift, seen by the round.
	w.fleet.change("a", func(o *op.Observed) { o.Running = running })
	w.time.pass(time.Minute)
	w.look()
	require.Equal(t, []string{"guest.stop a"}, w.fleet.took())
	require.True(t, w.fleet.has("foreign"), "what nobody mentions is left alone")
}

func TestAbsentWaitsAndRunsOnce(t *testing.T) {
	w := newWorld(t, "a")
	w.wish("[{name: a, state: absent}]")
	for range 3 {
		w.time.pass(time.Minute)
		w.look()
	}
	require.Equal(t, []string{"guest.destroy a"}, w.requests(), "one wish is one request")
	require.Empty(t, w.fleet.took())
	w.approve(w.request())
	w.work()
	require.Equal(t, []string{"guest.destroy a"}, w.fleet.took())
	require.False(t, w.fleet.has("a"))
	w.look()
	require.Empty(t, w.fleet.took())

	// The same wish, of another incarnation, is another question.
	w.fleet.make("a", running, nil)
	w.time.pass(time.Minute)
	w.look()
	require.Equal(t, []string{"guest.destroy a"}, w.requests())
	require.True(t, w.fleet.has("a"))
}

func TestWhatIsNoLongerWishedForIsWithdrawn(t *testing.T) {
	w := newWorld(t, "a", "b")
	w.wish("[{name: a, state: absent}, {name: b, state: absent}]")
	require.Len(t, w.requests(), 2)
	w.wish("[{name: b, state: absent}]")
	require.Equal(t, []string{"guest.destroy b"}, w.requests())
	w.wish("[{name: b, state: stopped}]")
	require.Empty(t, w.requests())
	require.Equal(t, []string{"guest.stop b"}, w.fleet.took())
	require.Contains(t, w.steps(), "guest.destroy a superseded")
}

// An agent that changes a guest's memory again and again makes no other request of
// what desired state wishes beside it: the same one waits on.
func TestAStepBeforeARequestLeavesItWaiting(t *testing.T) {
	w := newWorld(t)
	w.fleet.make("a", running, op.Params{"memory": int64(1024), "protected": true})
	w.wish("[{name: a, memory: 1GiB, protected: false}]")
	waits := w.request()
	for _, memory := range []int64{512, 2048} {
		w.fleet.change("a", func(o *op.Observed) { o.Spec = op.Params{"memory": memory, "protected": true} })
		w.restart()
		w.look()
		require.Equal(t, waits.ID, w.request().ID)
	}
	require.Equal(t, []string{"guest.set-config a", "guest.set-config a"}, w.fleet.took())
	w.approve(w.request())
	w.work()
	require.False(t, w.fleet.look("a").Protected)
}

// A wish that is withdrawn while it is authorized is cancelled, not run: also
// when both happened while nobody looked.
func TestAnAuthorizedWishThatIsWithdrawnDoesNotRun(t *testing.T) {
	for name, restart := range map[string]bool{"in one life": false, "over a restart": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "a")
			w.wish("[{name: a, state: absent}]")
			w.approve(w.request())
			w.source.put("site", "apiVersion: gated/v1\nhost: pve1\nguests: []\n")
			if restart {
				w.restart()
				w.r.look(w.ctx)
			} else {
				w.r.read(w.ctx)
			}
			w.work()
			require.Empty(t, w.fleet.took())
			require.True(t, w.fleet.has("a"))
			require.Equal(t, []string{"guest.destroy a cancelled"}, w.steps())
		})
	}
}

func TestARejectedWishStaysRejectedUntilItIsAnother(t *testing.T) {
	w := newWorld(t, "a")
	w.wish("[{name: a, state: absent}]")
	w.reject(w.request())
	for range 3 {
		w.time.pass(time.Hour)
		w.look()
	}
	require.Empty(t, w.requests())
	require.Equal(t, []Stopped{{Target: guestTarget("a"), Op: "guest.destroy", Code: refusal.Rejected,
		Detail: "an operator rejected this (j1.1)"}}, w.r.Status().Stopped)
	require.Equal(t, []string{"guest.destroy a rejected"}, w.steps(), "asking again makes no job")

	w.wish("[]")
	require.Empty(t, w.r.Status().Stopped)
	w.wish("[{name: a, state: absent}]")
	require.Equal(t, []string{"guest.destroy a"}, w.requests(), "withdrawn and wished again, it is asked again")
}

// P09: what cannot be read plans nothing and takes nothing back.
func TestAnUnreadableSourcePlansNothing(t *testing.T) {
	for name, c := range map[string]struct{ doc, says string }{
		"empty":        {"", "site:1:1"},
		"half-written": {"apiVersion: gated/v1\nhost: pve1\ngue", "site:3:1"},
		"html":         {"<html><body>500</body></html>", "site:1:1"},
		"broken":       {"apiVersion: gated/v1\nhost: pve1\nguests:\n  - {name: c, state: running\n", "site:4:3"},
		"P01":          {"apiVersion: gated/v1\nhost: pve1\nguests:\n  - {name: a, scratch: true}\n", "site:4:15"},
		"P13":          {"apiVersion: gated/v1\nhost: pve1\nguests:\n  - {name: a, user: root}\n", "site:4:15"},
		"P10":          {"apiVersion: gated/v1\nhost: pve2\nguests: [{name: c, state: running}]\n", `for the host "pve2"`},
		"unreadable":   {"-", "permission denied"},
		"panic":        {"!", "panic: boom"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "a", "b")
			w.wish("[{name: a, state: absent}, {name: b, state: running}]")
			open := w.request().ID
			if c.doc == "!" {
				w.r.Sources[0] = panics{w.source}
			}
			if w.source.put("site", c.doc); c.doc == "-" {
				w.source.err = fmt.Errorf("open site: permission denied")
			}
			w.fleet.change("b", func(o *op.Observed) { o.Running = stopped })
			w.time.pass(time.Hour)
			w.look()
			require.Empty(t, w.fleet.took(), "the last good wishes do not go on")
			require.Equal(t, open, w.request().ID, "and nothing is taken back")
			s := w.r.Status().Sources[0]
			require.False(t, s.OK)
			require.Contains(t, s.Error, c.says)
			require.Zero(t, s.Guests)

			w.r.Sources[0], w.source.err = w.source, nil
			w.wish("[{name: a, state: absent}, {name: b, state: running}]")
			require.Equal(t, []string{"guest.start b"}, w.fleet.took())
			require.Equal(t, open, w.request().ID)
			require.True(t, w.r.Status().Sources[0].OK)
		})
	}
}

func TestAfterARestartAnUnreadableSourceTakesNothingBack(t *testing.T) {
	w := newWorld(t, "a")
	w.wish("[{name: a, state: absent}]")
	w.source.put("site", "")
	w.restart()
	w.look()
	require.Equal(t, []string{"guest.destroy a"}, w.requests())
	w.wish("[]")
	w.look()
	require.Empty(t, w.requests(), "and when it can be read, what is gone from it is withdrawn")
}

func TestTwoSetsThatMentionAGuestAreAConflict(t *testing.T) {
	w := newWorld(t, "a")
	w.wish("[{name: a, state: absent}]")
	require.Len(t, w.requests(), 1)
	w.source.put("other", "apiVersion: gated/v1\nhost: pve1\nguests: [{name: a, state: absent}, {name: b, state: stopped}]\n")
	w.look()
	require.Empty(t, w.requests(), "both wishes are void, also where they agree")
	require.Equal(t, []string{"guest.create b"}, w.fleet.took(), "the others are not")
	require.Equal(t, []Conflict{{Target: guestTarget("a"), Sets: []string{"other", "site"}}}, w.r.Status().Conflicts)
	w.wish("[]")
	require.Equal(t, []string{"guest.destroy a"}, w.requests())
	require.Empty(t, w.r.Status().Conflicts)
}

// P11: a flood of destroys is capped, and others are served.
func TestAFloodOfDestroysIsCapped(t *testing.T) {
	w := newWorld(t)
	w.policy.OpenPerSource = 5
	w.open()
	var wishes []string
	for i := range 300 {
		w.fleet.make(fmt.Sprintf("g%d", i), running, nil)
		wishes = append(wishes, fmt.Sprintf("{name: g%d, state: absent}", i))
	}
	w.wish("[" + strings.Join(wishes, ", ") + "]")
	require.Len(t, w.requests(), 5)
	require.Equal(t, []string{"site"}, w.r.Status().Full)
	looks := w.fleet.looks
	w.r.look(w.ctx)
	w.work()
	require.Less(t, w.fleet.looks-looks, 300+100, "each is looked at once more, to be adopted")
	looks = w.fleet.looks
	w.look()
	require.Less(t, w.fleet.looks-looks, 50, "then only those that wait")

	w.source.put("more", "apiVersion: gated/v1\nhost: pve1\nguests: [{name: new, state: running}]\n")
	w.wish("[" + strings.Join(wishes, ", ") + ", {name: benign, state: running}]")
	require.Equal(t, []string{"guest.create benign", "guest.create new"}, sorted(w.fleet.took()), "what loses nothing goes on")
	require.Len(t, w.requests(), 5)
	j := w.submit(ask("guest.snapshot", "g7", op.Params{"snapshot": "s"}))
	w.work()
	require.Contains(t, w.fleet.took(), "guest.snapshot g7")
	require.NotZero(t, j.ID)

	w.approve(func() op.Request { rs, err := w.gate.Requests(w.ctx, ""); require.NoError(t, err); return rs[0] }())
	w.work()
	w.time.pass(time.Minute)
	w.look()
	require.Len(t, w.requests(), 5, "there is room for one more")
	require.Len(t, w.fleet.guests, 299+2)
}

func sorted(s []string) []string { slices.Sort(s); return s }

func TestScratchThatDesiredStateMentionsIsScratchNoMore(t *testing.T) {
	w := newWorld(t)
	agent := op.Requester{Source: op.SourceAPI, UID: 1000, Agent: "builder"}
	submit := func(a op.Ask) op.Job {
		j := must.Get(w.gate.Submit(w.ctx, op.Submission{Requester: agent, Steps: []op.Ask{a}}))(t)
		w.work()
		return j
	}
	submit(ask("guest.create", "a", op.Params{"scratch": true}))
	submit(ask("guest.create", "b", op.Params{"scratch": true}))
	w.wish("[{name: a}]")
	require.Equal(t, op.StatePending, submit(ask("guest.destroy", "a", nil)).State())
	submit(ask("guest.destroy", "b", nil))
	require.False(t, w.fleet.has("b"))
	require.True(t, w.fleet.has("a"))
}

func TestTransientErrorsBackOff(t *testing.T) {
	w := newWorld(t)
	fail := true
	w.fleet.after = func(op.Step) error {
		if fail {
			return driver.Transient(errBackend)
		}
		return nil
	}
	w.wish("[{name: a, state: running}]")
	require.Equal(t, []string{"guest.create a planned"}, w.steps())
	_, _, later := w.r.queue.depth()
	require.Equal(t, 1, later)
	w.look()
	w.r.Wake(guestTarget("a"))
	w.work()
	require.Equal(t, 1, w.job(1).Steps[0].Attempts, "waking it does not shorten the wait")
	why, next := w.r.HeldBack(w.job(1).Steps[0])
	require.Contains(t, why, errBackend.Error())
	require.True(t, next.After(w.r.Now()), "it is tried again")
	fail = false
	w.time.pass(firstDelay)
	w.work()
	require.Equal(t, []string{"guest.create a"}, w.fleet.took())
	require.Equal(t, []string{"guest.create a succeeded"}, w.steps())
	why, _ = w.r.HeldBack(w.job(1).Steps[0])
	require.Empty(t, why)
}

func (w *world) job(id op.JobID) op.Job {
	w.t.Helper()
	return must.Get(w.gate.Job(w.ctx, id))(w.t)
}

// While the clock is not believed, signed work waits; when it is again, it
// runs soon (T15).
func TestSignedWorkWaitsForTheClock(t *testing.T) {
	w := newWorld(t, "a")
	w.wish("[{name: a, state: absent}]")
	w.approve(w.request())
	w.fleet.before = func(op.Step) error { return refusal.New(refusal.Unavailable, "signed work waits") }
	for range 600 {
		w.work()
		w.time.pass(time.Second)
	}
	w.work()
	require.Equal(t, op.StateAuthorized, w.job(1).Steps[0].State)
	why, _ := w.r.HeldBack(w.job(1).Steps[0])
	require.Equal(t, "signed work waits", why)
	w.fleet.before = nil
	w.time.pass(maxWait)
	w.work()
	require.False(t, w.fleet.has("a"))
}

func TestTerminalErrorsStop(t *testing.T) {
	w := newWorld(t)
	w.fleet.after = func(op.Step) error { return errBackend }
	w.fleet.make("a", stopped, nil)
	w.wish("[{name: a, state: running, memory: 1GiB}]")
	for range 5 {
		w.time.pass(time.Hour)
		w.look()
	}
	require.Equal(t, []string{"guest.set-config a failed", "guest.start a failed"}, w.steps(),
		"each is tried once, and one does not stand in the way of the other")
	require.Len(t, w.r.Status().Stopped, 2)

	w.fleet.after = nil
	w.wish("[{name: a, state: running, memory: 2GiB}]")
	require.Equal(t, []string{"guest.set-config a", "guest.start a"}, w.fleet.took(), "another wish is tried")
	require.Empty(t, w.r.Status().Stopped)

	w.fleet.after = func(op.Step) error { return errBackend }
	w.fleet.change("a", func(o *op.Observed) { o.Running = stopped })
	w.time.pass(time.Hour)
	w.look()
	w.fleet.after = nil
	w.time.pass(time.Hour)
	w.look()
	require.Empty(t, w.fleet.took())
	w.fleet.change("a", func(o *op.Observed) { o.Snapshots = []string{"s"} })
	w.time.pass(time.Hour)
	w.look()
	require.Equal(t, []string{"guest.start a"}, w.fleet.took(), "and so is another state of the target")
}

// A guest whose process ends at once is started again, and ever more slowly.
func TestACrashingGuestIsStartedEverMoreSlowly(t *testing.T) {
	w := newWorld(t)
	w.fleet.make("a", stopped, nil)
	w.fleet.tell = func(s op.Step) (string, error) {
		if s.Op == "guest.start" {
			w.fleet.change("a", func(o *op.Observed) { o.Running = stopped })
		}
		return "", nil
	}
	w.wish("[{name: a, state: running}]")
	starts := len(w.fleet.took())
	require.Equal(t, 1, starts)
	for range 3600 {
		w.time.pass(time.Second)
		w.work()
	}
	starts = len(w.fleet.took())
	require.Greater(t, starts, 10)
	require.Less(t, starts, 40, "in an hour")
}

func TestApprovedButChangedIsRefusedAndAskedAnew(t *testing.T) {
	w := newWorld(t, "a")
	w.wish("[{name: a, state: absent}]")
	first := w.request()
	w.approve(first)
	w.fleet.change("a", func(o *op.Observed) { o.Snapshots = []string{"precious"} })
	w.work()
	require.Empty(t, w.fleet.took())
	require.Equal(t, op.StateRefused, w.job(1).Steps[0].State)
	require.Equal(t, refusal.StaleTarget, w.job(1).Steps[0].Code)
	w.time.pass(firstDelay)
	w.work()
	require.NotEqual(t, first.ID, w.request().ID, "the wish stands, and is asked of the target as it is now")
}

// A desired step is refused as stale because of something that is not its target: another guest could not be read for a moment. Nothing
// of the target changed since, and the wish still stands. An operator is asked anew.
func TestAStaleStepDoesNotEndItsWish(t *testing.T) {
	stale := func(op.Step) error { return refusal.New(refusal.StaleTarget, "perhaps another guest has a disk") }
	for when, hook := range map[string]func(f *fleet, fn func(op.Step) error){
		"before the permit was used": func(f *fleet, fn func(op.Step) error) { f.before = fn },
		"after it":                   func(f *fleet, fn func(op.Step) error) { f.after = fn },
	} {
		for _, wish := range []string{"[{name: a, state: absent}]", "[{name: a, state: stopped}]"} {
			w := newWorld(t, "a")
			hook(w.fleet, stale)
			w.wish(wish)
			if len(w.requests()) > 0 {
				w.approve(w.request())
			}
			w.work()
			require.Equal(t, refusal.StaleTarget, w.job(1).Steps[0].Code, "%s, %s", when, wish)
			require.False(t, w.job(1).Steps[0].State.Open())
			require.Empty(t, w.r.Status().Stopped, "%s, %s", when, wish)
			require.Empty(t, w.fleet.took())

			hook(w.fleet, nil)
			w.time.pass(firstDelay)
			w.work()
			if len(w.requests()) > 0 {
				w.approve(w.request())
				w.work()
			}
			require.Len(t, w.fleet.took(), 1, "%s, %s: the wish still stands", when, wish)
		}
	}
}

// A step that is stale each time is asked for ever more slowly.
func TestAStepThatIsAlwaysStaleFloodsNobody(t *testing.T) {
	w := newWorld(t, "a")
	w.fleet.before = func(op.Step) error { return refusal.New(refusal.StaleTarget, "no") }
	w.wish("[{name: a, state: stopped}]")
	for range 3600 {
		w.time.pass(time.Second)
		w.work()
	}
	require.Empty(t, w.fleet.took())
	require.Less(t, len(w.steps()), 40, "in an hour")
	require.Greater(t, len(w.steps()), 5, "it goes on")
}

func TestAWaitingRequestIsIssuedAnewWhenTheTargetChanges(t *testing.T) {
	w := newWorld(t, "a")
	w.submit(ask("guest.destroy", "a", nil))
	first := w.request()
	w.fleet.change("a", func(o *op.Observed) { o.Snapshots = []string{"s"} })
	w.look()
	second := w.request()
	require.Equal(t, first.ID, second.ID)
	require.NotEqual(t, first.Payload, second.Payload)
	w.fleet.remove("a")
	w.look()
	require.Empty(t, w.requests())
}

func TestATargetThatCannotBeLookedAtIsLeftAlone(t *testing.T) {
	w := newWorld(t)
	w.fleet.make("a", stopped, nil)
	w.fleet.make("b", stopped, nil)
	w.fleet.blind = func(t op.Target) error {
		if t.Name == "a" {
			return errBackend
		}
		return nil
	}
	w.wish("[{name: a, state: running}, {name: b, state: running}]")
	require.Equal(t, []string{"guest.start b"}, w.fleet.took())
	require.Equal(t, []Trouble{{guestTarget("a"), errBackend.Error()}}, w.r.Status().Unknown)
	w.fleet.blind = nil
	w.time.pass(firstDelay)
	w.work()
	require.Equal(t, []string{"guest.start a"}, w.fleet.took())
	require.Empty(t, w.r.Status().Unknown)

	// The same from List.
	w.fleet.change("a", func(o *op.Observed) {
		o.Running, o.Facts = "unknown", []op.Fact{{Name: "unknown", Text: "two guests have one uuid"}}
	})
	w.time.pass(time.Minute)
	w.look()
	require.Empty(t, w.fleet.took())
	require.Equal(t, []Trouble{{guestTarget("a"), "two guests have one uuid"}}, w.r.Status().Unknown)
}

func TestADriverThatCannotListPlansNothing(t *testing.T) {
	w := newWorld(t)
	w.wish("[{name: a, state: running}]")
	require.Equal(t, []string{"guest.create a"}, w.fleet.took())
	w.fleet.remove("a")
	w.fleet.listing = errBackend
	w.time.pass(time.Hour)
	w.look()
	require.Empty(t, w.fleet.took(), "it is not taken for gone")
	require.Equal(t, []DriverStatus{{Kind: "guest", Error: errBackend.Error()}}, w.r.Status().Drivers)
}

// Where one of several back ends is away, what is in no list is unknown: it is not
// made, and not taken for gone. The rest goes on.
func TestAnIncompleteListPlansNothingForWhatItLacks(t *testing.T) {
	w := newWorld(t)
	w.wish("[{name: a, state: running}, {name: b, state: running}]")
	require.ElementsMatch(t, []string{"guest.create a", "guest.create b"}, w.fleet.took())
	a := w.fleet.look("a")
	w.fleet.remove("a")
	w.fleet.change("b", func(o *op.Observed) { o.Running = stopped })
	w.fleet.listing = &driver.Incomplete{Why: "the back end x is away"}
	w.time.pass(time.Hour)
	w.look()
	require.Equal(t, []string{"guest.start b"}, w.fleet.took())
	require.Equal(t, []Trouble{{guestTarget("a"), "the back end x is away"}}, w.r.Status().Unknown)
	require.Equal(t, []DriverStatus{{Kind: "guest", Error: "the back end x is away"}}, w.r.Status().Drivers)

	w.fleet.set(a) // it was there all the time
	w.fleet.listing = nil
	w.time.pass(time.Hour)
	w.look()
	require.Empty(t, w.fleet.took())
	require.Empty(t, w.r.Status().Unknown)

	w.fleet.remove("a")
	w.fleet.listing = &driver.Incomplete{Why: "away again"}
	w.time.pass(time.Hour)
	w.look()
	require.Empty(t, w.fleet.took())
	w.fleet.listing = nil // and now it is known to be gone
	w.time.pass(time.Hour)
	w.look()
	require.Equal(t, []string{"guest.create a"}, w.fleet.took())
	require.Empty(t, w.r.Status().Unknown)
}

type panics struct{ *lines }

func (panics) Read(context.Context) ([]*SetDoc, error) { panic("boom") }
