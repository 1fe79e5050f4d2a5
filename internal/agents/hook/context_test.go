package hook

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// gateLog is a daemon with an audit log for one holder.
type gateLog struct {
	entries []api.Entry
	asked   []int64 // after which entry
	fails   error
	wanted  map[string][]string // the requesters of jobs; the agent that asks if there are none; nil for a job that is gone
}

func (g *gateLog) add(kind, step, detail string, signers ...string) {
	g.entries = append(g.entries, api.Entry{Seq: int64(len(g.entries) + 1), Kind: kind, Step: step, Op: "guest.destroy",
		Target: "guest/db", Class: op.Destructive, Detail: detail, Signers: signers})
}

// hookOn returns what runs the hook once.
func hookOn(t *testing.T, g *gateLog, self string) func() string {
	return agentsOn(t, g, op.AgentName(self))(self)
}

// agentsOn returns what runs the hooks of agents that have one name, one after the other. Its argument is a registration.
func agentsOn(t *testing.T, g *gateLog, name string) func(self string) func() string {
	dir := t.TempDir()
	home := HomeOf(func(name string) string { return map[string]string{"XDG_RUNTIME_DIR": dir}[name] }, "gate")
	h := ContextHook{Guard: Guard{Hook: "context", OnFailure: Warn, Deadline: time.Minute, Now: time.Now, Home: home},
		Head: func(context.Context) (int64, error) { return int64(len(g.entries)), nil },
		Events: func(_ context.Context, who string, after int64, fn func(api.Entry) error) error {
			require.Equal(t, name, who)
			g.asked = append(g.asked, after)
			for _, e := range g.entries[after:] {
				if err := fn(e); err != nil {
					return err
				}
			}
			return nil
		}}
	return func(self string) func() string {
		h := h
		h.Self = func(context.Context) (string, error) { return self, g.fails }
		h.Requesters = func(_ context.Context, job string) ([]string, error) {
			if by, ok := g.wanted[job]; ok && by == nil {
				return nil, refusal.New(refusal.UnknownTarget, "there is no job %s", job)
			} else if ok {
				return by, nil
			}
			return []string{"agent:" + self}, nil
		}
		return func() string {
			o, said := h.Run(t.Context())
			require.Zero(t, o.Code)
			require.Empty(t, o.Stderr)
			said()
			return o.Stdout
		}
	}
}

var framedLine = regexp.MustCompile("^j[0-9]+\\.1( by| detail)?: \"[^<>`]*\"$")

// framed fails unless the words of others stand between the two lines, each field on its line.
func framed(t *testing.T, text string) {
	t.Helper()
	require.Equal(t, 1, strings.Count(text, untrustedOpens))
	require.Equal(t, 1, strings.Count(text, untrustedEnds))
	ours, rest, _ := strings.Cut(text, untrustedOpens+"\n")
	theirs, after, _ := strings.Cut(rest, untrustedEnds+"\n")
	require.Equal(t, wordsUntrusted, after)
	for line := range strings.Lines(theirs) {
		require.Regexp(t, framedLine, strings.TrimSuffix(line, "\n"))
	}
	require.Regexp(t, `^[a-z0-9:., -]*$`, strings.ToLower(strings.ReplaceAll(ours, "\n", "")))
}

// Each decision is said once, in gated's words, and who decided and why in the frame.
func TestAnAgentHearsWhatBecameOfItsRequests(t *testing.T) {
	g := &gateLog{}
	g.add("requested", "j1.1", "")
	run := hookOn(t, g, "builder#7")
	require.Empty(t, run(), "what was before the first look is old")
	require.Empty(t, run())
	require.Empty(t, g.asked, "without a new entry nothing is read")
	g.add("approved", "j1.1", "", "alice@example.com operational SHA256:x")
	g.add("succeeded", "j1.1", "destroyed guest/db")
	g.add("approved", "j2.1", "", "bob@example.com operational SHA256:y")
	g.add("rejected", "j3.1", "still in use")
	g.add("started", "", "")
	text := run()
	framed(t, text)
	ours, theirs, _ := strings.Cut(text, untrustedOpens)
	require.Equal(t, "gated: what became of your requests since you last looked:\n"+
		"j1.1 was approved, and is done.\nj2.1 was approved, and has not ended.\nj3.1 was rejected.\n", ours)
	require.Contains(t, theirs, `j1.1 by: "alice@example.com"`)
	require.Contains(t, theirs, `j3.1 detail: "still in use"`)
	require.Empty(t, run(), "it was said")
	g.add("failed", "j2.1", "no space")
	require.Contains(t, run(), "j2.1 failed.\n")
}

// A new agent with the name of an older one is told nothing that is older than itself, and nothing of the older one's
// requests that end later.
func TestANewAgentHearsNothingOfAnOlderOne(t *testing.T) {
	g := &gateLog{}
	g.add("requested", "j1.1", "")
	agents := agentsOn(t, g, "builder")
	older, newer := agents("builder#7"), agents("builder#8")
	require.Empty(t, older())
	g.add("rejected", "j1.1", "of the older one alone")
	require.Empty(t, newer())
	require.Empty(t, g.asked, "an agent that is new reads nothing")
	g.wanted = map[string][]string{"j2": {"agent:builder#7"}, "j3": {"agent:builder#7", "agent:builder#8"}, "j4": {"agent:builder#8"},
		"j5": {}, "j6": {"uid:1000"}, "j7": nil}
	for job := range g.wanted {
		g.add("rejected", job+".1", "no")
	}
	text := newer()
	require.NotContains(t, text, "j1.1")
	require.NotContains(t, text, "j2.1")
	for _, step := range []string{"j3.1", "j4.1", "j5.1", "j6.1", "j7.1"} {
		require.Contains(t, text, step+" was rejected.\n")
	}
	require.Empty(t, newer(), "it was said")
}

