package ownlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/log/audit"
)

// noon is the time of the entries.
var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// hostile are words that try to look like another field or another line.
var hostile = []string{
	"x\njob=j9 msg=approved", "x\ntime=2026-01-01T00:00:00Z level=INFO msg=approved", `x" job=j9 approved="yes`, "a=b", "\x1b[2Kapproved",
	"GATED_JOB=j9\nPRIORITY=0\nMESSAGE=approved", "\u202eapproved", "\x00\x01", "\xff\xfe", `{"job":"j9"}`, "\r\napproved", strings.Repeat("é", 4096),
	`"quoted"`, "x\n\x05\x00\x00\x00\x00\x00\x00\x00abc",
}

// logged returns what a log of that form writes about entries.
func logged(t *testing.T, f Format, entries ...audit.Entry) string {
	t.Helper()
	var b bytes.Buffer
	l := New(&b, "")
	require.NoError(t, l.Configure(f, slog.LevelInfo))
	for _, e := range entries {
		Decision(l.Logger(), e)
	}
	l.Close(t.Context())
	return b.String()
}

// refused is an entry with hostile words wherever an entry could have some.
func refused(words string) audit.Entry {
	return audit.Entry{Seq: 7, Time: noon, Kind: audit.Refused, Job: "j1", Step: "j1.1", Op: "guest.destroy", Target: words, By: words,
		Class: op.Destructive, Code: refusal.StaleTarget, Reason: words, Detail: words, Rule: words, Signers: []string{words}}
}

// textFields reads a line as slog's text handler writes it. It fails if anything stands outside of name=value.
func textFields(t *testing.T, line string) map[string]string {
	t.Helper()
	field := regexp.MustCompile(`^ ?([a-z_]+)=("(?:[^"\\]|\\.)*"|[^ "=]*)`)
	out := map[string]string{}
	for line != "" {
		m := field.FindStringSubmatch(line)
		require.NotNil(t, m, "%q", line)
		require.NotContains(t, out, m[1], "a field twice")
		out[m[1]] = m[2]
		if strings.HasPrefix(m[2], `"`) {
			v, err := strconv.Unquote(m[2])
			require.NoError(t, err)
			out[m[1]] = v
		}
		line = line[len(m[0]):]
	}
	return out
}

func TestWordsCannotForgeAFieldOrALineOfText(t *testing.T) {
	for _, words := range hostile {
		text := logged(t, Text, refused(words))
		require.Equal(t, 1, strings.Count(text, "\n"), "%q", text)
		f := textFields(t, strings.TrimSuffix(text, "\n"))
		require.Equal(t, []string{"j1", "j1.1", "j1.1", "refused", "stale_target", "the gate refused"},
			[]string{f["job"], f["step"], f["request"], f["kind"], f["code"], f["msg"]})
		require.Equal(t, op.Shown(cut(words, maxWords)), f["reason"])
		for _, b := range []byte(text[:len(text)-1]) {
			require.GreaterOrEqual(t, b, byte(' '), "a control character in %q", text)
		}
	}
}

func TestWordsCannotForgeAFieldOfJSON(t *testing.T) {
	for _, words := range hostile {
		text := logged(t, JSON, refused(words))
		require.Equal(t, 1, strings.Count(text, "\n"))
		var f map[string]any
		require.NoError(t, json.Unmarshal([]byte(text), &f)) // refuses doubled members
		require.Equal(t, "j1", f["job"])
		require.Equal(t, "the gate refused", f["msg"])
		require.Equal(t, op.Shown(cut(words, maxWords)), f["reason"])
	}
}

// The limit of one attribute, below, at and above.
func TestWordsAreCut(t *testing.T) {
	for _, n := range []int{maxWords - 1, maxWords} {
		require.Equal(t, strings.Repeat("x", n), textFields(t, strings.TrimSpace(logged(t, Text, refused(strings.Repeat("x", n)))))["reason"])
	}
	require.Equal(t, strings.Repeat("x", maxWords)+"…", textFields(t, strings.TrimSpace(logged(t, Text, refused(strings.Repeat("x", maxWords+1)))))["reason"])
	require.Equal(t, "é…", cut("éé", 3), "no half character")
	require.Len(t, cut(strings.Repeat("x", maxText+1), maxText), maxText+len("…"))
}

