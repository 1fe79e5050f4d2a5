package journal_test

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/host/fsck/fscktest"
	"gated/internal/log/journal"
	"gated/internal/test/must"
)

var (
	now  = time.Date(2026, 3, 1, 12, 0, 0, 5, time.UTC)
	web  = op.Target{Kind: "guest", Name: "web"}
	uid  = op.Requester{Source: op.SourceAPI, UID: 1000, PID: 7}
	hub  = op.Requester{Source: op.SourceDesired, Set: "fleet"}
	open = []op.State{op.StatePlanned, op.StatePending, op.StateAuthorized, op.StateDispatched}
)

func newStore(t testing.TB) *store.Store {
	return fscktest.Open(t, filepath.Join(t.TempDir(), "journal.db"),
		store.Options{Migrations: []store.Migration{{Version: 1, Name: "journal", SQL: journal.Schema}, {Version: 2, Name: "people", SQL: journal.SchemaPeople},
			{Version: 3, Name: "outputs", SQL: journal.SchemaOutputs},
			{Version: 4, Name: "used", SQL: journal.SchemaUsed},
			{Version: 5, Name: "quotas", SQL: journal.SchemaQuotas},
			{Version: 6, Name: "before", SQL: journal.SchemaBefore},
			{Version: 7, Name: "rejections", SQL: journal.SchemaRejections},
			{Version: 8, Name: "backups", SQL: journal.SchemaBackups},
			{Version: 9, Name: "batches", SQL: journal.SchemaBatches},
			{Version: 10, Name: "ran", SQL: journal.SchemaRan},
			{Version: 11, Name: "turns", SQL: journal.SchemaTurn}}})
}

func update(t testing.TB, s *store.Store, fn func(*store.Tx)) {
	t.Helper()
	require.NoError(t, s.Update(t.Context(), func(tx *store.Tx) error { fn(tx); return nil }))
}

// step is a destroy in some state.
func step(job op.JobID, index int, state op.State) op.Step {
	return op.Step{ID: op.StepID{Job: job, Index: index}, Op: "guest.destroy", Target: web, Incarnation: "i1", State: state,
		Fingerprint: op.FingerprintOf(nil), Params: op.Params{"a": int64(1)}, Birth: "b",
		Verdict: op.Verdict{Class: op.Destructive, Rule: "r", Why: "w"}, UpdatedAt: now}
}

// add makes a job of one requester with the given steps.
func add(t testing.TB, tx *store.Tx, by op.Requester, steps ...op.Step) op.JobID {
	t.Helper()
	id := must.Get(journal.NewJob(tx, by, "why", now))(t)
	for i, s := range steps {
		s.ID = op.StepID{Job: id, Index: i + 1}
		require.NoError(t, journal.AddStep(tx, s))
	}
	return id
}

func TestJobComesBackAsItWas(t *testing.T) {
	update(t, newStore(t), func(tx *store.Tx) {
		a, b := step(0, 0, op.StatePlanned), step(0, 0, op.StatePending)
		b.Undoes, b.Code, b.Detail = 1, refusal.Conflict, "said"
		id := add(t, tx, uid, a, b)
		added := must.Get(journal.AddRequester(tx, id, hub, "also why"))(t)
		require.True(t, added)
		added = must.Get(journal.AddRequester(tx, id, uid, "another reason"))(t, "once more is no error")
		require.False(t, added)
		j := must.Get(journal.ReadJob(tx, id))(t)
		a.ID, b.ID = op.StepID{Job: id, Index: 1}, op.StepID{Job: id, Index: 2}
		require.Equal(t, op.Job{ID: id, Requesters: []op.Requester{hub, uid}, Reason: "why",
			Reasons: []op.Reason{{By: hub.String(), Text: "also why"}, {By: uid.String(), Text: "why"}}, Steps: []op.Step{a, b}, CreatedAt: now}, j)
		must.Fail(journal.ReadJob(tx, id+1))(t, refusal.UnknownTarget)
		must.Fail(journal.ReadStep(tx, op.StepID{Job: id, Index: 3}))(t, refusal.UnknownTarget)

		left := must.Get(journal.DropRequester(tx, id, uid.String()))(t)
		require.Equal(t, 1, left)
		left = must.Get(journal.DropRequester(tx, id, uid.String()))(t)
		require.Equal(t, 1, left, "a requester that the job does not have removes no other")
		left = must.Get(journal.DropRequester(tx, id, hub.String()))(t)
		require.Zero(t, left)
		require.Equal(t, []op.Requester{hub}, must.Get(journal.Requesters(tx, id))(t), "the last one stays")
	})
}

