package hook

import (
	"bufio"
	"context"
	"io"
	"os/exec"
	"slices"
	"strings"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

const (
	// gateRefs begins the names of the refs that gated keeps in a repository. No push may touch them.
	gateRefs = "refs/gated/"
	// askedRefs begins the refs that keep the new objects of forced pushes until an operator has decided.
	askedRefs = gateRefs + "asked/"
	// maxReceived is how many refs one push may have.
	maxReceived = 100_000
	// maxAsked is for how many refs of one push operators are asked.
	maxAsked = 10
)

// ReceiveDeadline is the default of ReceiveHook's Deadline: the gate answers when the entry's probe has looked.
const ReceiveDeadline = 30 * time.Second

// DefaultReceiveCommand is the entry of the catalogue in contrib/recipes/git.
const DefaultReceiveCommand = "git-replace-ref"

// received is one line of pre-receive's standard input (githooks(5)).
type received struct{ old, now, ref string }

func (r received) deletes() bool { return isZero(r.now) }

// parseReceived reads git's input to pre-receive. Any other line is Malformed.
func parseReceived(in io.Reader) ([]received, error) {
	var list []received
	s := bufio.NewScanner(in)
	s.Buffer(nil, maxRefLine)
	for s.Scan() {
		f := strings.Split(s.Text(), " ")
		if len(f) != 3 || !isObjectID(f[0]) || !isObjectID(f[1]) || len(f[0]) != len(f[1]) || !strings.HasPrefix(f[2], "refs/") {
			return nil, refusal.New(refusal.Malformed, "pre-receive was given a line that git does not write: %.80q", s.Text()).
				WithHint("git writes: OLD-ID NEW-ID REF")
		}
		if len(list) == maxReceived {
			return nil, refusal.New(refusal.OverLimit, "the push has more than %d refs", maxReceived).WithHint("push in smaller parts")
		}
		list = append(list, received{f[0], f[1], f[2]})
	}
	if err := s.Err(); err != nil {
		return nil, refusal.New(refusal.Malformed, "what git writes to pre-receive cannot be read: %v", err)
	}
	return list, nil
}

// takesAway reports whether an update loses what a ref has. That is a delete, a push that is no fast-forward, and any
// change of a tag or of a ref that is at no commit.
func (r Repository) takesAway(ctx context.Context, u received) (bool, error) {
	switch {
	case u.deletes():
		return true, nil
	case isZero(u.old), u.old == u.now:
		return false, nil // git compares the old object with the ref's before it makes or keeps one
	case strings.HasPrefix(u.ref, "refs/tags/"):
		return true, nil
	}
	for _, id := range []string{u.old, u.now} {
		if kind, err := r.line(ctx, "cat-file", "-t", id); err != nil || kind != "commit" {
			return true, err
		}
	}
	cmd := r.command(ctx, "merge-base", "--is-ancestor", u.old, u.now)
	words := &gitWords{}
	cmd.Stderr = words
	err := cmd.Run()
	if exit, ok := err.(*exec.ExitError); ok && exit.ExitCode() == 1 {
		return true, nil
	}
	if err != nil {
		return true, gitFailed(ctx, "merge-base", words.String(), err)
	}
	return false, nil
}

// withoutQuarantine is the repository without the objects of the push that git is about to take or to refuse
// (git-receive-pack(1), "Quarantine Environment").
func (r Repository) withoutQuarantine() Repository {
	r.Env = slices.DeleteFunc(slices.Clone(r.environment()), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return name == "GIT_QUARANTINE_PATH" || name == "GIT_OBJECT_DIRECTORY" || name == "GIT_ALTERNATE_OBJECT_DIRECTORIES"
	})
	return r
}

// keep copies a push's new objects into the repository and names them with a ref. git drops what it refused, and the
// gate needs the objects when an operator has signed.
func (r Repository) keep(ctx context.Context, id string) error {
	stays := r.withoutQuarantine()
	err := r.stream(ctx, func(pack io.Reader) error {
		cmd := stays.command(ctx, "index-pack", "--stdin")
		words := &gitWords{}
		cmd.Stdin, cmd.Stderr = pack, words
		if err := cmd.Run(); err != nil {
			return gitFailed(ctx, "index-pack", words.String(), err)
		}
		return nil
	}, []string{"rev-list", "--objects", id, "--not", "--all"}, []string{"pack-objects", "--stdout", "-q"})
	if err == nil {
		_, err = stays.output(ctx, "update-ref", askedRefs+id, id)
	}
	return err
}

