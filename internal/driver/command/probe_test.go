package command_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver/command/catalogue"
	"gated/internal/driver/drivertest"
	"gated/internal/test/must"
)

// probing is an entry whose command copies its input to a file, and whose probe does what the file probe.sh says.
func (b *bench) probing(change func(*catalogue.Entry)) (says func(script string)) {
	b.t.Helper()
	b.script("takes", "#!/bin/sh\ncat > "+b.path("work", "took")+"\n")
	b.script("probe", "#!/bin/sh\n. "+b.path("probe.sh")+"\n")
	b.entry("takes", []string{b.path("takes")}, func(e *catalogue.Entry) {
		e.Probe, e.ProbeOK, e.Input, e.ProbeTimeout = []string{b.path("probe")}, []int{0}, true, 3*time.Second
		if change != nil {
			change(e)
		}
	})
	return func(script string) { require.NoError(b.t, os.WriteFile(b.path("probe.sh"), []byte(script), 0o644)) }
}

// If the probe fails, nothing is asked. If it fails after the signature, nothing runs.
func TestAProbeThatFails(t *testing.T) {
	b := newBench(t)
	says := b.probing(nil)
	for script, want := range map[string]string{
		"echo one thing goes; echo it is locked >&2; exit 1": "the probe of command/takes ended with exit status 1: it is locked",
		"exit 255":                            "ended with exit status 255: ",
		"kill -KILL $$":                       "was ended by killed",
		"echo goes; exit 2":                   "ended with exit status 2: goes",
		"head -c 60000 /dev/zero; exit 1":     `: \x00`,
		"printf 'a\\033[2Jb\\342\\n'; exit 1": `: a\x1b[2Jb\xe2`,
	} {
		says(script)
		_, err := b.Observe(t.Context(), asking("takes"))
		require.ErrorIs(t, err, refusal.Unavailable, script)
		require.Contains(t, err.Error(), want, script)
		require.Less(t, len(err.Error()), 1000, script)
	}
	must.Get(b.Observe(t.Context(), op.At(target("takes"))))(t) // a list runs no probe

	says("echo one thing goes")
	g := b.gate()
	r := g.Approved(drivertest.Hub, op.Ask{Op: op.Run, Target: target("takes"), Params: op.Params{}})
	says("echo one thing goes; exit 1")
	require.ErrorIs(t, g.Execute(r.ID), refusal.Unavailable)
	require.NoFileExists(t, b.path("work", "took"))
}

// If another process keeps the pipe of a probe, nobody knows whether what was read is all, so it is no look.
func TestAProbeWhoseOutputHasNoEnd(t *testing.T) {
	b := newBench(t)
	says := b.probing(nil)
	for _, name := range []string{"pid", "go"} {
		require.NoError(t, unix.Mkfifo(b.path("work", name), 0o600))
		b.give(b.path("work", name))
	}
	says("echo one thing goes; echo $$ > pid; read x < go")
	kept := make(chan *os.File, 1)
	go func() {
		pid, _ := os.ReadFile(b.path("work", "pid"))
		f, _ := os.OpenFile("/proc/"+strings.TrimSpace(string(pid))+"/fd/1", os.O_WRONLY, 0)
		kept <- f
		_ = os.WriteFile(b.path("work", "go"), []byte("on\n"), 0)
	}()
	_, err := b.Observe(t.Context(), asking("takes"))
	f := <-kept
	require.NotNil(t, f)
	defer f.Close()
	require.ErrorIs(t, err, refusal.Unavailable)
	require.Contains(t, err.Error(), "what the probe of command/takes prints has no end")
}

// Another exit status that counts is part of what was signed.
func TestAnotherStatusThatCounts(t *testing.T) {
	b := newBench(t)
	says := b.probing(func(e *catalogue.Entry) { e.ProbeOK = []int{0, 3} })
	says("echo one thing goes")
	g := b.gate()
	r := g.Approved(drivertest.Hub, op.Ask{Op: op.Run, Target: target("takes"), Params: op.Params{}})
	says("echo one thing goes; exit 3")
	require.Equal(t, "exit status 3", fact(b.look(asking("takes")), "probe ended with"))
	require.ErrorIs(t, g.Execute(r.ID), refusal.StaleTarget)
	require.NoFileExists(t, b.path("work", "took"))
}