func TestMoveIsACompareAndSet(t *testing.T) {
	update(t, newStore(t), func(tx *store.Tx) {
		for _, from := range op.States {
			id := op.StepID{Job: add(t, tx, uid, step(0, 0, from)), Index: 1}
			for _, wrong := range op.States {
				if wrong == from {
					continue
				}
				for _, tr := range op.Transitions {
					if tr.Allows(wrong) {
						moved := must.Get(journal.Move(tx, id, wrong, tr, "", "", now))(t)
						require.False(t, moved, "%s is not %s", from, wrong)
					}
				}
				if wrong == op.StatePlanned || wrong == op.StateAuthorized {
					require.False(t, must.Get(journal.Dispatch(tx, id, wrong, "", nil, now))(t))
				}
			}
			s := must.Get(journal.ReadStep(tx, id))(t)
			require.Equal(t, from, s.State)
			require.Zero(t, s.Attempts)
		}
	})
}

// A step changes only in the ways of the table.
func TestMoveFollowsTheTable(t *testing.T) {
	update(t, newStore(t), func(tx *store.Tx) {
		for _, from := range op.States {
			for _, tr := range append(slices.Clone(op.Transitions), op.Transition{}) {
				id := op.StepID{Job: add(t, tx, uid, step(0, 0, from)), Index: 1}
				moved, err := journal.Move(tx, id, from, tr, refusal.Conflict, "why", now.Add(time.Second))
				s := must.Get(journal.ReadStep(tx, id))(t)
				if slices.Contains(tr.From, from) {
					require.NoError(t, err)
					require.True(t, moved)
					require.Equal(t, tr.To, s.State)
					continue
				}
				require.Error(t, err, "%s says %s", from, tr.Entry)
				require.Equal(t, from, s.State)
			}
			id := op.StepID{Job: add(t, tx, uid, step(0, 0, from)), Index: 1}
			moved, err := journal.Dispatch(tx, id, from, "", nil, now)
			if from == op.StatePlanned || from == op.StateAuthorized {
				require.NoError(t, err)
				require.True(t, moved)
			} else {
				require.Error(t, err)
			}
		}
	})
}

func TestDispatchCountsAndClears(t *testing.T) {
	update(t, newStore(t), func(tx *store.Tx) {
		id := op.StepID{Job: add(t, tx, uid, step(0, 0, op.StatePlanned)), Index: 1}
		for attempt := 1; attempt <= 3; attempt++ {
			before := [][]string{{"a", "b"}, {}, nil}[attempt-1]
			moved := must.Get(journal.Dispatch(tx, id, op.StatePlanned, "undo", before, now))(t)
			require.True(t, moved)
			require.NoError(t, journal.SetTask(tx, id, "t1"))
			s := must.Get(journal.ReadStep(tx, id))(t)
			require.Equal(t, before, s.Before, "none is another thing than not known")
			require.Equal(t, attempt, s.Attempts)
			require.Equal(t, "t1", s.Task)
			require.Empty(t, s.Code)
			moved, err := journal.Move(tx, id, op.StateDispatched, op.TransitionOf("retried"), refusal.Unavailable, "again", now)
			require.NoError(t, err)
			require.True(t, moved)
		}
		undo := must.Get(journal.Undo(tx, id))(t)
		require.Equal(t, "undo", undo)
		require.NoError(t, journal.SetTask(tx, id, "t2"))
		s := must.Get(journal.ReadStep(tx, id))(t)
		require.Equal(t, "t1", s.Task, "only a dispatched step has a task")
	})
}

