package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/people/shown"
	"gated/internal/people/sign"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

// turning is a gate whose one request changes, and which takes every approval. It is what an
// attacker has who controls a gate.
type turning struct {
	mu     sync.Mutex
	now    question
	signed [][]byte // the payloads that were signed
}

func (g *turning) become(q question) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now = q
}

func (g *turning) taken() [][]byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.signed
}

// ServeHTTP answers as the gate.
func (g *turning) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.Method == http.MethodPost {
		text, err := io.ReadAll(r.Body)
		var e api.Envelope
		if err == nil {
			err = api.DecodeBody(text, &e)
		}
		payload, err2 := base64.StdEncoding.DecodeString(e.Payload)
		if err != nil || err2 != nil || !strings.HasSuffix(r.URL.Path, "/approve") {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		g.signed = append(g.signed, payload)
		now := g.now.request
		now.State = op.StateAuthorized
		b, _ := api.Encode(now) // it was encoded before
		_, _ = w.Write(b)
		return
	}
	answersOf(g.now.bytes, g.now.request).ServeHTTP(w, r)
}

// deskOf is an operator's tool at such a gate, with a state directory of its own.
func deskOf(t *testing.T, g *turning, state string) *tool {
	tl := gateOf(t, g)
	tl.Stdout, tl.Stderr = io.Discard, io.Discard
	env := map[string]string{"XDG_STATE_HOME": state, "HOME": state}
	tl.Getenv = func(name string) string { return env[name] }
	return tl
}

// runWith runs a command line of the tool at its gate.
func (t *tool) runWith(args ...string) int {
	one := *t
	return one.run(context.Background(), append(args, "--socket", t.Socket))
}

// keyIn writes a key that signs, and returns its file.
func keyIn(t *testing.T) string {
	return mint.Ed25519(t, "alice").WriteFile(t, t.TempDir())
}

// oneNonce is the nonce of requests that differ in something else.
var oneNonce = op.NewNonce(time.Unix(0, 0))

// waiting is a request of which only what change says differs from others.
func waiting(t *testing.T, change func(*op.Payload, *api.Request)) question {
	var r api.Request
	q := questionOf(t, payload(t, func(p *op.Payload) {
		p.Nonce = oneNonce
		change(p, &r)
	}))
	q.request.Facts, q.request.Labels, q.request.Why, q.request.Rule = r.Facts, r.Labels, r.Why, r.Rule
	q.request.Roles, q.request.Batch = []op.Role{op.Operational}, []op.Role{op.Operational}
	return q
}

