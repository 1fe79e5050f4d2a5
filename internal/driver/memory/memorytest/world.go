// Package memorytest has the memory driver's World for the suite that every driver passes. It
// is only for tests.
package memorytest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/driver"
	"gated/internal/driver/drivertest"
	"gated/internal/driver/memory"
	"gated/internal/test/must"
)

// New returns a World without guests. The driver is also its own back end: after a restart
// there is the same one.
func New(t testing.TB) drivertest.World {
	d := memory.New(func() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) })
	list := func() []op.Observed {
		return must.Get(d.List(t.Context()))(t)
	}
	alter := func(fields op.Params) func(string) {
		return func(name string) { require.True(t, d.Alter(name, fields), "there is no %s", name) }
	}
	labels := map[string]any{"tier": "test"}
	none := "a guest in memory has nothing of the kind"
	silent := "its back end is its own memory, which always answers, and answers the truth"
	return drivertest.World{
		Driver:  d,
		Restart: func() driver.Driver { return d },
		Make:    func(name string) { d.Put(name, nil) },
		Remake:  func(name string) { d.Put(name, nil) },
		Change:  alter(op.Params{"labels": labels}),
		Fill:    func(name string) { d.Write(name) },
		Content: func(name string) string {
			for _, o := range list() {
				if o.Target.Name == name {
					return fmt.Sprint(o.Storage)
				}
			}
			return ""
		},
		Wishes:  []op.Params{{}, {"memory": int64(512), "cpus": int64(2), "labels": labels, "protected": true}},
		Changes: []op.Params{{"memory": int64(1)}, {"cpus": int64(7)}, {"labels": labels}, {"protected": true}, {"protected": false}},
		Abilities: drivertest.Abilities{
			Protect:   alter(op.Params{"protected": true}),
			SetMemory: func(name string, mib int64) { alter(op.Params{"memory": mib})(name) },
			Runs:      true,
			NewIDs:    true,
			Objects: func() (ids []op.StorageID) {
				for _, o := range list() {
					ids = append(ids, o.Storage...)
				}
				return slices.Clip(ids)
			},
			Lacks: map[string]string{"Volatile": none, "NewDisk": none, "MoveDisk": none, "Share": none, "Leftover": none, "Sizes": none,
				"Hang": silent, "Lie": silent, "LoseAnswer": silent, "Twice": silent},
		},
	}
}
