package hook

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"gated/client/api"
	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
)

// OnFailure says what happens to a call that a hook cannot judge.
type OnFailure string

// The values of OnFailure.
const (
	Warn  OnFailure = "warn"  // it goes on, and the user sees a warning
	Block OnFailure = "block" // it is refused
)

// Kind says why a hook could not judge a call.
type Kind string

// The kinds. Only the daemon's own failures count for the circuit. An unreadable or refused call says nothing about the
// next one: otherwise an agent could open the circuit for all by sending five of them.
const (
	KindInput       Kind = "input"       // the call cannot be read
	KindPath        Kind = "path"        // the changed path cannot be found out
	KindUnreachable Kind = "unreachable" // no daemon; counts
	KindTimeout     Kind = "timeout"     // no answer before the deadline; counts
	KindBroken      Kind = "broken"      // the daemon could not decide; counts
	KindRefused     Kind = "refused"     // the daemon refused to say
	KindOpen        Kind = "open"        // not asked: the circuit is open
	KindInternal    Kind = "internal"    // the hook itself
)

// counts reports whether the failure counts for the circuit.
func (k Kind) counts() bool { return k == KindUnreachable || k == KindTimeout || k == KindBroken }

// Failure says why a hook could not judge a call. It is never a conflict.
type Failure struct {
	Kind Kind
	Err  error
}

func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// Guard asks the daemon for a hook, within a deadline, and records failures.
type Guard struct {
	Hook      string // pre-tool-use, pre-commit, pre-push
	Check     func(context.Context, api.Check) (api.Checked, error)
	OnFailure OnFailure
	Deadline  time.Duration // for each wait; above 0
	Now       func() time.Time
	Home      Home
}

// Ask asks which reservations a change conflicts with. It returns before or soon after the deadline, whatever the
// daemon does. The error is a *Failure, which was recorded.
func (g Guard) Ask(ctx context.Context, what api.Check) (api.Checked, error) {
	return ask(ctx, g, func(ctx context.Context) (api.Checked, error) { return g.Check(ctx, what) })
}

// ask asks the daemon one question, as Ask does.
func ask[T any](ctx context.Context, g Guard, question func(context.Context) (T, error)) (T, error) {
	var none T
	socket := g.Home.socket() // read before the question, so that a socket that is made meanwhile differs
	may, probe := g.Home.enter(g.Now(), g.Deadline)
	if !may {
		return none, g.Failed(KindOpen, errOpen)
	}
	answer, err := within(ctx, g.Deadline, question)
	if err != nil {
		return none, g.failed(kindOf(err), err, socket)
	}
	if probe {
		_ = g.Home.reached() // if that fails, the next hook tries again
	}
	return answer, nil
}

// refuses reports whether a call that could not be judged is refused, and why, for people. If the daemon says that it
// cannot tell, because so much is reserved, the call is always refused. Otherwise an agent could switch hooks off for
// others by reserving enough.
func (g Guard) refuses(err error) (because string, refused bool) {
	switch {
	case errors.Is(err, refusal.TooComplex):
		return wordsTooMuch, true
	case g.OnFailure == Block:
		return "It was refused (--on-failure block), and nothing was changed. Try again later; gated hook status lists such failures.\n", true
	}
	return "", false
}

// Failed records that a hook could not do its work, and returns that as a *Failure. If it cannot be recorded, the hook
// still goes on.
func (g Guard) Failed(kind Kind, err error) error { return g.failed(kind, err, g.Home.socket()) }

func (g Guard) failed(kind Kind, err error, socket string) error {
	if kind.counts() {
		_ = g.Home.locked(func() error { return g.Home.keep(g.Home.circuit().fail(g.Now(), socket)) })
	}
	return g.recorded(kind, err)
}

// recorded records a failure, and does not count it for the circuit.
func (g Guard) recorded(kind Kind, err error) error {
	_ = g.Home.note(Record{Time: g.Now().UTC(), Hook: g.Hook, Kind: kind, Then: g.OnFailure, Detail: err.Error()})
	return &Failure{Kind: kind, Err: err}
}

// kindOf returns the kind of an error of the daemon's client.
func kindOf(err error) Kind {
	var r *refusal.Refusal
	var panicked *panicError
	switch {
	case errors.As(err, &panicked) || errors.Is(err, context.Canceled):
		return KindInternal
	case errors.Is(err, context.DeadlineExceeded):
		return KindTimeout
	case !errors.As(err, &r), r.Code == refusal.Standby: // this daemon lives, and the one that decides does not answer
		return KindUnreachable
	case r.Code == refusal.Unavailable || r.Code == refusal.Internal || r.Code == refusal.SchemaTooNew:
		return KindBroken
	default:
		return KindRefused
	}
}

