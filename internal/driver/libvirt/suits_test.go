package libvirt

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// TestParametersThatNoGuestMakesRight: no guest is needed to tell, so a step on one that its job makes is refused before that runs.
func TestParametersThatNoGuestMakesRight(t *testing.T) {
	for name, c := range map[string]struct {
		step op.Step
		want refusal.Code
	}{
		"a program":             {op.Step{Op: "guest.set-config", Params: op.Params{"command": "web"}}, refusal.BadParams},
		"a new guest's program": {op.Step{Op: "guest.create", Params: op.Params{"command": "web"}}, refusal.BadParams},
		"no program":            {op.Step{Op: "guest.set-config", Params: op.Params{"command": "", "memory": int64(64)}}, ""},
		"no name of a disk":     {op.Step{Op: "guest.disk-create", Params: op.Params{"disk": "sda"}}, refusal.BadParams},
		"a long name":           {op.Step{Op: "guest.disk-create", Params: op.Params{"disk": "vdaaa"}}, refusal.BadParams},
		"a name of a disk":      {op.Step{Op: "guest.disk-create", Params: op.Params{"disk": "vdzz"}}, ""},
		"a disk of other hands": {op.Step{Op: "guest.disk-delete", Params: op.Params{"disk": "sda"}}, ""},
		"nothing":               {op.Step{Op: "guest.start"}, ""},
	} {
		var o op.Observed
		require.Equal(t, c.want != "", o.Unfit(suits(c.step)), name)
		require.Equal(t, c.want, o.CannotCode, name)
	}
}