// TestWhatIsSignedWasShown: whatever a gate makes of a request, and in which order an operator's
// programs look and sign, every signature is over bytes that were shown last, or that were named.
func TestWhatIsSignedWasShown(t *testing.T) {
	key := keyIn(t)
	var all []question
	for _, text := range []string{"/srv/b", "/srv/a"} {
		for _, files := range []string{"1", "2"} {
			all = append(all, waiting(t, func(p *op.Payload, r *api.Request) {
				p.Params = op.Params{"snapshot": strings.TrimPrefix(text, "/srv/")}
				r.Facts = []op.Fact{{Name: "runs", Text: text}, {Name: "files", Text: files}}
			}))
		}
	}
	like := func(change func(*op.Payload, *api.Request)) question {
		return waiting(t, func(p *op.Payload, r *api.Request) {
			p.Params, r.Facts = op.Params{"snapshot": "b"}, slices.Clone(all[0].request.Facts)
			change(p, r)
		})
	}
	all = append(all, like(func(p *op.Payload, _ *api.Request) { p.Nonce = op.NewNonce(time.Now()) }), // issued anew, and nothing else
		like(func(_ *op.Payload, r *api.Request) { r.Facts[0].Text = "/srv/a" })) // another fact beside the same bytes
	rapid.Check(t, func(rt *rapid.T) {
		g := &turning{now: all[0]}
		state := must.Get(os.MkdirTemp("/tmp", "gq"))(t)
		defer os.RemoveAll(state)
		tl := deskOf(t, g, state)
		var last *question // what is remembered as shown
		bytesAlone, person := false, false
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			q := all[rapid.IntRange(0, len(all)-1).Draw(rt, "other")]
			before := len(g.taken())
			switch what := rapid.SampledFrom([]string{"turn", "turn", "show", "show bytes", "see", "list", "approve", "approve", "named", "batch"}).Draw(rt, "what"); what {
			case "turn":
				g.become(q)
			case "show", "show bytes":
				args := []string{"show", "j1.1"}
				if what == "show bytes" {
					args = append(args, "--payload")
				}
				require.Zero(rt, tl.runWith(args...))
				if same := last != nil && string(last.bytes) == string(g.now.bytes); !person && (!same || what == "show") {
					now := g.now
					last, bytesAlone = &now, what == "show bytes"
				}
			case "see": // on a terminal
				now := g.now
				require.NoError(rt, tl.keep(now, shown.OnTerminal, true))
				last, bytesAlone, person = &now, false, true
			case "list":
				tl.runWith("list", "--json")
			case "approve", "named", "batch":
				args := []string{"approve", "j1.1", "--yes", "--key", key, "--role", "operational", "--no-wait"}
				if what == "batch" {
					args = []string{"batch", "approve", "j1.1", "--yes", "--key", key, "--role", "operational"}
				}
				ok := last != nil && string(last.bytes) == string(g.now.bytes) && (bytesAlone || fmt.Sprint(last.request.Facts) == fmt.Sprint(g.now.request.Facts))
				if what == "named" {
					args = append(args, "--payload", q.digest())
					named := string(q.bytes) == string(g.now.bytes)
					ok = named && (last == nil || string(last.bytes) == string(g.now.bytes) && (bytesAlone || !strings.Contains(
						differs(question{request: last.request, bytes: last.bytes, payload: last.payload, moving: true}, g.now), "runs")))
				}
				code := tl.runWith(args...)
				require.Equal(rt, ok, code == 0, "%v exited with %d", args, code)
				if got := g.taken(); ok {
					require.Len(rt, got, before+1)
					require.Equal(rt, string(g.now.bytes), string(got[before]))
				} else {
					require.Len(rt, got, before, "nothing was signed")
				}
			}
		}
	})
}

// TestWhoSawARequest: a show counts as a person's look if its output is a terminal and for people. Any other one after it leaves that look
// in its place, says so, and nothing else is signed: neither other bytes, nor the same ones with other facts beside them.
func TestWhoSawARequest(t *testing.T) {
	for what, as := range map[string]func(string) question{
		"bytes": func(path string) question {
			return waiting(t, func(p *op.Payload, _ *api.Request) { p.Params = op.Params{"snapshot": path} })
		},
		"facts": func(path string) question {
			return waiting(t, func(_ *op.Payload, r *api.Request) { r.Facts = []op.Fact{{Name: "runs", Text: path}} })
		},
	} {
		t.Run(what, func(t *testing.T) { whoSaw(t, as) })
	}
}

// whoSaw has a person see a request as a, and shows it as b in each way.
func whoSaw(t *testing.T, as func(string) question) {
	key := keyIn(t)
	for name, c := range map[string]struct {
		args     []string
		terminal bool
	}{
		"a file":                {[]string{"show", "j1.1"}, false},
		"a file with details":   {[]string{"show", "j1.1", "--details"}, false},
		"JSON":                  {[]string{"show", "j1.1", "--json"}, false},
		"JSON on a terminal":    {[]string{"show", "j1.1", "--json"}, true},
		"bytes":                 {[]string{"show", "j1.1", "--payload"}, false},
		"bytes on a terminal":   {[]string{"show", "j1.1", "--payload"}, true},
		"a person":              {[]string{"show", "j1.1"}, true},
		"a person with details": {[]string{"show", "j1.1", "--details"}, true},
	} {
		g := &turning{now: as("a")}
		tl := deskOf(t, g, t.TempDir())
		onTerminal := func(args ...string) {
			person, program := pty(t)
			tl.Stdout = program
			done := make(chan int, 1)
			go func() {
				code := tl.runWith(args...)
				_, _ = program.WriteString("END")
				done <- code
			}()
			shownOn(t, person, "END")
			require.Zero(t, <-done, name)
			tl.Stdout = io.Discard
		}
		onTerminal("show", "j1.1")
		require.Equal(t, shown.OnTerminal, must.Get(tl.shownDir().Last(g.now.payload.Gate, op.RequestID{Job: 1, Index: 1}))(t).Way)
		g.become(as("b"))
		said := &strings.Builder{}
		tl.Stderr = said
		if c.terminal {
			onTerminal(c.args...)
		} else {
			require.Zero(t, tl.runWith(c.args...), name)
		}
		person := strings.HasPrefix(name, "a person")
		require.Equal(t, !person, strings.Contains(said.String(), "warning: what was shown of j1.1 is not remembered: a terminal showed something else of it\n"+
			"  --yes signs nothing of it until opsign show showed this on a terminal\n"), "%s: %s", name, said)
		code := tl.runWith("approve", "j1.1", "--yes", "--key", key, "--role", "operational", "--no-wait")
		if person {
			require.Zero(t, code, name)
			continue
		}
		require.Equal(t, api.ExitRefused, code, name)
		require.Contains(t, said.String(), "read it again, on a terminal: opsign show j1.1", name)
		require.Empty(t, g.taken(), name)
	}
}