// A file of a version that kept no registration is as none. So is one that is damaged.
func TestWhatWasSeenIsUnclear(t *testing.T) {
	for _, content := range []string{"1", "builder#7", "builder#7 ", "builder#7 -1", "builder#7 x", "builder#70 1", " 1",
		strings.Repeat("x", 2*maxSeen)} {
		dir := t.TempDir()
		h := HomeOf(func(name string) string { return map[string]string{"XDG_RUNTIME_DIR": dir}[name] }, "gate")
		was, ok := h.seenBy("builder#7")
		require.False(t, ok)
		require.NoError(t, h.locked(func() error { return h.replace(was.file, []byte(content)) }))
		_, ok = h.seenBy("builder#7")
		require.False(t, ok, content)
		was.head = 9
		require.NoError(t, h.keepSeen(was))
		is, ok := h.seenBy("builder#7")
		require.True(t, ok)
		require.Equal(t, was, is)
	}
}

// What runs without an operator is no request.
func TestBenignStepsAreNoNews(t *testing.T) {
	g := &gateLog{}
	g.add("requested", "j1.1", "")
	run := hookOn(t, g, "builder#7")
	require.Empty(t, run())
	g.add("succeeded", "j1.1", "")
	g.entries[1].Class = op.Benign
	g.add("succeeded", "j1.1\nx", "")
	require.Empty(t, run())
}

// It is at most 2 KiB, whatever others wrote, and however much there is.
func TestTheContextIsBounded(t *testing.T) {
	for _, text := range append(hostile, strings.Repeat("\U000E0041", 500)) {
		for _, steps := range []int{1, 2, 7, 500} {
			g := &gateLog{}
			g.add("requested", "j1.1", "")
			run := hookOn(t, g, "builder#7")
			require.Empty(t, run())
			for i := range steps {
				g.add("rejected", fmt.Sprintf("j%d.1", i+1), text, text+" operational")
				e := &g.entries[len(g.entries)-1]
				e.Op, e.Target = text, text
			}
			said := run()
			framed(t, said)
			require.LessOrEqual(t, len(said), maxContext)
			require.Contains(t, said, fmt.Sprintf("j%d.1 was rejected.\n", steps), "the newest")
			all := strings.Count(said, " was rejected.\n") == steps
			require.NotEqual(t, all, strings.Contains(said, "There are more: gated jobs lists all.\n"))
		}
	}
}

// An agent that was away for long costs no more than that: only the newest entries are read.
func TestAnAgentThatIsFarBehind(t *testing.T) {
	g := &gateLog{}
	g.add("requested", "j1.1", "")
	run := hookOn(t, g, "builder#7")
	require.Empty(t, run())
	g.add("rejected", "j1.1", "old")
	for range maxBehind {
		g.add("started", "", "")
	}
	g.add("rejected", "j2.1", "new")
	text := run()
	require.Equal(t, []int64{3}, g.asked)
	require.Contains(t, text, "j2.1 was rejected.\nThere are more: gated jobs lists all.\n")
	require.NotContains(t, text, "j1.1")
}

// A log that is shorter is another gate's: what is said begins anew.
func TestAShorterLogIsAnother(t *testing.T) {
	g := &gateLog{}
	for range 9 {
		g.add("started", "", "")
	}
	run := hookOn(t, g, "builder#7")
	require.Empty(t, run())
	g.entries = g.entries[:3]
	require.Empty(t, run())
	g.add("rejected", "j1.1", "no")
	require.Contains(t, run(), "j1.1 was rejected.\n")
}

// A daemon that does not answer is no news. It is recorded, and nothing is forgotten.
func TestTheContextWithoutADaemon(t *testing.T) {
	for _, fails := range []error{errors.New("gone"), refusal.New(refusal.Unavailable, "busy")} {
		g := &gateLog{}
		g.add("started", "", "")
		run := hookOn(t, g, "uid:1000")
		require.Empty(t, run())
		g.add("rejected", "j1.1", "no")
		g.fails = fails
		require.Empty(t, run())
		g.fails = nil
		require.Contains(t, run(), "j1.1 was rejected.\n")
	}
}

// A gate that answers checks, and is too slow for the log, must not stop the checks of edits.
func TestContextOpensNoCircuit(t *testing.T) {
	e := newEdits(t, "src/a.go")
	h := ContextHook{Guard: Guard{Hook: "context", OnFailure: Warn, Deadline: time.Minute, Now: e.Now, Home: e.Home},
		Self: func(context.Context) (string, error) { return "", context.DeadlineExceeded }}
	for range 2 * tripAt {
		h.Run(t.Context())
	}
	require.Equal(t, KindTimeout, e.Home.Status(e.Now(), 1).Last[0].Kind, "the failures are recorded")
	require.True(t, AnswerOf(Claude{}, e.run(e.call("Edit", "file_path", "src/a.go"))).Denied)
	for range tripAt {
		_ = e.Failed(KindTimeout, context.DeadlineExceeded)
	}
	h.Self = func(context.Context) (string, error) { t.Error("it asked while the circuit is open"); return "", nil }
	h.Run(t.Context())
}