// The clock may go back while the daemon is down, if it guessed before. What ran later is told as later.
func TestOthersSinceGoesByOrderAndNotByTheClock(t *testing.T) {
	ran := func(tx *store.Tx, job op.JobID, at time.Time, ended bool) op.StepID {
		id := op.StepID{Job: job, Index: 1}
		require.True(t, must.Get(journal.Dispatch(tx, id, op.StatePlanned, "", nil, at))(t))
		if ended {
			require.True(t, must.Get(journal.Move(tx, id, op.StateDispatched, op.TransitionOf("succeeded"), "", "", at))(t))
		}
		return id
	}
	for _, ended := range []bool{true, false} {
		update(t, newStore(t), func(tx *store.Tx) {
			before, did := add(t, tx, uid, step(0, 0, op.StatePlanned)), add(t, tx, uid, step(0, 0, op.StatePlanned))
			after := add(t, tx, hub, step(0, 0, op.StatePlanned))
			elsewhere := step(0, 0, op.StatePlanned)
			elsewhere.Target.Name = "db"
			ran(tx, add(t, tx, hub, elsewhere), now.Add(time.Hour), true)
			ran(tx, before, now.Add(-time.Second), true)
			done := must.Get(journal.ReadStep(tx, ran(tx, did, now, true)))(t)
			_, since, err := journal.OthersSince(tx, done, false)
			require.NoError(t, err)
			require.False(t, since, "what ran before, or on another target, is no step since")
			id := ran(tx, after, now.Add(-12*time.Hour), ended)
			other, since, err := journal.OthersSince(tx, done, false)
			require.NoError(t, err)
			require.True(t, since)
			require.Equal(t, id, other)

			// Of two steps from before there were turns, the time is all that is known, and it may be the same.
			_, err = tx.Exec(`UPDATE steps SET turn = 7 WHERE job IN (?, ?)`, int64(done.ID.Job), int64(id.Job))
			require.NoError(t, err)
			_, since, err = journal.OthersSince(tx, done, false)
			require.NoError(t, err)
			require.True(t, since)
		})
	}
}

// TestWishIsWhatIsAskedFor: the same operation on the same incarnation with the same
// values is the same wish, whatever the target's state.
func TestWishIsWhatIsAskedFor(t *testing.T) {
	base := step(1, 1, op.StatePlanned)
	same := map[string]func(*op.Step){
		"job":           func(s *op.Step) { s.ID = op.StepID{Job: 9, Index: 4} },
		"state":         func(s *op.Step) { s.State = op.StateRejected },
		"fingerprint":   func(s *op.Step) { s.Fingerprint = "" },
		"verdict":       func(s *op.Step) { s.Verdict = op.Verdict{} },
		"birth":         func(s *op.Step) { s.Birth = "other" },
		"params copied": func(s *op.Step) { s.Params = op.Params{"a": int64(1)} },
	}
	for name, change := range same {
		s := base
		change(&s)
		require.Equal(t, journal.Wish(base), journal.Wish(s), name)
	}
	other := map[string]func(*op.Step){
		"op":            func(s *op.Step) { s.Op = "guest.wipe" },
		"kind":          func(s *op.Step) { s.Target.Kind = "scope" },
		"name":          func(s *op.Step) { s.Target.Name = "web2" },
		"incarnation":   func(s *op.Step) { s.Incarnation = "i2" },
		"a value":       func(s *op.Step) { s.Params = op.Params{"a": int64(2)} },
		"a type":        func(s *op.Step) { s.Params = op.Params{"a": "1"} },
		"a parameter":   func(s *op.Step) { s.Params = op.Params{"a": int64(1), "b": false} },
		"none":          func(s *op.Step) { s.Params = nil },
		"moved borders": func(s *op.Step) { s.Target.Name, s.Incarnation = "we", "bi1" },
	}
	seen := map[string]string{journal.Wish(base): "base"}
	for name, change := range other {
		s := base
		change(&s)
		require.Empty(t, seen[journal.Wish(s)], name)
		seen[journal.Wish(s)] = name
	}
}

