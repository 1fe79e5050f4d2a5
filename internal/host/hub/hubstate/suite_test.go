package hubstate_test

import (
	"context"
	"sync"
	"testing"

	"gated/internal/base/refusal"
	"gated/internal/host/hub/hubstate"
	"gated/internal/host/hub/hubstate/statetest"
)

func TestMemory(t *testing.T) {
	statetest.Run(t, func(*testing.T) statetest.World {
		var known sync.Map
		return statetest.World{
			Store: hubstate.NewMemory(func(_ context.Context, host string) error {
				if _, ok := known.Load(host); !ok {
					return refusal.New(refusal.UnknownTarget, "no such host")
				}
				return nil
			}),
			Know: func(_ testing.TB, host string) { known.Store(host, true) },
		}
	})
}

func FuzzPlace(f *testing.F) {
	f.Add("1772366400000000.70766531.6a312e31")
	f.Add("-1..")
	f.Fuzz(func(t *testing.T, s string) {
		p, err := hubstate.ParsePlace(s)
		if err == nil && p.String() != s {
			t.Fatalf("%q is read as %+v", s, p)
		}
	})
}
