package doctor

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"gated/client/api"
	"gated/internal/agents/hook"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

const (
	// probeTTL bounds the probe's reservation, in case the doctor dies and cannot release it.
	probeTTL = 5 * time.Minute
	// probePrefix begins the names of the probed paths.
	probePrefix = ".gated-doctor-"
	// maxOutput is how many bytes of a hook's output are kept.
	maxOutput = 16 << 10
	// defaultLimit is how long a harness waits for a hook if the settings do not say. maxLimit is how long the doctor
	// waits at most.
	defaultLimit = 60 * time.Second
	maxLimit     = 60 * time.Second
)

// verdict is how a hook judged one path.
type verdict struct {
	denied bool
	failed bool   // it neither refused nor permitted
	said   string // what it printed for people
}

// trial tries one hook with a path, relative to the scope, or with a shell's line.
type trial struct {
	what   string
	limit  time.Duration
	setup  Setup
	steers bool // with a line
	run    func(ctx context.Context, path string) (verdict, error)
}

// add adds a finding with the hook's arguments.
func (t trial) add(r *Report, s State, format string, args ...any) {
	r.add(t.what, s, "%s; %s", fmt.Sprintf(format, args...), t.setup.words()).Setup = &t.setup
}

// group is the trials of hooks that ask at the same socket.
type group struct {
	socket string
	trials []trial
}

// bySocket puts trials into groups by socket. If there are hooks without a socket of their own, their group is the
// first.
func bySocket(trials []trial) []group {
	var out []group
	for _, t := range trials {
		at := slices.IndexFunc(out, func(g group) bool { return g.socket == t.setup.Socket })
		if at < 0 {
			at = len(out)
			out = append(out, group{socket: t.setup.Socket})
		}
		out[at].trials = append(out[at].trials, t)
	}
	slices.SortStableFunc(out, func(a, b group) int { return strings.Compare(a.socket, b.socket) })
	return out
}

// tryAt tries the hooks of one socket, if a daemon answers there. If not, the hooks' arguments decide about changes,
// and tryAt reports that.
func (d Doctor) tryAt(ctx context.Context, r *Report, g group) {
	asked, cancel := context.WithTimeout(ctx, asks)
	_, _, err := d.status(asked, g.socket)
	cancel()
	if err == nil {
		d.try(ctx, r, g)
		return
	}
	where := "the socket that its environment names"
	if g.socket != "" {
		where = op.Shown(g.socket)
	}
	why := fmt.Sprintf("no daemon answers at %s, where it asks (%s)", where, short(err))
	for _, t := range g.trials {
		text := "does NOT block: %s, and every change goes on unchecked"
		if t.setup.OnFailure == hook.Block {
			text = "blocks everything: %s, and every change is refused"
		}
		t.add(r, Bad, text, why)
	}
}

// toolLimit is how long the harness of an agent waits.
func toolLimit(h hook.ToolState) time.Duration {
	if h.Timeout <= 0 {
		return defaultLimit
	}
	return min(h.Timeout, maxLimit)
}

// try reserves a path under a name of the doctor's own, runs the trials, and removes what it made, even after an
// interrupt.
func (d Doctor) try(ctx context.Context, r *Report, g group) {
	what := whatTrial
	if g.socket != "" {
		what += " at " + op.Shown(g.socket)
	}
	if !utf8.ValidString(d.Place.Path) {
		r.add(what, Bad, "the daemon cannot take the directory's path: it is not valid UTF-8")
		return
	}
	gate, err := d.Connect(g.socket, "")
	if err != nil {
		r.add(what, Bad, wordsNoTrial, short(err))
		return
	}
	defer gate.Close()
	d.tidy(ctx, r, gate)
	id := make([]byte, 6)
	rand.Read(id) // never fails (crypto/rand)
	name := probePrefix + hex.EncodeToString(id)
	release, err := d.hold(ctx, r, gate, g.socket, strings.TrimPrefix(name, ".gated-"), name)
	defer release(context.WithoutCancel(ctx))
	if err != nil {
		words, hint := wordsNoTrial, ""
		if errors.Is(err, refusal.Conflict) {
			words, hint = "every path here is reserved, so there is no free path for the trial: %s",
				"release it, or try again when it is free"
		}
		r.add(what, Bad, words, short(err)).hint("%s", hint)
		return
	}
	for _, t := range g.trials {
		if t.steers {
			t.judgeSteering(ctx, r, gate)
			continue
		}
		t.judge(ctx, r, name, name+"-free")
	}
}

