package loss

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheJudgeIsCalm plays sequences that lose nothing, and in which the judge once
// said that they do.
func TestTheJudgeIsCalm(t *testing.T) {
	for _, c := range []struct {
		name, says string // what the sequence shows, if it still gets there
		make       func(testing.TB) bed
		seq        []action
	}{
		// The clock is set, the machine boots, and to the gate the operator read for hours.
		{"a clock that jumps across a reboot ends a showing", "as it was shown: superseded", newProxmoxBed("qemu"),
			decode([]byte("\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\a\x00\x00\x00\x00l\x00\x00\x00\x00\x00\x00\x00\xd39\x00\x00\x00\x00\x00" +
				"\x10\x00\x00\x00\x00\x00\x00\x00\x00\x00\n\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00W\f\x00\x81\x00\x00\x00\x11\x00\x00\x00\x00\x00\x00\x00\x00\x00"))},
		{"a set makes its guest again in the round in which it was destroyed", "j5.1: guest.create web map[state:stopped] by desired:site: succeeded",
			func(testing.TB) bed { return newMemoryBed() },
			[]action{does(wishes), asks(builder, "guest.destroy"), does(approves), does(writes), asks(builder, "guest.destroy"),
				does(injects, uint8(killed), 1), does(approves), does(passes, 2)}},
		{"a guest is made while an operator reads the request to make it", "as it was shown: superseded", newLocalBed,
			[]action{asks(builder, "guest.create"), asks(builder, "guest.destroy"), does(wishes), does(approves), does(passes, 7), does(sweeps),
				does(ticks), does(shows), asks(builder, "guest.create"), does(signsLate)}},
		{"a guest that had another one's disk is gone", "is another guest of the name", newProxmoxBed("lxc"),
			decode([]byte("\x00\x00\x00\x11\x8e\x00\x00\x00\x00\x00\x00\x01\x83\x11\x8e\x02\x00\x00\x00\x00\x01\x00\x83\x00\x00\x00\x00\x00\x00\x00" +
				"\x13\x00\x83\x00\x00\x01\x00\x00\x00\x00\x13\x00\x00\x00\x00\x06\x00\x00\x00\x00\x00\x01\x00\xd39\x00\x00\x00\x00\x00"))},
		{"a create that failed made nothing of the guest that the next one made", "j7.1: guest.destroy mail", newProxmoxBed("lxc"),
			decode([]byte("\x00\x00\x00\x11\x8e\x00\x00\x00\x00\x00\x00\x00\x00\x11\x8e\x00\x00\x00\x00\x00\x05\x00\x00\x00\x00\x96\x00e\x0f\x00\x00\x00\x00\xd39\x00\x00\x00\x00\x00\x00\x00\x01\x11\x8e\x00\x00\x00\x00\x00\x00\x01\x83\x11\x8e\x02\x00\x00\x00\x00\x0f\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x06M\x00\x00\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x83\x00\x00\x00\x00\x00\x00\x00\x00\x01\x83\xd39\x00\x00\x00\x00\x00"))},
		{"a hand gives another guest the number, and deletes a backup under it", "by hand: the backup local:backup/vzdump-lxc-500-", newProxmoxBed("lxc"),
			decode([]byte("\x00\x00\x00\x11\x8e\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00 \xd9\x00\x00\x00\x00\x00\x14\x00\x00\x00\x00 \x00\x00\x00\x00\x00\x80\x00W\f\x00u\x00\x00\x00\x13\x00\x00\x00\x00~\x00\x00\x00\x00"))},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := try(t, c.make(t), c.seq)
			if err != nil {
				t.Fatal(found{c.seq, p, err})
			}
			require.Contains(t, fmt.Sprint(found{c.seq, p, nil}), c.says)
		})
	}
}
