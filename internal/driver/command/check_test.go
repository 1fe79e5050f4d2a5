package command_test

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/driver/command"
	"gated/internal/driver/command/catalogue"
	"gated/internal/test/must"
)

func TestCheck(t *testing.T) {
	b := newBench(t)
	states := func() map[string]driver.State {
		out := map[string]driver.State{}
		for _, f := range b.Check(t.Context()) {
			out[f.What] = f.State
			require.NotEmpty(t, f.Detail)
			require.Equal(t, f.State != driver.OK, f.Hint != "", "%v", f)
		}
		return out
	}
	b.entry("benign", []string{"/bin/true"}, func(e *catalogue.Entry) { e.Benign = true })
	b.entry("blind", []string{"/bin/true"}, nil)
	b.entry("seen", []string{"/bin/true"}, func(e *catalogue.Entry) { e.Probe = []string{"/bin/true"} })
	b.entry("missing", []string{b.path("missing")}, nil)
	b.entry("nobody-there", []string{"/bin/true"}, func(e *catalogue.Entry) { e.User = "no-such-user" })
	b.entry("nowhere", []string{"/bin/true"}, func(e *catalogue.Entry) { e.Dir = b.path("nowhere") })
	got := states()
	if b.own {
		require.Equal(t, driver.Note, got["isolation"])
		return
	}
	require.Equal(t, map[string]driver.State{"command/benign": driver.OK, "command/blind": driver.Note, "command/seen": driver.OK,
		"command/missing": driver.Bad, "command/nobody-there": driver.Bad, "command/nowhere": driver.Bad}, got)
	require.Len(t, must.Get(b.List(t.Context()))(t), 6, "one that cannot run hides none of the others")
}

// A command that would run as gated's own user is refused, unless single_user allows it.
func TestNeverAsGatedItself(t *testing.T) {
	b := newBench(t)
	for _, user := range []string{"", strconv.Itoa(os.Getuid())} {
		b.entry("own", []string{"/bin/true"}, func(e *catalogue.Entry) { e.User = user })
		strict := command.New(command.Config{Entries: b.entries})
		must.Fail(strict.Observe(t.Context(), op.At(target("own"))))(t, refusal.NotAllowed)
		require.Equal(t, driver.Bad, strict.Check(t.Context())[0].State)
		loose := command.New(command.Config{Entries: b.entries, SingleUser: true})
		o := must.Get(loose.Observe(t.Context(), asking("own")))(t)
		require.Contains(t, fact(o, "as"), "gated's own user")
		for _, f := range loose.Check(t.Context()) {
			require.Equal(t, driver.Note, f.State, f.What)
		}
	}
}

func TestNoTask(t *testing.T) {
	b := newBench(t)
	must.Fail(b.Task(t.Context(), "1"))(t, refusal.UnknownTarget)
	require.Equal(t, "command", b.Name())
	require.Equal(t, "command", b.Kind())
	require.Len(t, b.Check(t.Context()), map[bool]int{false: 1, true: 2}[b.own])
}