// TestEveryPartThatWasShownCounts takes what was shown and changes one thing of it.
func TestEveryPartThatWasShownCounts(t *testing.T) {
	base := func(p *op.Payload, r *api.Request) {
		p.Op, p.Params = "guest.stop", op.Params{"snapshot": "a"}
		r.Facts, r.Labels, r.Why = []op.Fact{{Name: "runs", Text: "x"}, {Name: "can be undone", Text: "y"}}, map[string]string{"tier": "prod"}, "w"
	}
	shown := waiting(t, base)
	for name, change := range map[string]func(*op.Payload, *api.Request){
		"operation":       func(p *op.Payload, _ *api.Request) { p.Op = "guest.restore" },
		"target":          func(p *op.Payload, _ *api.Request) { p.Target.Name = "web-2" },
		"incarnation":     func(p *op.Payload, _ *api.Request) { p.Incarnation = "b" },
		"state":           func(p *op.Payload, _ *api.Request) { p.State = op.FingerprintOf([]byte("b")) },
		"parameter":       func(p *op.Payload, _ *api.Request) { p.Params = op.Params{"snapshot": "b"} },
		"reason":          func(p *op.Payload, _ *api.Request) { p.Reason = "r" },
		"nonce":           func(p *op.Payload, _ *api.Request) { p.Nonce = op.NewNonce(time.Now()) },
		"its times":       func(p *op.Payload, _ *api.Request) { p.ExpiresAt = p.ExpiresAt.Add(time.Minute) },
		"fact":            func(_ *op.Payload, r *api.Request) { r.Facts[0].Text = "z" },
		"fact more":       func(_ *op.Payload, r *api.Request) { r.Facts = append(r.Facts, op.Fact{Name: "n", Text: "n"}) },
		"fact less":       func(_ *op.Payload, r *api.Request) { r.Facts = r.Facts[:1] },
		"label":           func(_ *op.Payload, r *api.Request) { r.Labels = nil },
		"why":             func(_ *op.Payload, r *api.Request) { r.Why = "v" },
		"counter":         func(_ *op.Payload, r *api.Request) { r.Facts = append(r.Facts, op.Fact{Name: "files", Text: "9"}) },
		"that it is safe": func(_ *op.Payload, r *api.Request) { r.Rule = op.SignedByRule },
	} {
		g, state := &turning{now: shown}, t.TempDir()
		tl := deskOf(t, g, state)
		require.Zero(t, tl.runWith("show", "j1.1"))
		g.become(waiting(t, func(p *op.Payload, r *api.Request) { base(p, r); change(p, r) }))
		said := &strings.Builder{}
		tl.Stderr = said
		key := keyIn(t)
		require.Equal(t, api.ExitRefused, tl.runWith("approve", "j1.1", "--yes", "--key", key, "--role", "operational", "--no-wait"), name)
		require.Contains(t, said.String(), "stale_target: j1.1 is not as opsign showed it at ", name)
		require.Contains(t, said.String(), "What differs:\n", name)
		require.Regexp(t, "(?m)^  (was|now) ", said.String(), name)
		require.Empty(t, g.taken(), name)
	}
}

