package driver

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

func TestFits(t *testing.T) {
	web := op.Target{Kind: "guest", Name: "web"}
	there, free := op.Observed{Target: web, Present: true, Incarnation: "a"}, op.Observed{Target: web}
	missing := there
	missing.Missing = "web has no disk vdb"
	for what, c := range map[string]struct {
		name string
		inc  op.Incarnation
		now  op.Observed
		auth bool
		want error
	}{
		"a free name":                {name: "guest.create", now: free},
		"a name that is taken":       {name: "guest.create", now: there, want: refusal.Conflict},
		"the one that was meant":     {name: "guest.stop", inc: "a", now: there},
		"whatever has the name":      {name: "guest.stop", now: there},
		"another one":                {name: "guest.stop", inc: "b", now: there, want: refusal.StaleTarget},
		"one that is gone":           {name: "guest.stop", inc: "a", now: free, want: refusal.StaleTarget},
		"none":                       {name: "guest.stop", now: free, want: refusal.UnknownTarget},
		"a part that is not there":   {name: "guest.disk-delete", inc: "a", now: missing, want: refusal.UnknownTarget},
		"a part that went meanwhile": {name: "guest.disk-delete", inc: "a", now: missing, auth: true, want: refusal.StaleTarget},
	} {
		step := op.Step{Op: c.name, Target: web, Incarnation: c.inc, State: op.StatePlanned}
		if c.auth {
			step.State = op.StateAuthorized
		}
		if err := Fits(step, c.now); c.want == nil {
			require.NoError(t, err, what)
		} else {
			require.ErrorIs(t, err, c.want, what)
			if c.want == refusal.Conflict {
				require.Equal(t, op.HintExists, refusal.As(err).Hint, "the target is as the caller saw it")
			}
		}
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 1 << 20: "1.0 MiB",
		1 << 40: "1.0 TiB", 1<<63 - 1: "8.0 EiB"} {
		require.Equal(t, want, Size(n))
	}
}