// TestEveryKindIsADecisionOrNot fails for a new kind of entry until says has it, or this test says why not.
func TestEveryKindIsADecisionOrNot(t *testing.T) {
	coordination := []audit.Kind{audit.AgentRegistered, audit.AgentEnded, audit.Reserved, audit.Renewed, audit.Released, audit.Transferred,
		audit.Lapsed, audit.Orphaned, audit.Lapsing} // many, and they decide about no guest
	source, err := os.ReadFile("../../log/audit/audit.go")
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^\t[A-Z]\w+ +(?:Kind )?= "([a-z-]+)"`).FindAllSubmatch(source, -1)
	require.Len(t, found, len(says)+len(coordination))
	for _, m := range found {
		k := audit.Kind(m[1])
		_, is := says[k]
		none := logged(t, Text, audit.Entry{Seq: 1, Time: noon, Kind: k}) == ""
		require.Equal(t, is, !none, k)
	}
}

func TestTheLineOfADecision(t *testing.T) {
	require.Equal(t, `time=2026-03-04T12:00:00.000Z level=INFO msg="a request waits for a signature" kind=requested entry=9 job=j2 step=j2.1 `+
		`request=j2.1 op=guest.destroy target=guest/db requester=uid:1000 class=destructive reason="not needed"`+"\n",
		logged(t, Text, audit.Entry{Seq: 9, Time: noon, Kind: audit.Requested, Job: "j2", Step: "j2.1", Op: "guest.destroy", Target: "guest/db",
			By: "uid:1000", Class: op.Destructive, Reason: "not needed"}))
	require.NotContains(t, logged(t, Text, audit.Entry{Kind: audit.Dispatched, Step: "j1.1", Class: op.Benign, By: "gate"}), "request=")
	require.Contains(t, logged(t, Text, audit.Entry{Kind: audit.Refused, Count: 12}), "count=12")
}

// stuck is a writer that waits until it is let go.
type stuck struct {
	entered chan struct{}
	let     chan struct{}
	once    sync.Once
	mu      sync.Mutex
	b       bytes.Buffer
}

func (s *stuck) Write(p []byte) (int, error) {
	s.once.Do(func() { close(s.entered) })
	<-s.let
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

// A reader of the log that takes nothing stalls no caller. When it goes on, the log says how many lines are missing.
func TestAStuckReaderStallsNobody(t *testing.T) {
	w := &stuck{entered: make(chan struct{}), let: make(chan struct{})}
	l := New(w, "")
	log := l.Logger()
	log.Info("line", "n", 0)
	<-w.entered // the writer has that line and waits
	const lines = 3 * maxQueue
	for i := 1; i <= lines; i++ {
		log.Info("line", "n", i) // returns at once, or the test does not end
	}
	require.EqualValues(t, lines-maxQueue, l.Lost())
	closed, cancel := context.WithCancel(t.Context())
	cancel()
	l.Close(closed) // gives up: the queue is full
	close(w.let)
	l.Close(t.Context())
	text := w.b.String()
	require.Equal(t, 1+maxQueue, strings.Count(text, "msg=line"))
	require.Contains(t, text, fmt.Sprintf("lost=%d\n", lines-maxQueue))
	require.Equal(t, 1, strings.Count(text, "lost="))
	require.Less(t, strings.Index(text, "lost="), strings.Index(text, "n=2\n"), "it says so with the next line")
}

// failing is a writer without room.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("no room") }

func TestAWriterThatFailsIsCounted(t *testing.T) {
	l := New(failing{}, "")
	l.Logger().Info("a")
	l.Logger().Info("b")
	l.Close(t.Context())
	require.EqualValues(t, 2, l.Lost())
}

func TestLevelsAndForms(t *testing.T) {
	var b bytes.Buffer
	l := New(&b, "")
	require.NoError(t, l.Configure(Auto, slog.LevelWarn))
	log := l.Logger().With("part", "x").WithGroup("g")
	log.Info("quiet")
	log.Warn("loud", "error", errors.New("x y"), "list", []int{1, 2}, slog.Group("in", "k", "v"))
	l.Close(t.Context())
	require.Regexp(t, `^time=\S+ level=WARN msg=loud part=x g.error="x y" g.list="\[1 2\]" g.in.k=v\n$`, b.String())
}

// What is logged is what was there at the call, also if it changes before it is written.
func TestValuesAreOfTheCall(t *testing.T) {
	w := &stuck{entered: make(chan struct{}), let: make(chan struct{})}
	l := New(w, "")
	l.Logger().Info("first")
	<-w.entered
	changing := []int{1}
	l.Logger().Info("second", "v", changing)
	changing[0] = 2
	close(w.let)
	l.Close(t.Context())
	require.Contains(t, w.b.String(), "v=[1]")
}

func TestAJournalThatIsNotThere(t *testing.T) {
	var b bytes.Buffer
	l := New(&b, "")
	l.journal = func() (slog.Handler, error) { return nil, errors.New("no socket") }
	require.EqualError(t, l.Configure(Journal, slog.LevelInfo), "systemd's journal: no socket")
	l.Logger().Info("goes on")
	l.Close(t.Context())
	require.Contains(t, b.String(), `msg="goes on"`)
}

// Only a file that is the one of JOURNAL_STREAM counts: a daemon whose standard error was sent elsewhere inherits the variable.
func TestWhoseJournal(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	stream := streamOf(t, w)
	require.True(t, ofJournal(w, stream))
	other, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer other.Close()
	require.False(t, ofJournal(other, stream))
	require.False(t, ofJournal(io.Discard, stream))
	for _, s := range []string{"", "1:2", stream + "0", "0" + stream, " " + stream, strings.Split(stream, ":")[1]} {
		require.False(t, ofJournal(w, s), s)
	}
}