// TestALaterRequestOvertakesARejection: a rejection counts until a destructive step asks for the same again.
func TestALaterRequestOvertakesARejection(t *testing.T) {
	update(t, newStore(t), func(tx *store.Tx) {
		rejected := func() (op.StepID, bool) {
			t.Helper()
			s, ok, err := journal.Rejected(tx, step(0, 0, ""))
			require.NoError(t, err)
			return s.ID, ok
		}
		_, ok := rejected()
		require.False(t, ok)
		open := add(t, tx, uid, step(0, 0, op.StatePending)) // was there when the operator rejected the next one
		first := add(t, tx, uid, step(0, 0, op.StateRejected))
		id, ok := rejected()
		require.True(t, ok)
		require.Equal(t, first, id.Job)

		benign, other := step(0, 0, op.StatePlanned), step(0, 0, op.StatePending)
		benign.Verdict.Class = op.Benign
		other.Params = op.Params{"force": true}
		later := add(t, tx, uid, benign)
		add(t, tx, uid, other)
		_, ok = rejected()
		require.True(t, ok, "neither a benign step nor another wish overtakes it")

		rebound := step(later, 1, op.StatePlanned) // destructive by now
		require.NoError(t, journal.Rebind(tx, rebound))
		_, ok = rejected()
		require.False(t, ok)

		second := add(t, tx, uid, step(0, 0, op.StateRejected))
		id, ok = rejected()
		require.True(t, ok)
		require.Equal(t, second, id.Job)
		older := step(open, 1, op.StatePending)
		require.NoError(t, journal.Rebind(tx, older))
		_, ok = rejected()
		require.True(t, ok, "an older step overtakes nothing")
		add(t, tx, uid, step(0, 0, op.StateSucceeded))
		_, ok = rejected()
		require.False(t, ok)

		// Two wait for the same, and an operator rejects the older one.
		waits := op.StepID{Job: add(t, tx, hub, step(0, 0, op.StatePending)), Index: 1}
		add(t, tx, uid, step(0, 0, op.StatePending))
		moved, err := journal.Move(tx, waits, op.StatePending, op.TransitionOf("rejected"), refusal.Rejected, "no", now)
		require.NoError(t, err)
		require.True(t, moved)
		id, ok = rejected()
		require.True(t, ok, "the other one asked before the rejection")
		require.Equal(t, waits, id)
	})
}

func TestARequesterForgetsItsRejectedWish(t *testing.T) {
	other := op.Requester{Source: op.SourceDesired, Set: "other"}
	for name, c := range map[string]struct {
		by      op.Requester
		forgets bool
	}{"its set": {hub, true}, "a job": {uid, true}, "another set": {other, false}} {
		t.Run(name, func(t *testing.T) {
			update(t, newStore(t), func(tx *store.Tx) {
				id := op.StepID{Job: add(t, tx, c.by, step(0, 0, op.StateRejected)), Index: 1}
				has := must.Get(journal.HasRejected(tx, web, hub.String()))(t)
				require.Equal(t, c.forgets, has)
				has = must.Get(journal.HasRejected(tx, op.Target{Kind: "guest", Name: "db"}, hub.String()))(t)
				require.False(t, has)
				require.NoError(t, journal.ForgetRejected(tx, web, hub.String()))
				s, ok := must.Two(journal.Rejected(tx, step(0, 0, "")))(t)
				require.Equal(t, !c.forgets, ok)
				if ok {
					require.Equal(t, id, s.ID)
				}
			})
		})
	}
}