// TestTwoOperatorsSeeForThemselves: what one of them was shown says nothing for the other.
func TestTwoOperatorsSeeForThemselves(t *testing.T) {
	g, key := &turning{now: waiting(t, func(*op.Payload, *api.Request) {})}, keyIn(t)
	alice, bob := deskOf(t, g, t.TempDir()), deskOf(t, g, t.TempDir())
	approve := []string{"approve", "j1.1", "--yes", "--key", key, "--role", "operational", "--no-wait"}
	require.Zero(t, alice.runWith("show", "j1.1"))
	require.Equal(t, api.ExitRefused, bob.runWith(approve...))
	require.Empty(t, g.taken())
	require.Zero(t, bob.runWith(append(approve, "--payload", g.now.digest())...))
	require.Zero(t, alice.runWith(approve...))
	require.Len(t, g.taken(), 2)
}

// holding is a key that takes its time, as an agent's does that asks for a touch.
type holding struct {
	sign.Signer
	meanwhile func()
}

func (h holding) Sign(ctx context.Context, role op.Role, payload []byte) (string, error) {
	h.meanwhile()
	return h.Signer.Sign(ctx, role, payload)
}

// TestARequestIsIssuedAnewWhileAKeyIsTouched: the signature is over what was shown.
func TestARequestIsIssuedAnewWhileAKeyIsTouched(t *testing.T) {
	shown, other := waiting(t, func(*op.Payload, *api.Request) {}), waiting(t, func(p *op.Payload, _ *api.Request) { p.Target.Name = "web-2" })
	g := &turning{now: shown}
	tl := deskOf(t, g, t.TempDir())
	cl := must.Get(tl.Client())(t)
	defer cl.Close()
	key := must.Get(sign.KeyFile(keyIn(t), nil))(t)
	a := approval{asker: &asker{tool: tl, payloads: []string{shown.digest()},
		keys: ringOf(tl, holding{key, func() { g.become(other) }})}, client: cl}
	require.NoError(t, a.one(t.Context(), "j1.1"))
	require.Equal(t, [][]byte{shown.bytes}, g.taken())
	require.ErrorIs(t, a.one(t.Context(), "j1.1"), refusal.StaleTarget)
	require.Len(t, g.taken(), 1)
}

// TestWhoIsAskedIsToldWhatDiffers: in approve, reject and batch approve, a person sees above the request
// how it differs from what opsign showed last, and once alone.
func TestWhoIsAskedIsToldWhatDiffers(t *testing.T) {
	as := func(path string) question {
		return waiting(t, func(p *op.Payload, r *api.Request) {
			p.Params, r.Facts = op.Params{"snapshot": path}, []op.Fact{{Name: "runs", Text: "/srv/" + path}}
		})
	}
	for name, shows := range map[string]func(*asker, question) error{
		"approve": func(a *asker, q question) error { return (&approval{asker: a}).ready(&q) },
		"reject":  func(a *asker, q question) error { return a.showRequest(q, a.view(false)) },
		"batch":   func(a *asker, q question) error { return (&batch{asker: a, items: []*batched{{q: q}}}).showAll() },
	} {
		g := &turning{now: as("b")}
		tl := deskOf(t, g, t.TempDir())
		require.Zero(t, tl.runWith("show", "j1.1"))
		person, program := pty(t)
		require.NoError(t, unix.IoctlSetWinsize(int(program.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 120}))
		a := &asker{tool: tl, tty: program}
		done := make(chan error, 1)
		look := func() string {
			go func() {
				err := shows(a, as("a"))
				_, err2 := program.WriteString("END\n")
				done <- errors.Join(err, err2)
			}()
			text := shownOn(t, person, "END")
			require.NoError(t, <-done, name)
			return text
		}
		text := look()
		require.Contains(t, text, "j1.1 is not as opsign showed it at ", name)
		require.Regexp(t, `was runs +/srv/b\r\n +now runs +/srv/a\r\n`, text, name)
		require.NotContains(t, look(), "is not as opsign showed it", name)
	}
}