// hold registers the doctor's agent and reserves the probe. release undoes what was done of that, and may always be
// called.
func (d Doctor) hold(ctx context.Context, r *Report, gate Gate, socket, agent, path string) (release func(context.Context), err error) {
	release = func(context.Context) {}
	ctx, cancel := context.WithTimeout(ctx, asks)
	defer cancel()
	registered, err := gate.RegisterAgent(ctx, api.RegisterAgent{Name: agent, Token: true})
	if err != nil {
		return release, err
	}
	as, err := d.Connect(socket, registered.Token)
	if err != nil {
		return release, err
	}
	held := ""
	release = func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, asks)
		defer cancel()
		defer as.Close()
		var errs []error
		if held != "" {
			_, err := as.Release(ctx, held)
			errs = append(errs, err)
		}
		_, err := as.Unregister(ctx, agent)
		if err := errors.Join(append(errs, err)...); err != nil {
			r.add(whatCleanup, Bad, "what the trial made could not be removed: %s", short(err))
		}
	}
	got, err := as.Reserve(ctx, api.Reserve{Scope: d.Place, Patterns: []string{path}, Mode: api.Exclusive,
		Reason: "gated doctor tries whether hooks block", TTLSeconds: int64(probeTTL / time.Second)})
	held = got.ID
	return release, err
}

// judge runs one hook with the reserved path and with a free one.
func (t trial) judge(ctx context.Context, r *Report, held, free string) {
	first, err := t.once(ctx, held)
	if err == nil && (first.failed || !first.denied) {
		t.add(r, Bad, "%s", withWords(wordsDoesNot, first.said))
		return
	}
	var second verdict
	if err == nil {
		second, err = t.once(ctx, free)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		t.add(r, Bad, "did not end within %s; the program that starts it goes on without it", t.limit)
	case err != nil:
		t.add(r, Bad, "cannot be run: %s", short(err))
	case second.denied || second.failed:
		t.add(r, Bad, "%s", withWords(wordsBlocksAll, second.said))
	default:
		t.add(r, OK, wordsBlocks)
	}
}

// once runs a hook within its limit.
func (t trial) once(ctx context.Context, path string) (verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, t.limit)
	defer cancel()
	v, err := t.run(ctx, path)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return v, err
}

func withWords(text, said string) string {
	if said = strings.TrimSpace(said); said == "" {
		return text
	}
	return fmt.Sprintf("%s; it said: %s", text, op.Shown(said[:min(len(said), 300)]))
}

// output is the output and the end of a hook's process.
type output struct {
	stdout, stderr string
	code           int
}

// start runs a hook's process. The process and its children end with ctx.
func start(ctx context.Context, cmd *exec.Cmd) (output, error) {
	stdout, stderr := &clipped{}, &clipped{}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err := cmd.Run()
	out := output{stdout: stdout.String(), stderr: stderr.String()}
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() == nil {
		out.code, err = exit.ExitCode(), nil
	}
	return out, err
}

// clipped keeps the beginning of what is written to it.
type clipped struct{ bytes.Buffer }

// Write accepts all bytes and keeps those that fit.
func (c *clipped) Write(b []byte) (int, error) {
	keep := max(0, min(len(b), maxOutput-c.Len()))
	_, _ = c.Buffer.Write(b[:keep]) // never fails
	return len(b), nil
}
