package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/people/sign"
	"gated/internal/test/mint"
	"gated/internal/test/must"
	"gated/internal/wire/cli"
)

// reviewOf is a review of one request that a gate has these bytes for.
func reviewOf(t *testing.T, bytes []byte, it *item) *review {
	r := api.Request{ID: "j1.1", State: op.StatePending}
	if _, err := op.DecodePayload(bytes); err == nil {
		r = requestOf(t, bytes)
	}
	s, _ := onScreen(t, 24, 80)
	t.Cleanup(s.close)
	return reviewAt(t, gateWith(t, bytes, r), s, it)
}

// reviewAt is a review of one request of a tool's gate on a screen.
func reviewAt(t *testing.T, tl *tool, s *screen, it *item) *review {
	tl.Stdout, tl.Stderr = io.Discard, io.Discard
	cl := must.Get(tl.Client())(t)
	t.Cleanup(cl.Close)
	return &review{approval: approval{asker: &asker{tool: tl, keys: ringOf(tl, unused{t: t})}, client: cl}, screen: s, items: []*item{it}}
}

// ringOf has one key, which signs as operational.
func ringOf(tl *tool, s sign.Signer) *keyring {
	k := keyFlags{role: "operational"}
	return &keyring{tool: tl, flags: k, chosen: map[op.Role]sign.Signer{op.Operational: s}, own: s}
}

// unused is a key that nothing may be signed with.
type unused struct {
	sign.Signer
	t *testing.T
}

func (u unused) Sign(context.Context, op.Role, []byte) (string, error) {
	u.t.Error("something was signed")
	return "", io.ErrUnexpectedEOF
}

// What cannot be shown any more is passed over, not asked for again and again.
func TestReviewPassesOverWhatCannotBeShown(t *testing.T) {
	it := &item{id: "j1.1", shown: question{bytes: []byte("seen before")}, marked: true}
	r := reviewOf(t, []byte("{}"), it)
	require.NoError(t, r.walk(context.Background()))
	require.Equal(t, api.ExitRefused, api.Exit(r.summary(nil)))
	require.Contains(t, it.outcome, "malformed: ")
	require.Equal(t, skipped, it.decision)
}

// A reissued payload is shown again and loses its mark; the one that was read is
// never signed in its place.
func TestReviewNeverSignsWhatChanged(t *testing.T) {
	shown := questionOf(t, payload(t, func(*op.Payload) {}))
	it := &item{id: "j1.1", shown: shown, read: true, marked: true}
	r := reviewOf(t, payload(t, func(p *op.Payload) { p.Reason = "another" }), it)
	require.NoError(t, r.approve(context.Background(), it))
	require.Regexp(t, `^j1.1 changed while you looked, and nothing was signed: this is how it is now
  was reason  -
  now reason  another
  was nonce   .*
  now nonce   .*
$`, r.message)
	require.False(t, it.read || it.marked)

	it.shown, it.marked, r.message = shown, true, ""
	require.NoError(t, r.signAll(context.Background(), []*item{it}))
	require.Contains(t, it.outcome, "stale_target: j1.1 changed after it was shown")
	require.Contains(t, r.message, "hint: ")
}

func TestWorstExitCode(t *testing.T) {
	for _, c := range []struct {
		exits []int
		want  int
	}{{nil, 0}, {[]int{0, 3, 0}, 3}, {[]int{3, 1}, 1}, {[]int{1, 2, 3}, 2}, {[]int{5, 1}, 5}, {[]int{4, 5}, 4}} {
		r := &review{approval: approval{asker: &asker{tool: &tool{Tool: cli.Tool{Stdout: io.Discard}}}}}
		for _, e := range c.exits {
			r.items = append(r.items, &item{exit: e})
		}
		require.Equal(t, c.want, api.Exit(r.summary(nil)), c.exits)
	}
	r := &review{approval: approval{asker: &asker{tool: &tool{Tool: cli.Tool{Stdout: io.Discard}}}}}
	require.ErrorIs(t, r.summary(io.ErrClosedPipe), io.ErrClosedPipe)
}

// Requests for one command differ in what is asked of it, and the summary says so.
func TestReviewNamesWhatIsAskedOfACommand(t *testing.T) {
	it := &item{id: "j2.1", shown: question{request: api.Request{Op: op.Run, Target: "command/drop-db", Params: op.Params{"database": "shop"}}}}
	require.Equal(t, `j2.1 command/drop-db {"database":"shop"}`, it.name())
	it.shown.request.Op = "guest.destroy"
	require.Equal(t, "j2.1", it.name())
}