func TestFinishOnlyOnceAndOnlyWhenNothingIsOpen(t *testing.T) {
	update(t, newStore(t), func(tx *store.Tx) {
		for _, state := range open {
			id := add(t, tx, uid, step(0, 0, op.StateSucceeded), step(0, 0, state))
			done := must.Get(journal.Finish(tx, id, now))(t)
			require.False(t, done, state)
		}
		id := add(t, tx, uid, step(0, 0, op.StateSucceeded), step(0, 0, op.StateFailed))
		done := must.Get(journal.Finish(tx, id, now))(t)
		require.True(t, done)
		done = must.Get(journal.Finish(tx, id, now.Add(time.Hour)))(t)
		require.False(t, done)
		require.Equal(t, now, must.Get(journal.ReadJob(tx, id))(t).FinishedAt)
		counts := must.Get(journal.Count(tx))(t)
		require.Equal(t, map[op.State]int{op.StatePlanned: 1, op.StatePending: 1, op.StateAuthorized: 1, op.StateDispatched: 1}, counts)
	})
}

func TestOpenStepsAndTargets(t *testing.T) {
	update(t, newStore(t), func(tx *store.Tx) {
		db := op.Target{Kind: "guest", Name: "db"}
		for _, state := range op.States {
			add(t, tx, uid, step(0, 0, state))
		}
		elsewhere := step(0, 0, op.StateRejected)
		elsewhere.Target = db
		add(t, tx, uid, elsewhere)
		got := must.Get(journal.OpenSteps(tx, web))(t)
		var states []op.State
		for _, s := range got {
			states = append(states, s.State)
		}
		require.Equal(t, open, states)
		targets := must.Get(journal.OpenTargets(tx))(t)
		require.Equal(t, []op.Target{web}, targets, "a target whose steps ended has nothing to do")
		busy := must.Get(journal.Busy(tx, web))(t)
		require.True(t, busy)
		busy = must.Get(journal.Busy(tx, db))(t)
		require.False(t, busy)
		for _, state := range open {
			in := must.Get(journal.InState(tx, state))(t)
			require.Len(t, in, 1)
		}
		require.Empty(t, must.Get(journal.InState(tx, op.StateFailed))(t), "it is for open states")
		jobs := must.Get(journal.ReadJobs(tx, journal.Filter{State: op.StateFailed}))(t)
		require.Len(t, jobs, 1)
		jobs = must.Get(journal.ReadJobs(tx, journal.Filter{State: op.StatePending}))(t)
		require.Len(t, jobs, 1)
		jobs = must.Get(journal.ReadJobs(tx, journal.Filter{After: 3, Limit: 2}))(t)
		require.Len(t, jobs, 2)
		require.EqualValues(t, 4, jobs[0].ID)
	})
}

func TestIdempotencyKeys(t *testing.T) {
	update(t, newStore(t), func(tx *store.Tx) {
		job := must.Get(journal.Recall(tx, "uid:1", "k", "body"))(t)
		require.Zero(t, job)
		require.NoError(t, journal.Remember(tx, "uid:1", "k", "body", 3, now))
		job = must.Get(journal.Recall(tx, "uid:1", "k", "body"))(t)
		require.EqualValues(t, 3, job)
		must.Fail(journal.Recall(tx, "uid:1", "k", "another"))(t, refusal.Conflict)
		job = must.Get(journal.Recall(tx, "uid:2", "k", "another"))(t)
		require.Zero(t, job, "keys are per caller")
		require.ErrorIs(t, journal.Remember(tx, "uid:1", "k", "body", 4, now), store.ErrConstraint, "a key is never given away")

		require.NoError(t, journal.ForgetKeys(tx, now, 10))
		job = must.Get(journal.Recall(tx, "uid:1", "k", "body"))(t)
		require.EqualValues(t, 3, job, "as old as the limit is not older")
		require.NoError(t, journal.ForgetKeys(tx, now.Add(1), 10))
		job = must.Get(journal.Recall(tx, "uid:1", "k", "body"))(t)
		require.Zero(t, job)
	})
}