// A command with input reads exactly what the probe printed, byte for byte and from its beginning. That is what the
// operator signed, because another output is stale.
func TestACommandReadsWhatWasSigned(t *testing.T) {
	printed := "goes a\n\x00\xffgoes b" + strings.Repeat("x", 60000)
	for kind, argv := range map[string][]string{
		"a script": nil, "a program": {"/bin/dd", "status=none", "of=took"},
	} {
		t.Run(kind, func(t *testing.T) {
			b := newBench(t)
			says := b.probing(func(e *catalogue.Entry) {
				if argv != nil {
					e.Argv = argv
				}
			})
			require.NoError(t, os.WriteFile(b.path("printed"), []byte(printed), 0o644))
			says("cat " + b.path("printed"))
			require.Equal(t, "on its standard input what the probe says", fact(b.look(asking("takes")), "reads"))
			g := b.gate()
			r := g.Approved(drivertest.Hub, op.Ask{Op: op.Run, Target: target("takes"), Params: op.Params{}})
			require.NoFileExists(t, b.path("work", "took"), "it waits")
			require.NoError(t, g.Execute(r.ID))
			require.Equal(t, printed, string(must.Get(os.ReadFile(b.path("work", "took")))(t)))

			g = b.gate()
			r = g.Approved(drivertest.Hub, op.Ask{Op: op.Run, Target: target("takes"), Params: op.Params{}})
			require.NoError(t, os.Remove(b.path("work", "took")))
			says("echo something else")
			require.ErrorIs(t, g.Execute(r.ID), refusal.StaleTarget)
			require.NoFileExists(t, b.path("work", "took"))
		})
	}
}

// No other process can change the input while the command reads it: the copy is sealed.
func TestTheInputIsSealed(t *testing.T) {
	b := newBench(t)
	b.script("takes", "#!/bin/sh\necho evil > /proc/self/fd/0 || true\ncat\n")
	b.script("probe", "#!/bin/sh\necho good\n")
	b.entry("takes", []string{b.path("takes")}, func(e *catalogue.Entry) { e.Probe, e.Input = []string{b.path("probe")}, true })
	did := must.Get(b.run(asking("takes")))(t)
	require.Contains(t, did.Output, "good\n")
	require.NotContains(t, did.Output, "evil\n")
}

// A look says that a run loses nothing only if the entry lets its probe say so, and the probe ended by itself, with 0,
// and printed all of its output.
func TestWhenALookIsHarmless(t *testing.T) {
	b := newBench(t)
	says := b.probing(func(e *catalogue.Entry) { e.BenignIf, e.ProbeOK = true, []int{0, 1} })
	says("echo nothing goes")
	require.True(t, b.look(asking("takes")).Harmless)
	require.False(t, b.look(op.At(target("takes"))).Harmless, "no probe ran")
	says("echo one thing goes; exit 1")
	require.False(t, b.look(asking("takes")).Harmless)
	for _, script := range []string{
		"exit 2", "exit 137", "kill -KILL $$", "kill -TERM $$", "head -c 70000 /dev/zero | tr '\\0' x", "nothing-of-that-name",
		"sleep 1000",
	} {
		says("echo nothing goes; " + script)
		o, err := b.Observe(t.Context(), asking("takes"))
		require.ErrorIs(t, err, refusal.Unavailable, script)
		require.False(t, o.Harmless, script)
	}
	for what, change := range map[string]func(*catalogue.Entry){
		"it is off": func(e *catalogue.Entry) { e.ProbeOK = []int{0} },
		"no probe":  func(e *catalogue.Entry) { e.BenignIf, e.Probe, e.ProbeOK, e.Input = true, nil, nil, false },
	} {
		b.probing(change)
		says("echo nothing goes")
		require.False(t, b.look(asking("takes")).Harmless, what)
	}
}
