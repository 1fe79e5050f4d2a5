package loss

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
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
			decode([]byte("\x00\x00\x00\x11\x8e\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00 \xd9\x00\x00\x00\x00\x00\x14\x00\x00\x00\x00\x06\x00\x00\x00\x00\x00\x80\x00W\f\x00u\x00\x00\x00\x13\x00\x00\x00\x00\t\x00\x00\x00\x00"))},
		{"an operator signs a restore that names the guest with which a disk is shared, and that guest is another one by now", "j5.1: guest.restore mail", newProxmoxBed("lxc"),
			decode([]byte("\x00\x81\x01\x11\x8e\xa7\x8cL$\x00\x00\x83\x02\x11\x8e\x10\xc3\x19\x00\xef\x00\x00\x00\x11\x8e\x80W\xb0\x04N\x00\x80\x02\xa4\xa8\x14\x00;\xab\xfd\x00\x02\x01\xa4\xa8\x00\x01\x00Z\xd8\x13\x00\x00\x00\x00\x01\x00\x00\x00\x00\x10\x00\x00\x00\x00\x00\x00\x00\x00\x00\x11\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x02\x00\x00\x00\xac\x89&\x00&\x00\x00\x83\n\xdc\x00\x00\x00\x00\x00\x01\x00\x83\x00\x00\x00\x00\x00\x00\x00\x14\x00\x83\x00\x00\x06\x00\x00\x00\x00\x00\x00\x83z\xbd\x00\x00\x00\x00\x00\x0f\x00\x00\x00\x00\x00\x00\x00\x00\x00"))},
		{"a hand within a later step exchanges the directory of a guest whose change was reported and not made", "and that one its own", newLocalBed,
			decode([]byte("\x00\x00\x00\x11\x8e\x00\x00\x00\x00\x00\x00\x00\x00\x11\x8e\x00\x00\x00\x00\x00\x05\x00\x00\x00\x00\x01\x01\x00\x06\x00\x00\x00\x00\x06M\x01;\x00\x00\x00\x00\x02\x00\x06M\x01\xd6\x00\x00\x00\x00\x80\x01\x82\x94\x00\x00\x00\x00\x00\x14\x00\x02\x00\x00q\x00\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x00\x00\x00"))},
		{"an administrator sets what is pending for the next start, and the step that gave that is not taken back", "by hand: memory of 500 is 2049", newProxmoxBed("qemu"),
			decode([]byte("\x00\x00\x81\x11\x8e\x00\x00\x00\x00\x00\x05\x00\x00\x00\x00\x00\x01\x00\x04\x00\x00\x02\x00\x06M\x01\x00\x00\x00\x00\x00\x80\x00W\f\x00\x00\x00\x00\x00\x13\x00\x01\x00\x00\x00\x00\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x00\x00\x00"))},
		// The clone keeps its base, and a signed destroy leaves the volume.
		{"an administrator makes a linked clone of a machine", "linked-2 is a linked clone of 500", newProxmoxBed("qemu"), linkedClone},
		{"an administrator makes a linked clone of a container", "linked-2 is a linked clone of 500", newProxmoxBed("lxc"), linkedClone},
		{"a hand comes while a wipe has overwritten a disk and not made it again", "by hand, at moment 3 of j2.1", newLibvirtBed,
			[]action{asks(builder, "guest.create"), does(writes), does(lurks, 0, 3), asks(builder, "guest.disk-wipe"), does(approves)}},
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

// linkedClone has an operator sign the destroy of a guest with a linked clone, and of what is left of it.
var linkedClone = []action{asks(builder, "guest.create", withScratch), does(writes), does(meddles, toLink), asks(builder, "guest.destroy"),
	does(approves), does(meddles, toLink), asks(tester, "guest.create"), asks(tester, "guest.destroy")}

// stepOn is a step of job 1 on a guest that nobody signed.
func stepOn(index int, name, verb string, params op.Params) ran {
	return ran{step: op.Step{ID: op.StepID{Job: 1, Index: index}, Op: "guest." + verb, Target: op.Target{Kind: "guest", Name: name}, Params: params}, from: "life"}
}