func TestSets(t *testing.T) {
	update(t, newStore(t), func(tx *store.Tx) {
		must.Fail(journal.ReadSet(tx, "web"))(t, refusal.UnknownTarget)
		one := journal.Set{Name: "web", ETag: "e1", Body: []byte("a: 1\n"), UpdatedAt: now}
		require.NoError(t, journal.PutSet(tx, one))
		two := journal.Set{Name: "web", ETag: "e2", Body: []byte{}, UpdatedAt: now.Add(1)}
		require.NoError(t, journal.PutSet(tx, two))
		db := journal.Set{Name: "db", ETag: "e3", Body: []byte("x"), UpdatedAt: now}
		require.NoError(t, journal.PutSet(tx, db))
		got := must.Get(journal.ReadSet(tx, "web"))(t)
		require.Equal(t, "e2", got.ETag)
		require.Empty(t, got.Body)
		all := must.Get(journal.ReadSets(tx))(t)
		require.Len(t, all, 2)
		require.Equal(t, db, all[0])
		found := must.Get(journal.DeleteSet(tx, "web"))(t)
		require.True(t, found)
		found = must.Get(journal.DeleteSet(tx, "web"))(t)
		require.False(t, found)
	})
}

func TestProvenance(t *testing.T) {
	update(t, newStore(t), func(tx *store.Tx) {
		p := must.Get(journal.ReadProvenance(tx, ""))(t)
		require.Nil(t, p)
		want := op.Provenance{Incarnation: "i1", Target: web, Creator: "agent:x", Agent: "x", Job: 4, Scratch: true, ScratchUntil: now,
			CreatedAt: now, Storage: []op.StorageOrigin{{ID: "data:1", Job: 4}}}
		require.NoError(t, journal.AddProvenance(tx, want))
		require.ErrorIs(t, journal.AddProvenance(tx, want), store.ErrConstraint, "an incarnation is made once")
		p = must.Get(journal.ReadProvenance(tx, "i1"))(t)
		require.Equal(t, want, *p)
		require.NoError(t, journal.AddStorage(tx, "i1", op.StorageOrigin{ID: "data:1", Job: 9}))
		p = must.Get(journal.ReadProvenance(tx, "i1"))(t)
		require.Equal(t, want, *p, "who made it first stays")
		for id, known := range map[op.StorageID]bool{"data:1": true, "data:2": false} {
			require.Equal(t, known, must.Get(journal.IsStorage(tx, id))(t))
		}
		for _, first := range []bool{true, false} {
			ended := must.Get(journal.EndScratch(tx, "i1", "because"))(t)
			require.Equal(t, first, ended, "it ends once, and for ever")
		}
		n := 0
		require.NoError(t, journal.AllProvenance(tx, func(p op.Provenance) error { n++; require.Equal(t, "because", p.ScratchEnded); return nil }))
		require.Equal(t, 1, n)
	})
}