// panicError is a fault of this program. A hook that panics would end with exit code 2, which means a refusal.
type panicError struct{ value any }

func (p *panicError) Error() string { return fmt.Sprintf("the hook has a fault: %v", p.value) }

// within calls fn and waits for it no longer than limit, even if fn ignores its context, as a read of standard input
// does.
func within[T any](ctx context.Context, limit time.Duration, fn func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done := make(chan result[T], 1)
	go func() {
		var r result[T]
		defer func() {
			if p := recover(); p != nil {
				r.err = &panicError{p}
			}
			done <- r
		}()
		r.value, r.err = fn(ctx)
	}()
	return answered(ctx, limit, done)
}

// result is what a function returned.
type result[T any] struct {
	value T
	err   error
}

// answered waits for a result until ctx ends. A process that stood still finds both, and an answer that came counts.
func answered[T any](ctx context.Context, limit time.Duration, done <-chan result[T]) (T, error) {
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
	}
	select {
	case r := <-done:
		return r.value, r.err
	default:
		var none T
		return none, fmt.Errorf("no answer within %s: %w", limit, ctx.Err())
	}
}

// readAll reads at most limit bytes. More are Oversized.
func readAll(in io.Reader, limit int64, what string) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = refusal.New(refusal.Oversized, "%s has more than %d bytes", what, limit)
	}
	return b, err
}

const (
	// lockPatience is how long a hook waits for another that writes. A writer needs microseconds, unless it was
	// stopped.
	lockPatience = 50 * time.Millisecond
	lockPause    = time.Millisecond
)

// Home is the directory in which one user's hooks store what the next hook needs: each gate's circuit, and failures.
// Only that user may read it. If it cannot be written, hooks work and remember nothing.
type Home struct {
	dir      string
	gate     string // in file names: the gate of the circuit
	sockets  []string
	patience time.Duration
}

// HomeOf returns the directory that the environment names: $XDG_RUNTIME_DIR/gated/hooks, else
// $XDG_STATE_HOME/gated-hooks, else the same below ~/.local/state. It is made at the first write. gate is any text that
// differs between gates, such as the paths of the socket.
func HomeOf(getenv func(string) string, gate string) Home {
	sum := sha256.Sum256([]byte(gate))
	h := Home{gate: hex.EncodeToString(sum[:8]), patience: lockPatience, dir: ownfile.StateDir(getenv, "gated-hooks")}
	if dir := getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		h.dir = filepath.Join(dir, "gated", "hooks")
	}
	return h
}

// Watching returns the same Home, with the paths at which the gate's socket may be. If another socket appears there,
// hooks try before an open circuit's time is over.
func (h Home) Watching(sockets ...string) Home {
	h.sockets = sockets
	return h
}

// Dir returns the directory's path, empty where the environment names none.
func (h Home) Dir() string { return h.dir }

func (h Home) path(name string) string { return filepath.Join(h.dir, name) }

// errHomeless says that the environment names no directory.
var errHomeless = errors.New("no directory for what hooks keep: set XDG_RUNTIME_DIR")

// errBusy says that another hook did not end its writing in time.
var errBusy = errors.New("another hook is writing")

// locked calls fn while no other hook writes. It returns errBusy instead of waiting for a writer that was stopped.
func (h Home) locked(fn func() error) error {
	if h.dir == "" {
		return errHomeless
	}
	if err := os.MkdirAll(h.dir, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(h.path("lock"), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // closing also unlocks
	if err := flock(f, h.patience); err != nil {
		return err
	}
	return fn()
}

func flock(f *os.File, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	pause := time.NewTicker(lockPause)
	defer pause.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return err
		}
		select {
		case <-ctx.Done():
			return errBusy
		case <-pause.C:
		}
	}
}

// read returns the content of one of the files; empty if the file is missing or has more than limit bytes.
func (h Home) read(name string, limit int64) ([]byte, error) {
	if h.dir == "" {
		return nil, nil
	}
	f, err := os.OpenFile(h.path(name), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if int64(len(b)) > limit {
		b = nil
	}
	return b, err
}

// replace replaces a file in one step. The caller has the lock.
func (h Home) replace(name string, content []byte) error {
	next := h.path(name + ".new")
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(next, h.path(name))
}
