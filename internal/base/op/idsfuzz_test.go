package op_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// FuzzIDs: an id of a job, a step, a reservation, a gate or a nonce has one
// spelling. All else is refused.
func FuzzIDs(f *testing.F) {
	for _, s := range []string{"j12", "j012", "j12.1", "j1.0", "j1.1048577", "r7", "j-1", "j999999999999999999", "j9223372036854775808",
		strings.Repeat("0a", 16), strings.Repeat("A", 22), "j１"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		job, jobErr := op.ParseJobID(s)
		step, stepErr := op.ParseStepID(s)
		res, resErr := op.ParseReservationID(s)
		read := 0
		for _, x := range []struct {
			err  error
			text string
			n    int64
		}{{jobErr, job.String(), int64(job)}, {stepErr, step.String(), int64(step.Index)}, {resErr, res.String(), int64(res)}} {
			if x.err != nil {
				requireRefusal(t, x.err, refusal.Malformed)
				continue
			}
			read++
			require.Equal(t, s, x.text, "an id has one spelling")
			require.Positive(t, x.n)
		}
		require.LessOrEqual(t, read, 1, "%q is the id of two things", s)
		if op.GateID(s).Valid() {
			require.Len(t, s, 32)
			require.Equal(t, strings.ToLower(s), s)
		}
		if op.CheckNonce(s) == nil {
			require.Regexp(t, `^[A-Za-z0-9_-]{22,43}$`, s)
		}
		if op.CheckName(s) == nil {
			require.Regexp(t, `^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`, s)
		}
	})
}

// FuzzWindow: an accepted window is written as one with the same minutes of a week.
// All else is BadParams.
func FuzzWindow(f *testing.F) {
	for _, s := range []string{"22:00-06:00Z", "mon-fri 08:00-18:00Z", "sat 00:00-24:00Z", "sun-sat 09:00-09:01Z", "fri-mon 23:59-00:01Z",
		"24:00-01:00Z", "8:00-18:00Z", "mon-fri  08:00-18:00Z", "08:00-18:00", "08:00-18:00ZZ"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		w, err := op.ParseWindow(s)
		if err != nil {
			requireRefusal(t, err, refusal.BadParams)
			return
		}
		require.Equal(t, w, must.Get(op.ParseWindow(w.String()))(t))
		sunday, minutes := time.Date(2000, 1, 2, 0, 0, 0, 0, time.UTC), 0
		for m := range 7 * 24 * 60 {
			if w.Contains(sunday.Add(time.Duration(m) * time.Minute)) {
				minutes++
			}
		}
		require.Positive(t, minutes, "a window that is never open")
		require.True(t, w.Meets(w))
	})
}

// FuzzArgs: text of a command line becomes parameters that can be sent and come back
// unchanged, or it is refused.
func FuzzArgs(f *testing.F) {
	for _, s := range []string{"memory=2GiB\ncpus=1", "labels.tier=prod\nlabels={\"a\":\"b\"}", "memory=1\nmemory=2", "labels={\"a\":1}",
		"protected=yes", "scratch=true", "memory=9007199254740993TiB", "=x", "labels.=x", "memory=-1MiB", "labels.a=1\nlabels.a=2"} {
		f.Add("guest.create", s)
	}
	f.Add("trust.rotate", "add=a\nadd=b\nremove=SHA256:x")
	f.Fuzz(func(t *testing.T, name, text string) {
		spec, err := op.Lookup(name)
		if err != nil {
			requireRefusal(t, err, refusal.UnknownOp)
			return
		}
		p, err := spec.ParseArgs(strings.Split(text, "\n"))
		if err != nil {
			require.Contains(t, []refusal.Code{refusal.BadParams, refusal.Malformed}, refusal.CodeOf(err), "%v", err)
			return
		}
		back := must.Get(op.ParseParams(p.Canonical()))(t, "what is typed cannot be sent")
		require.True(t, p.Equal(back))
		_ = spec.Check(op.Target{Kind: "guest", Name: "a"}, p) // Check refuses parameters that do not fit, and never panics
	})
}