// ReceiveHook judges what is pushed to a bare repository. What takes nothing away passes, and nobody is asked. For the
// rest it asks the gate, and refuses the push: when an operator has signed, the gate itself changes the ref.
type ReceiveHook struct {
	Repository
	Submit   func(context.Context, api.Submit) (api.Job, error)
	Deadline time.Duration // for each answer of the gate; above 0
	Command  string        // the entry of the catalogue: its parameters are repository, ref, old and new
	Who      string        // who pushed, in the words of what runs the hook; may be empty
}

// Receive judges a push; in is git's input to pre-receive. A push that loses something is always refused, also if the
// gate cannot be asked.
func (h ReceiveHook) Receive(ctx context.Context, in io.Reader) Outcome {
	all, err := parseReceived(in)
	if err != nil {
		return cannotReceive(err)
	}
	losing, err := within(ctx, gitTime, func(ctx context.Context) ([]received, error) { return h.losing(ctx, all) })
	switch {
	case err != nil:
		return cannotReceive(err)
	case len(losing) == 0:
		return Outcome{}
	}
	place, err := within(ctx, gitTime, func(ctx context.Context) (string, error) { return h.prepare(ctx, losing) })
	if err != nil {
		return cannotReceive(err)
	}
	var asked []askedFor
	for _, u := range losing {
		job, err := within(ctx, h.Deadline, func(ctx context.Context) (api.Job, error) { return h.Submit(ctx, h.wish(place, u)) })
		asked = append(asked, askedFor{u, job, err})
	}
	return Outcome{Stderr: wordsReceived(asked, len(all) > len(losing)), Code: exitRefused}
}

// losing returns the updates that an operator has to sign.
func (h ReceiveHook) losing(ctx context.Context, all []received) ([]received, error) {
	var out []received
	for _, u := range all {
		if strings.HasPrefix(u.ref, gateRefs) {
			return nil, refusal.New(refusal.NotAllowed, "%s is a ref of gated's own", op.Shown(u.ref)).WithHint("push to another ref")
		}
		// The old object is the pusher's word. If it is none, git deletes whatever the ref is at, without a comparison.
		if u.deletes() && isZero(u.old) {
			return nil, refusal.New(refusal.NotAllowed, "the push deletes %s and does not say what that is at", op.Shown(u.ref)).
				WithHint("if the ref is still there, git fetch, and push the delete again")
		}
		takes, err := h.takesAway(ctx, u)
		if err != nil {
			return nil, err
		}
		if takes {
			out = append(out, u)
		}
	}
	if len(out) > maxAsked {
		return nil, refusal.New(refusal.OverLimit, "the push deletes or replaces %d refs, more than %d", len(out), maxAsked).
			WithHint("push in smaller parts")
	}
	return out, nil
}

// prepare keeps the new objects and returns the repository's path. It refuses, as NotAllowed, a push to a namespace
// (gitnamespaces(7)): the ref that git names here is another one to the gate.
func (h ReceiveHook) prepare(ctx context.Context, losing []received) (string, error) {
	if slices.ContainsFunc(h.environment(), func(v string) bool { return strings.HasPrefix(v, "GIT_NAMESPACE=") && v != "GIT_NAMESPACE=" }) {
		return "", refusal.New(refusal.NotAllowed, "the push to a namespace takes away what a ref has, and operators are not asked for refs of namespaces").
			WithHint("an operator of the server changes the ref")
	}
	for _, u := range losing {
		if u.deletes() {
			continue
		}
		if err := h.keep(ctx, u.now); err != nil {
			return "", err
		}
	}
	return h.line(ctx, "rev-parse", "--absolute-git-dir")
}

func (h ReceiveHook) wish(place string, u received) api.Submit {
	reason := "git push"
	if h.Who != "" {
		reason += " by " + bounded(h.Who, maxField)
	}
	return api.SubmitOf(reason, api.Ask{Op: op.Run, Target: op.KindCommand + "/" + h.Command,
		Params: api.Params{"repository": place, "ref": u.ref, "old": u.old, "new": u.now}})
}
