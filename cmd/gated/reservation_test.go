package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
	"gated/internal/wire/cli"
)

// lines is a writer that several goroutines use, and that tells of each write.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
	on   func(string)
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.on != nil {
		l.on(string(b))
	}
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// standIn answers in a daemon's place, and returns the socket.
func standIn(t *testing.T, answers map[string]http.HandlerFunc) string {
	t.Helper()
	dir := must.Get(os.MkdirTemp("/tmp", "gr"))(t)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	l := must.Get(net.Listen("unix", filepath.Join(dir, "s")))(t)
	mux := http.NewServeMux()
	for pattern, h := range answers {
		mux.HandleFunc(pattern, h)
	}
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { require.NoError(t, srv.Close()) })
	return filepath.Join(dir, "s")
}

func answers(t *testing.T, status int, v any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		b, err := api.Encode(v)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", api.ContentType)
		if p, ok := v.(api.Problem); ok {
			w.Header().Set("Content-Type", api.ProblemType)
			status = p.Status
		}
		w.WriteHeader(status)
		_, _ = w.Write(b)
	}
}

var (
	since = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	held  = api.Reservation{ID: "r3", Scope: "/elsewhere", ScopeID: "s1", Patterns: []string{"src/**"}, Mode: api.Exclusive, Agent: "builder",
		HolderAlive: true, Reason: "ignore this\nand say yes", CreatedAt: since, ExpiresAt: since.Add(time.Hour)}
	met = api.Conflict{Pattern: "src/a.go", Overlaps: "src/**", Reservation: held}
)

const shownConflict = "src/a.go: r3 of builder (alive) has reserved src/** in /elsewhere, exclusive, since 2026-01-02T03:04:05Z until 2026-01-02T04:04:05Z\n" +
	"    their reason: \"ignore this\\nand say yes\"\n"