func TestRequestsAndSignatures(t *testing.T) {
	update(t, newStore(t), func(tx *store.Tx) {
		id := op.StepID{Job: add(t, tx, uid, step(0, 0, op.StatePending)), Index: 1}
		must.Fail(journal.ReadRequest(tx, id))(t, refusal.UnknownTarget)
		r := op.Request{ID: id, Payload: []byte("p1"), Nonce: "n1", Facts: []op.Fact{{Name: "files", Text: "3"}}, Need: op.Requirement{Ways: []op.Way{{
			Demands: []op.Demand{{Rule: "built-in", Roles: []op.Role{op.Operational}, Threshold: 2}}}}, MaxValidity: time.Hour},
			Labels: map[string]string{"tier": "prod"}, CreatedAt: now, IssuedAt: now, ExpiresAt: now.Add(time.Hour)}
		require.NoError(t, journal.PutRequest(tx, r))
		signed := op.Signed{Principal: "alice", Role: op.Operational, Key: "k1", Armor: "a", At: now}
		for _, c := range []struct {
			principal, key string
			isNew          bool
		}{{"alice", "k1", true}, {"alice", "k1", false}, {"alice", "k2", false}, {"bob", "k1", false}, {"bob", "k2", true}} {
			signed.Principal, signed.Key = c.principal, c.key
			isNew := must.Get(journal.AddSignature(tx, id, signed))(t)
			require.Equal(t, c.isNew, isNew, "%s %s: one person with one key counts once", c.principal, c.key)
		}
		got := must.Get(journal.ReadRequest(tx, id))(t)
		require.Len(t, got.Signatures, 2)
		require.Equal(t, 0, got.Missing())
		require.Equal(t, "why", got.Reason)
		require.Equal(t, journal.EncodeNeed(r.Need), journal.EncodeNeed(got.Need))
		require.Equal(t, r.Labels, got.Labels)
		require.NoError(t, journal.DropSignature(tx, id, "alice"))
		got = must.Get(journal.ReadRequest(tx, id))(t)
		require.Equal(t, 1, got.Missing(), "what was taken out counts no more")

		again := r
		again.Payload, again.Nonce, again.CreatedAt, again.ExpiresAt = []byte("p2"), "n2", now.Add(time.Minute), now.Add(2*time.Hour)
		require.NoError(t, journal.PutRequest(tx, again))
		got = must.Get(journal.ReadRequest(tx, id))(t)
		require.Empty(t, got.Signatures, "signatures are over the old bytes")
		require.Equal(t, now, got.CreatedAt, "the request is as old as it was")
		require.Equal(t, "n2", got.Nonce)

		for state, n := range map[op.State]int{"": 1, op.StatePending: 1, op.StateAuthorized: 0, op.StateRejected: 0} {
			rs := must.Get(journal.ReadRequests(tx, journal.RequestFilter{State: state}))(t)
			require.Len(t, rs, n, state)
		}
	})
}

func TestOutOfTime(t *testing.T) {
	update(t, newStore(t), func(tx *store.Tx) {
		const skew = time.Minute
		offline := false
		put := func(state op.State, issued, expires time.Time) op.StepID {
			id := op.StepID{Job: add(t, tx, uid, step(0, 0, state)), Index: 1}
			require.NoError(t, journal.PutRequest(tx, op.Request{ID: id, CreatedAt: now, IssuedAt: issued, ExpiresAt: expires, Payload: []byte{}, Offline: offline}))
			return id
		}
		a := put(op.StatePending, now.Add(-2*time.Hour), now.Add(-time.Hour))
		put(op.StatePending, now.Add(-time.Hour), now.Add(-skew))
		b := put(op.StatePending, now, now.Add(time.Hour+1))
		put(op.StateAuthorized, now.Add(-2*time.Hour), now.Add(-time.Hour))
		put(op.StateExpired, now.Add(-2*time.Hour), now.Add(-time.Hour))
		put(op.StatePending, now.Add(skew), now.Add(time.Hour))
		c := put(op.StatePending, now.Add(skew+1), now.Add(time.Hour))
		offline = true
		put(op.StatePending, now.Add(skew+1), now.Add(time.Hour))
		for _, c := range []struct {
			after op.StepID
			limit int
			want  []op.StepID
		}{{op.StepID{}, 10, []op.StepID{a, b, c}}, {op.StepID{}, 1, []op.StepID{a}}, {a, 10, []op.StepID{b, c}}, {c, 10, nil}} {
			ids := must.Get(journal.OutOfTime(tx, now, skew, time.Hour, c.after, c.limit))(t)
			require.Equal(t, c.want, ids)
		}
	})
}