// TestWhatExcusesALie: a hand within a later step excuses a step that a back end only said it did if the hand may have undone it.
func TestWhatExcusesALie(t *testing.T) {
	memory, protect := op.Params{"memory": int64(64)}, op.Params{"protected": true}
	for name, c := range map[string]struct {
		lied ran
		hand deed
		want bool
	}{
		"another guest":                   {stepOn(1, "web", "snapshot", nil), deed{name: "db"}, false},
		"another field":                   {stepOn(1, "web", "set-config", protect), deed{name: "web", field: "memory"}, false},
		"a switch":                        {stepOn(1, "web", "snapshot", nil), deed{name: "web", field: "running"}, false},
		"a protection":                    {stepOn(1, "web", "set-config", memory), deed{name: "web", guards: true}, false},
		"an exchange of others":           {stepOn(1, "web", "snapshot", nil), deed{name: "db", also: "mail"}, false},
		"the same field":                  {stepOn(1, "web", "set-config", memory), deed{name: "web", field: "memory"}, true},
		"the same protection":             {stepOn(1, "web", "set-config", protect), deed{name: "web", guards: true}, true},
		"an exchange with it":             {stepOn(1, "web", "snapshot", nil), deed{name: "db", also: "web"}, true},
		"an exchange of it":               {stepOn(1, "web", "snapshot", nil), deed{name: "web", also: "db"}, true},
		"another guest of the name":       {stepOn(1, "web", "snapshot", nil), deed{name: "web", gave: "life"}, true},
		"a label, a snapshot or a backup": {stepOn(1, "web", "snapshot", nil), deed{name: "web"}, true},
	} {
		later := stepOn(2, "db", "start", nil)
		later.hands = []within{{deed: c.hand}}
		require.Equal(t, c.want, (&oracle{}).followed([]ran{later}, c.lied), name)
	}
	require.True(t, (&oracle{}).followed([]ran{stepOn(2, "web", "start", nil)}, stepOn(1, "web", "snapshot", nil)), "a later step")
}

func done(r ran) ran { r.done = true; return r }

// TestWhatEndsPrograms: what programs hold may go with a stop, and not with a limit below it that nobody signed, though the guest stops then.
func TestWhatEndsPrograms(t *testing.T) {
	below, above := op.Params{"memory": int64(64)}, op.Params{"memory": int64(256)}
	for name, c := range map[string]struct {
		steps []ran
		gone  bool // it may be
	}{
		"a stop":            {[]ran{stepOn(1, "web", "stop", nil)}, true},
		"a restart":         {[]ran{stepOn(1, "web", "restart", nil)}, true},
		"more, and a stop":  {[]ran{stepOn(1, "web", "set-config", above), stepOn(2, "web", "stop", nil)}, true},
		"less, and a stop":  {[]ran{stepOn(1, "web", "set-config", below), stepOn(2, "web", "stop", nil)}, false},
		"a stop, and less":  {[]ran{done(stepOn(1, "web", "stop", nil)), stepOn(2, "web", "set-config", below)}, true},
		"less, then a stop": {[]ran{stepOn(1, "web", "set-config", below), done(stepOn(2, "web", "stop", nil))}, false},
		"no stop, and less": {[]ran{stepOn(1, "web", "stop", nil), stepOn(2, "web", "set-config", below)}, false},
		"less":              {[]ran{stepOn(1, "web", "set-config", below)}, false},
		"a snapshot":        {[]ran{stepOn(1, "web", "snapshot", nil)}, false},
		"a stop of another": {[]ran{stepOn(1, "db", "stop", nil)}, false},
		"less, of another":  {[]ran{stepOn(1, "db", "set-config", below), stepOn(2, "web", "stop", nil)}, true},
		"nothing":           {nil, false},
	} {
		o := &oracle{signed: map[op.StepID]bool{}}
		why := o.unexcused(item{"life", inMemory, "m"}, where{name: "web", mib: 128}, nil, c.steps)
		require.Equal(t, c.gone, why == "", "%s: %s", name, why)
	}
	o := &oracle{signed: map[op.StepID]bool{{Job: 1, Index: 1}: true}}
	steps := []ran{stepOn(1, "web", "set-config", below), stepOn(2, "web", "stop", nil)}
	require.Empty(t, o.unexcused(item{"life", inMemory, "m"}, where{name: "web", mib: 128}, nil, steps), "a limit that was signed")
}

// TestWhatIsUnderWayMayClearTheWay: a step that was under way at a submission counts, though it ended before Submit came back.
func TestWhatIsUnderWayMayClearTheWay(t *testing.T) {
	waiting := op.Job{Requesters: []op.Requester{{}}, Steps: []op.Step{stepOn(1, "web", "destroy", nil).step}}
	waiting.Steps[0].State = op.StatePending
	for state, want := range map[op.State]bool{op.StateAuthorized: false, op.StateDispatched: false, op.StatePlanned: false, op.StateFailed: true} {
		for name, counts := range map[string]bool{"web": want, "db": true} {
			other := stepOn(1, name, "stop", nil).step
			other.ID.Job, other.State = 2, state
			o := &oracle{asked: map[op.StepID]int{}}
			o.waits(waiting, []op.Step{other}, 7)
			at, asked := o.asked[waiting.Steps[0].ID]
			require.Equal(t, counts, asked && at == 7, "%s of %s", state, name)
		}
	}
}