// What cannot be undone is signed once the operator typed the name of its target, and
// not with another name or none.
func TestReviewAsksForTheName(t *testing.T) {
	b := payload(t, func(*op.Payload) {})
	it := &item{id: "j1.1", shown: questionOf(t, b), read: true}
	for typing, want := range map[string]bool{"web-1\n": true, " web-1 \n": true, "web-2\n": false, "\n": false, "yes\n": false,
		"guest/web-1\n": false} {
		s, person := onScreen(t, 24, 80)
		r := reviewAt(t, gateWith(t, b, requestOf(t, b)), s, it)
		typed(t, person, "web-1\n") // before the question
		answered := answersName(t, person, typing)
		ok := must.Get(r.named(t.Context(), it))(t)
		<-answered
		require.Equal(t, want, ok, "%q", typing)
		require.Equal(t, want, r.message == "", r.message)
		s.close()
	}
	wipe := &item{id: "j2.1", shown: asked(t, "guest.wipe", op.Params{}, op.Fact{Name: "wipe", Text: "can be undone by hand until 2026-01-06T03:04:05Z: copy it"})}
	s, person := onScreen(t, 24, 80)
	defer s.close()
	r := reviewAt(t, gateWith(t, b, requestOf(t, b)), s, it)
	answered := answersName(t, person, "\n")
	require.False(t, must.Get(r.named(t.Context(), wipe))(t), "what people alone can bring back is not signed by one key")
	<-answered
	it.shown.request.Facts = []op.Fact{{Name: "destroy", Text: "can be undone until 2026-01-06T03:04:05Z"}}
	r.message = ""
	require.True(t, must.Get(r.named(t.Context(), it))(t), "nothing is asked")
	typed(t, person, "ck\n")
	_, _, err := r.pressApprove(t.Context(), it)
	require.NoError(t, err)
	require.Equal(t, "not signed: "+wordsPasted, r.message, "an a of a pasted word signs nothing")
	require.Equal(t, undecided, it.decision)
}

// answersName types a line once the question for a name shows.
func answersName(t *testing.T, person *os.File, line string) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		shownOn(t, person, "to sign it (an empty line: do not): ")
		typed(t, person, line)
	}()
	return done
}

// A key that cannot sign is told before the operator types a name in vain.
func TestReviewLooksForTheKeyFirst(t *testing.T) {
	s, person := onScreen(t, 24, 80)
	defer s.close()
	typed(t, person, "\n")
	r := reviewOn(s)
	r.keys = &keyring{tool: r.tool, flags: keyFlags{key: filepath.Join(t.TempDir(), "none")}, chosen: map[op.Role]sign.Signer{}}
	it := &item{id: "j1.1", shown: questionOf(t, payload(t, func(*op.Payload) {})), read: true}
	require.False(t, must.Get(r.named(t.Context(), it))(t))
	require.Contains(t, r.message, "none")
	require.NotContains(t, r.message, "was not typed")
}

// TestReviewAsksForNothingWithAKeyThatIsNotListed: neither a name nor a reason is asked for, because the gate would take neither. The
// holder of a key that a rotation adds is not listed either, and may sign all the same.
func TestReviewAsksForNothingWithAKeyThatIsNotListed(t *testing.T) {
	b := payload(t, func(*op.Payload) {})
	it := &item{id: "j1.1", shown: questionOf(t, b), read: true}
	const operational = `namespaces="operational@gated"`
	alice, key := mint.Ed25519(t, "alice"), must.Get(sign.KeyFile(keyIn(t), nil))(t)
	for _, trust := range []api.Trust{{Text: mint.Ed25519(t, "bob").Line("bob@example.com", operational)},
		{Text: alice.Line("alice@example.com", operational), Revoked: []string{alice.Fingerprint()}}} {
		answers := answersOf(b, it.shown.request)
		list := must.Get(api.Encode(trust))(t)
		answers.HandleFunc("/v1/trust", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(list) })
		s, _ := onScreen(t, 24, 80)
		r := reviewAt(t, gateOf(t, answers), s, it)
		r.keys = ringOf(r.tool, holding{key, func() { t.Error("it signed") }})
		for name, decides := range map[string]func() error{
			"approve": func() error { ok, err := r.named(t.Context(), it); require.False(t, ok); return err },
			"reject":  func() error { return r.reject(t.Context(), it) },
		} {
			r.message = ""
			require.NoError(t, decides(), name)
			require.Regexp(t, "^j1.1: (unknown_signer|signer_revoked): ", r.message, name)
			require.Equal(t, undecided, it.decision, name)
		}
		owed := it.shown.request
		owed.Owed = []string{key.Fingerprint() + " operational"}
		require.Equal(t, op.Operational, must.Get(r.mayAs(t.Context(), owed))(t), "its holder proves it before it is listed")
		s.close()
	}
}

// The details are shown from their first line on, and turned away again; ? comes back to
// the part that was shown.
func TestReviewTurnsDetails(t *testing.T) {
	b := payload(t, func(*op.Payload) {})
	s, person := onScreen(t, 12, 80)
	defer s.close()
	r := reviewOn(s)
	it := &item{id: "j1.1", shown: questionOf(t, b)}
	r.items = []*item{it}
	pages := r.pager(r.heading(it), r.textOf(it), r.keysOf(it))
	pages.draw("")
	require.True(t, pages.seen)
	r.turnDetails(it, pages)
	typed(t, person, "x")
	must.Get(pages.key(&r.message))(t)
	shown := shownOn(t, person, "more: space")
	require.Contains(t, shown, "  d: 6 more facts\r\n")
	require.Contains(t, shown, "what the signature binds:\r\n    op  ")
	top := pages.top
	require.Positive(t, top)
	helped := make(chan error, 1)
	go func() { helped <- r.help() }()
	require.Contains(t, shownOn(t, person, "any letter: back"), "Each screen is one request")
	typed(t, person, "x")
	require.NoError(t, <-helped)
	pages.again(0)
	require.Equal(t, top, pages.top)
	r.turnDetails(it, pages)
	require.Zero(t, pages.top)
}