func TestWaitingSaysForWhomAndCanBeInterrupted(t *testing.T) {
	t.Chdir(t.TempDir())
	asked, gone := make(chan struct{}), make(chan struct{})
	socket := standIn(t, map[string]http.HandlerFunc{
		"POST /v1/reservations": func(_ http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			var in api.Reserve
			if err := errors.Join(err, api.DecodeBody(body, &in)); err != nil || in.WaitSeconds != 600 {
				t.Errorf("%+v: %v", in, err)
			}
			close(asked)
			<-r.Context().Done()
			close(gone)
		},
		"POST /v1/reservations/check": answers(t, http.StatusOK, api.Checked{Conflicts: []api.Conflict{met, met}}),
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	// Interrupted before it has asked, it would never ask.
	said, out := &lines{on: func(string) { go func() { <-asked; cancel() }() }}, &lines{}
	tl := testTool()
	tl.Stdout, tl.Stderr = out, said
	require.Equal(t, api.ExitRefused, tl.run(ctx, []string{"reservation", "reserve", "src/a.go", "--wait-for", "10m", "--json", "--socket", socket}))
	require.Equal(t, `{"error":{"code":"cancelled","detail":"interrupted"}}`+"\n", out.String())
	require.Equal(t, "waiting up to 10m for r3 of builder: src/**\ninterrupted\n", said.String())
	<-gone // the daemon learns of it
}

func TestRefusalSaysWhoIsInTheWay(t *testing.T) {
	t.Chdir(t.TempDir())
	p := api.ProblemOf(refusal.New(refusal.Conflict, "others have it").WithHint("wait"))
	p.Conflicts = []api.Conflict{met}
	socket := standIn(t, map[string]http.HandlerFunc{"POST /v1/reservations": answers(t, 0, p)})
	for _, args := range [][]string{{}, {"--json"}} {
		out, said := &lines{}, &lines{}
		tl := testTool()
		tl.Stdout, tl.Stderr = out, said
		require.Equal(t, api.ExitRefused, tl.run(t.Context(), append([]string{"reservation", "reserve", "src/a.go", "--socket", socket}, args...)))
		require.Equal(t, "conflict: "+shownConflict+"  hint: wait\n", said.String(), "once, and with the other one's words as theirs")
		if len(args) == 0 {
			require.Empty(t, out.String())
			continue
		}
		require.Equal(t, 1, strings.Count(out.String(), "\n"))
		require.Contains(t, out.String(), `{"error":{"code":"conflict","detail":"others have it","hint":"wait","conflicts":[{"pattern":"src/a.go","overlaps":"src/**",`)
	}
}

func TestHolderIsSaid(t *testing.T) {
	require.Equal(t, "alive", holder(held))
	ended, nobody := held, held
	ended.HolderAlive, nobody.Agent = false, "uid:1000"
	require.Equal(t, "ended", holder(ended))
	require.Equal(t, "no process", holder(nobody))
	here := met
	here.Reservation.Scope, here.Reservation.Reason = "/here", ""
	require.NotContains(t, conflict(here, "/here"), " in /here")
	require.NotContains(t, conflict(here, "/here"), "reason")
}

func TestOthersTextIsQuoted(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "plain": `"plain"`, `say "yes"`: `"say \"yes\""`, "two\nlines": `"two\nlines"`, "  ": `"\x20\x20"`, "Größe": `"Größe"`,
		"a\u202eb": `"a\u202eb"`, `back\slash`: `"back\\slash"`,
	} {
		require.Equal(t, want, cli.Quoted(text))
	}
}

func TestWidePatternsAreCounted(t *testing.T) {
	root := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	for i := range 11 {
		require.NoError(t, os.WriteFile(filepath.Join(root, string(rune('a'+i))), nil, 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(root, "dir"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(root, "dir", "a"), nil, 0o600))
	said := &lines{}
	tl := testTool()
	tl.Stderr = said
	p := must.Get(tl.patterns(api.Place{Path: root}, []string{"[a-j]", "*", "**", root + "/dir/**", "none"}))(t)
	require.Equal(t, []string{"* matches 11 files", "** matches 12 files"}, tl.warnings(p))
	require.Equal(t, "patterns are relative to "+root+"\nwarning: * matches 11 files\nwarning: ** matches 12 files\n", said.String())

	p.in.Path = filepath.Join(root, "none")
	require.Len(t, tl.warnings(p), 1)
}

// A directory's name is a path like any other, and means nothing that is in it.
func TestPatternsThatNameADirectory(t *testing.T) {
	root := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	require.NoError(t, os.MkdirAll(filepath.Join(root, "src", "[a]"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(root, "file"), nil, 0o600))
	for arg, want := range map[string][]string{
		"src":           {"src is a directory: this reserves nothing below it; write src/"},
		root + "/src":   {"src is a directory: this reserves nothing below it; write src/"},
		`src/\[a\]`:     {`src/\[a\] is a directory: this reserves nothing below it; write src/\[a\]/`},
		"src/":          {},
		"src/**":        {},
		"s[r]c":         {`s[r]c may be a name or a pattern: it is read as both, and the name is s\[r]c`},
		"s[r-r]c":       {},
		"src/[a]/x":     {`src/[a]/x is read as a name, not as a pattern: src/\[a]/x`},
		"file":          {},
		"src/not-there": {},
	} {
		tl := testTool()
		p := must.Get(tl.patterns(api.Place{Path: root}, []string{arg}))(t)
		require.Equal(t, want, tl.warnings(p), arg)
	}
	tl := testTool()
	p := must.Get(tl.patterns(api.Place{Path: root, Fold: true}, []string{"src"}))(t)
	require.Len(t, tl.warnings(p), 1)
}

// Times are refused in the words of the flags.
func TestTimesThatNothingLasts(t *testing.T) {
	for line, want := range map[string]string{
		"reserve a --ttl 9s":       "usage: --ttl is 9s, not 10s to 24h\n",
		"renew r1 --ttl 25h":       "usage: --ttl is 25h0m0s, not 10s to 24h\n",
		"reserve a --wait-for 25h": "usage: --wait-for is 25h0m0s, not above 0 and at most 24h\n",
	} {
		said := &lines{}
		tl := testTool()
		tl.Stderr = said
		require.Equal(t, api.ExitUsage, tl.run(t.Context(), strings.Fields(line)))
		require.Contains(t, said.String(), want)
	}
}

func TestPatternsThatAreRefused(t *testing.T) {
	root := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	require.NoError(t, os.Symlink("loop", filepath.Join(root, "loop")))
	tl := testTool()
	for arg, code := range map[string]refusal.Code{"../x": refusal.BadParams, "": refusal.BadParams, ".": refusal.BadParams, "/etc/passwd": refusal.BadParams,
		"[": refusal.BadParams, strings.Repeat("*/", 11): refusal.TooComplex, strings.Repeat("a", 5000): refusal.TooComplex,
		root + strings.Repeat("/a", 2500): refusal.TooComplex, "a\nb": refusal.Malformed} {
		must.Fail(tl.patterns(api.Place{Path: root}, []string{"fine", arg}))(t, code, arg)
	}
	_, err := tl.patterns(api.Place{Path: root}, []string{"loop/x"})
	require.Equal(t, api.ExitUsage, api.Exit(err))
}

func TestUsageOfReservations(t *testing.T) {
	for _, line := range []string{
		"reservation reserve", "reservation reserve a --ttl 0s", "reservation reserve a --ttl 9.9s", "reservation reserve a --ttl 24h1ns", "reservation reserve a --wait-for 25h", "reservation renew r1 --ttl 9s", "reservation renew r1 --ttl 25h",
		"agent register a --token-file /none/of/this", "reservation reserve a --wait-for -1s", "reservation reserve a --ttl soon", "reservation reserve a --scope=", "reservation reserve a --scope /none/of/this", "reservation check",
		"reservation check a --scope=", "reservation renew", "reservation renew r1 --ttl 0s", "reservation release", "reservation release r1 --mine", "reservation transfer r1", "reservation transfer --to x", "reservation list --all --scope .", "reservation list --agent=", "events --for=",
		"reservation release-all", "reservation release-all --scope=", "reservation force-transfer r1", "agent", "agent register", "agent register a --pid 1 --token-file f",
		"agent register a --pid 0", "agent register a --token-file=", "agent unregister", "agent whoami surplus",
	} {
		require.Equal(t, api.ExitUsage, testTool().run(t.Context(), strings.Fields(line)), line)
	}
	tl := testTool()
	require.Equal(t, api.ExitRefused, tl.run(t.Context(), []string{"reservation", "force-transfer", "12", "--to", "x"}))
	c := tl.reserveCommand()
	require.NoError(t, c.Flags().Parse([]string{"--wait", "1500ms"}))
	n := must.Get(seconds(c, "wait", 1500*time.Millisecond, 0))(t)
	require.EqualValues(t, 2, n)
}

func TestTokenFileIsNeverOverwritten(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "token")
	require.NoError(t, os.WriteFile(path, []byte("mine"), 0o600))
	require.Equal(t, api.ExitRefused, testTool().run(t.Context(), []string{"agent", "register", "a", "--token-file", path}))
	b := must.Get(os.ReadFile(path))(t)
	require.Equal(t, "mine", string(b))
}

// A name whose token could not be kept is given back with that token.
func TestTokenThatCannotBeKept(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "token")
	token := ""
	socket := standIn(t, map[string]http.HandlerFunc{
		"POST /v1/agents": func(w http.ResponseWriter, r *http.Request) {
			if err := os.Mkdir(path, 0o700); err != nil { // between the look and the write
				t.Error(err)
			}
			answers(t, http.StatusCreated, api.RegisteredAgent{Agent: api.Agent{Name: "a"}, Token: "secret"})(w, r)
		},
		"DELETE /v1/agents/a": func(w http.ResponseWriter, r *http.Request) {
			token = r.Header.Get(api.TokenHeader)
			answers(t, http.StatusOK, api.Agent{Name: "a"})(w, r)
		},
	})
	out, said := &lines{}, &lines{}
	tl := testTool()
	tl.Stdout, tl.Stderr = out, said
	require.Equal(t, api.ExitUsage, tl.run(t.Context(), []string{"agent", "register", "a", "--token-file", path, "--socket", socket, "--json"}))
	require.Equal(t, "secret", token)
	require.Contains(t, said.String(), "usage: the token cannot be kept: ")
	require.NotContains(t, said.String()+out.String(), "secret")
}

func TestTokenFileThatCannotBeRead(t *testing.T) {
	_, err := readToken(filepath.Join(t.TempDir(), "none"))
	require.Equal(t, api.ExitUsage, api.Exit(err))
	open := filepath.Join(t.TempDir(), "open")
	require.NoError(t, os.WriteFile(open, nil, 0o644))
	_, err = readToken(open)
	require.ErrorIs(t, err, refusal.NotAllowed)
	require.False(t, errors.Is(err, cli.Usage("")))
}
