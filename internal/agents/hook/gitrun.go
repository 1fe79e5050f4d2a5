package hook

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// gitTime bounds all of git's work for one hook.
const gitTime = 20 * time.Second

// maxGitWords is how many bytes of git's error messages are kept.
const maxGitWords = 512

// Repository is a directory and an environment in which git runs. It only reads. The environment is the hook's own, so
// that git uses the index of the next commit (GIT_INDEX_FILE).
type Repository struct {
	Dir string   // "" is the working directory
	Env []string // os.Environ() if nil
}

// gitVariables stop git from writing the index, asking questions, fetching, and replacing objects. An older git does
// not know GIT_NO_LAZY_FETCH, so it is allowed no protocol: for a fetch it would run programs that the repository's
// configuration names.
var gitVariables = []string{
	"GIT_OPTIONAL_LOCKS=0", "GIT_NO_REPLACE_OBJECTS=1", "GIT_TERMINAL_PROMPT=0", "GIT_NO_LAZY_FETCH=1",
	"GIT_ALLOW_PROTOCOL=none", "LC_ALL=C",
}

func (r Repository) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "git", append([]string{"--no-pager", "-c", "core.fsmonitor=false"}, args...)...)
	env := r.environment()
	cmd.Dir, cmd.Env = r.Dir, append(env[:len(env):len(env)], gitVariables...)
	cmd.WaitDelay = time.Second // git's children may keep its pipes open
	return cmd
}

func (r Repository) environment() []string {
	if r.Env == nil {
		return os.Environ()
	}
	return r.Env
}

// output runs git and returns its output. A failure of git is Unavailable.
func (r Repository) output(ctx context.Context, args ...string) (string, error) {
	cmd := r.command(ctx, args...)
	var out bytes.Buffer
	words := &gitWords{}
	cmd.Stdout, cmd.Stderr = &out, words
	if err := cmd.Run(); err != nil {
		return "", gitFailed(ctx, args[0], words.String(), err)
	}
	return out.String(), nil
}

// line is output without the last newline; a path may have others.
func (r Repository) line(ctx context.Context, args ...string) (string, error) {
	out, err := r.output(ctx, args...)
	return strings.TrimSuffix(out, "\n"), err
}

// commit returns the commit that a name leads to; "" if it leads to none that is here.
func (r Repository) commit(ctx context.Context, name string) (string, error) {
	out, err := r.line(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", name+"^{commit}")
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return "", nil
	}
	return out, err
}

// gitFailed words how git ended.
func gitFailed(ctx context.Context, verb, words string, err error) error {
	why := err
	if ctx.Err() != nil {
		why = ctx.Err()
	}
	detail := "git " + verb + " failed: " + why.Error()
	if words = strings.TrimSpace(words); words != "" {
		detail += ": " + op.Shown(words)
	}
	return &gitError{err: err, Refusal: refusal.New(refusal.Unavailable, "%s", detail)}
}

// gitError is a refusal that keeps the exit code.
type gitError struct {
	*refusal.Refusal
	err error
}

// Unwrap returns both.
func (e *gitError) Unwrap() []error { return []error{e.Refusal, e.err} }

// gitWords keeps the beginning of the text that is written to it.
type gitWords struct{ bytes.Buffer }

// Write accepts all bytes and keeps those that fit.
func (h *gitWords) Write(b []byte) (int, error) {
	keep := min(len(b), maxGitWords-h.Len())
	_, _ = h.Buffer.Write(b[:max(keep, 0)]) // never fails
	return len(b), nil
}

// stream runs git commands as a pipeline, and read reads the last one's output. If read ends early, the commands are
// stopped.
func (r Repository) stream(ctx context.Context, read func(io.Reader) error, pipeline ...[]string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var cmds []*exec.Cmd
	var words []*gitWords
	var in io.ReadCloser
	for _, args := range pipeline {
		cmd, w := r.command(ctx, args...), &gitWords{}
		if in != nil {
			cmd.Stdin = in
		}
		cmd.Stderr = w
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			cancel()
			return errors.Join(gitFailed(ctx, args[0], "", err), waitAll(cmds))
		}
		if in != nil {
			_ = in.Close() // the child has its copy
		}
		cmds, words, in = append(cmds, cmd), append(words, w), out
	}
	if err := read(in); err != nil {
		cancel()
		_ = waitAll(cmds) // they were stopped on purpose
		return err
	}
	for i, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			cancel()
			_ = waitAll(cmds[i+1:])
			return gitFailed(ctx, pipeline[i][0], words[i].String(), err)
		}
	}
	return nil
}

func waitAll(cmds []*exec.Cmd) error {
	var errs []error
	for _, cmd := range cmds {
		errs = append(errs, cmd.Wait())
	}
	return errors.Join(errs...)
}