// The help of review says which lines of what it shows, and that space shows more, on a screen that is too small for it.
func TestTheHelpOfReviewGoesOn(t *testing.T) {
	s, person := onScreen(t, 24, 40)
	defer s.close()
	r := reviewOn(s)
	done := make(chan error, 1)
	go func() { done <- r.help() }()
	require.Regexp(t, `\r\nkeys, lines 1 to [0-9]+ of [0-9]+\r\nmore: space   any letter: back$`, shownOn(t, person, "letter: back"))
	typed(t, person, " ")
	require.Regexp(t, `\r\nkeys, lines [0-9]+ to ([0-9]+) of [0-9]+\r\nany letter: back$`, shownOn(t, person, "letter: back"))
	typed(t, person, "x")
	require.NoError(t, <-done)
}

// TestNoMessageTakesThePlaceOfAnUnreadOne: whatever a review says, what no screen has shown yet stays above it, and the same said twice
// stands there once.
func TestNoMessageTakesThePlaceOfAnUnreadOne(t *testing.T) {
	const before = "j9.1: destroyed guest/web-9\n"
	same := payload(t, func(*op.Payload) {})
	shown, other := questionOf(t, same), payload(t, func(p *op.Payload) { p.Reason = "another" })
	press := func(key int) func(*review, *item) {
		return func(r *review, it *item) { _, _, err := r.press(t.Context(), it, key); require.NoError(t, err) }
	}
	for name, c := range map[string]struct {
		says   string
		typing string
		do     func(*review, *item)
	}{
		"a key that means nothing": {wordsUnknownKey, "", press('x')},
		"not read yet":             {wordsReadFirst, "", func(r *review, it *item) { it.read = false; press('a')(r, it) }},
		"marked, not read yet":     {wordsReadFirst, "", func(r *review, it *item) { it.read = false; press('m')(r, it) }},
		"authorized already":       {"it is authorized already", "", func(r *review, it *item) { it.shown.request.State = op.StateAuthorized; press('m')(r, it) }},
		"none before it":           {"there is none before it\n", "", press('b')},
		"another name":             {"the name was not typed\n", "no\n", press('a')},
		"no reason":                {"not rejected\n", "\n", press('r')},
		"approved, and changed":    {"j1.1 changed while you looked", "", func(r *review, it *item) { require.NoError(t, r.approve(t.Context(), it)) }},
		"rejected, and changed":    {"j1.1 changed while you looked", "because\n", press('r')},
		"marked, and changed": {"j1.1 changed while you looked", "", func(r *review, it *item) {
			it.marked = true
			_, err := r.batch(t.Context())
			require.NoError(t, err)
		}},
		"a refusal": {"j1.1: ", "", func(r *review, it *item) { require.NoError(t, r.failed(it, io.ErrClosedPipe)) }},
	} {
		it := &item{id: "j1.1", shown: shown, read: true}
		r := reviewOf(t, other, it)
		var person *os.File
		r.screen, person = onScreen(t, 24, 80)
		r.message = before
		done := make(chan struct{})
		go func() { defer close(done); c.do(r, it) }()
		if c.typing != "" {
			shownOn(t, person, "(an empty line: do not)")
			typed(t, person, c.typing)
		}
		<-done
		said, ok := strings.CutPrefix(r.message, before)
		require.True(t, ok, "%s: %s", name, r.message)
		require.Contains(t, said, c.says, name)
		r.tell("%s", said)
		require.Equal(t, before+said, r.message, name)
		r.screen.close()
	}
}

// TestAPastedWordRejectsNothing: what comes right after the key is dropped, and nothing is asked.
func TestAPastedWordRejectsNothing(t *testing.T) {
	s, person := onScreen(t, 24, 80)
	defer s.close()
	it := &item{id: "j1.1", shown: asked(t, "guest.wipe", op.Params{})}
	r := reviewAt(t, gateWith(t, it.shown.bytes, it.shown.request), s, it)
	typed(t, person, "ong\n")
	require.NoError(t, r.reject(t.Context(), it))
	require.Equal(t, "not rejected: "+wordsPasted, r.message)
	require.Equal(t, undecided, it.decision)

	r.message = ""
	done := make(chan error, 1)
	go func() { done <- r.reject(t.Context(), it) }()
	shownOn(t, person, "Why do you reject j1.1? (an empty line: do not) ")
	typed(t, person, "\n")
	require.NoError(t, <-done)
	require.Equal(t, "not rejected\n", r.message)
	require.Equal(t, undecided, it.decision)
}
