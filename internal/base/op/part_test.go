package op_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
)

// TestALookForAStep: the look has all that a driver could need of the step.
func TestALookForAStep(t *testing.T) {
	params := op.Params{"reservation": "r12", "to": "tester"}
	s := op.Step{Op: op.ForceTransfer, Target: repo, Params: params}
	require.Equal(t, op.Look{Target: repo, Op: op.ForceTransfer, Params: params}, s.Look())
	require.Equal(t, op.Look{Target: repo}, op.At(repo))
}

// TestPartialStepsSayWhichPart: such a step must require the parameters that its
// digest depends on.
func TestPartialStepsSayWhichPart(t *testing.T) {
	partial := 0
	for _, s := range op.Catalogue() {
		if !s.Partial {
			require.NotEqual(t, op.ForceTransfer, s.Name)
			continue
		}
		partial++
		require.False(t, s.Creates, s.Name)
	}
	require.NotZero(t, partial)
}

func TestDisksByName(t *testing.T) {
	o := op.Observed{Disks: []op.Disk{{Name: "vda", Size: 1 << 30, ID: "a"}, {Name: "vdb", Size: 2 << 30, ID: "b"}}}
	d, ok := o.Disk("vdb")
	require.True(t, ok)
	require.Equal(t, o.Disks[1], d)
	_, ok = o.Disk("VDB")
	require.False(t, ok)
}
