package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/cli"
)

const wordsReviewOutcome = "%s: %s\n"

// approve signs what was shown, if it still is what the gate has, and says what
// became of it. A refusal is said, and the item stays to be looked at; one that
// changed is shown again, with what changed.
func (r *review) approve(ctx context.Context, it *item) error {
	err := r.screen.aside(func() error { return r.signItem(ctx, it) })
	if c := (*changed)(nil); errors.As(err, &c) {
		r.tell("%s", it.unread(c.now, c.what))
		return nil
	}
	if err != nil {
		return r.failed(it, err)
	}
	r.tell(wordsReviewOutcome, it.name(), it.outcome)
	r.at++
	return nil
}

const wordsSigning = "signing %s as %s\n"

// signItem signs one item over its own bytes, and waits for what becomes of it.
func (r *review) signItem(ctx context.Context, it *item) error {
	if err := answered(it.shown.request); err != nil {
		return err
	}
	role, err := r.keys.flags.roleFor(usefulRoles(it.shown.request, r.keys.flags))
	if err != nil {
		return err
	}
	r.screen.write(fmt.Sprintf(wordsSigning, cli.Inline(it.id), cli.Inline(string(role))))
	req, err := r.approval.sign(ctx, it.shown, role)
	if err != nil {
		return err
	}
	it.decision, it.marked, it.request = approved, false, req
	if req, err = r.settled(ctx, r.client, req, r.wait); err != nil {
		return err
	}
	it.request, it.exit = req, api.ExitOfState(req.State)
	switch {
	case req.State == op.StatePending:
		it.outcome = fmt.Sprintf("signed; needs %s", cli.Waiting(req, r.now()))
	case !req.State.Open() && req.State != op.StateSucceeded:
		it.outcome = refusalLine(req.Error.Err())
	default:
		it.outcome, _, _ = strings.Cut(outcomeWords(req, r.now()), "\n")
	}
	return nil
}

const wordsPasted = "more came at once; press the key alone\n"

// reject asks why, and signs the refusal of what was shown. An r of a pasted word rejects nothing.
func (r *review) reject(ctx context.Context, it *item) error {
	if r.pasted() {
		r.tell("not rejected: " + wordsPasted)
		return nil
	}
	var wanted use
	if err := r.screen.aside(func() (err error) {
		wanted, err = r.mayReject(ctx, r.client, it.shown.request)
		return err
	}); err != nil {
		return r.failed(it, err)
	}
	r.screen.forget() // what was typed while the gate was asked whom it lists is no reason
	reason, err := r.screen.ask(fmt.Sprintf("Why do you reject %s? (an empty line: do not) ", cli.Inline(it.id)))
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if reason == "" {
		r.tell("not rejected\n")
		return nil
	}
	if ok, err := r.still(ctx, it); !ok {
		return err
	}
	if err := r.screen.aside(func() error { return r.signRejection(ctx, it, wanted, reason) }); err != nil {
		return r.failed(it, err)
	}
	r.tell(wordsReviewOutcome, it.name(), it.outcome)
	r.at++
	return nil
}

func (r *review) signRejection(ctx context.Context, it *item, wanted use, reason string) error {
	payload, err := r.rejection(it.shown, reason)
	if err != nil {
		return err
	}
	r.screen.write(fmt.Sprintf(wordsSigning, cli.Inline(it.id), cli.Inline(string(wanted.role))))
	req, err := r.signAndReject(ctx, r.client, wanted, it.id, payload)
	if err != nil {
		return err
	}
	it.decision, it.marked, it.request, it.exit, it.outcome = rejected, false, req, api.ExitDone, "rejected"
	return nil
}

// batch shows a line for each item that is marked, and signs each of them after
// one confirmation. One that changed is to be read again first, and then nothing
// is signed. A failure of one does not stop the others.
func (r *review) batch(ctx context.Context) (quit bool, err error) {
	for _, it := range r.marked() {
		changed, err := r.refresh(ctx, it)
		if err == nil {
			err = answered(it.shown.request)
		}
		if err != nil {
			it.marked = false
			return false, r.failed(it, err)
		}
		if changed != "" {
			r.at = r.indexOf(it)
			r.tell("%s", changed)
			return false, nil
		}
	}
	marked := r.marked()
	pages := r.pager(fmt.Sprintf("Approve these %d, each with a signature of its own?",
		len(marked)), batchText(marked, cli.Dash(r.Getenv)), [2]string{
		"y sign each of these  b back, sign none  q quit ",
		"more: space   b back, sign none  q quit "})
	for {
		key, err := pages.key(&r.message)
		switch {
		case err != nil || key == 'q':
			return true, err
		case key == 'b':
			r.at = min(r.at, r.indexOf(marked[len(marked)-1]))
			return false, nil
		case key == 'y' && pages.seen && r.pasted():
			r.tell("not signed: " + wordsPasted)
		case key == 'y' && pages.seen:
			if ok, err := r.allNamed(ctx, marked); err != nil || !ok {
				return false, err
			}
			return false, r.signAll(ctx, marked)
		case key == 'y':
			r.tell(wordsReadFirst)
		default:
			r.tell(wordsUnknownKey)
		}
	}
}

// allNamed has the operator type the name of each target for which named asks. Nothing is signed if one name is wrong.
func (r *review) allNamed(ctx context.Context, items []*item) (bool, error) {
	for _, it := range items {
		if ok, err := r.named(ctx, it); !ok {
			return false, err
		}
	}
	return true, nil
}

// signAll signs each item by itself, and says what became of each.
func (r *review) signAll(ctx context.Context, items []*item) error {
	return r.screen.aside(func() error {
		for _, it := range items {
			it.marked = false
			err := r.signItem(ctx, it)
			if c := (*changed)(nil); errors.As(err, &c) {
				it.unread(c.now, c.what)
			}
			if err != nil {
				if err := r.failed(it, err); err != nil {
					return err
				}
				continue
			}
			r.tell(wordsReviewOutcome, it.name(), it.outcome)
		}
		return nil
	})
}

// batchText has a line for each item, and its parameters, from its bytes. All of it was read on a screen of its own. Bytes and facts did not
// change since; who else asks may have.
func batchText(items []*item, dash string) string {
	text := ""
	for _, it := range items {
		text += it.name() + ": " + it.shown.headline(dash) + "\n"
		if p := it.shown.payload; len(p.Params) > 0 && p.Op != op.Rotate && p.Op != op.Run {
			text += "  " + cli.Inline(string(p.Params.Canonical())) + "\n"
		}
	}
	return text
}

// failed notes why an item could not be decided, and says it above the next
// screen. It returns the error only where nothing else can be decided either.
func (r *review) failed(it *item, err error) error {
	it.outcome, it.exit = refusalLine(err), api.Exit(err)
	if errors.Is(err, context.Canceled) || it.exit == api.ExitUnreachable {
		return err
	}
	r.tell(wordsReviewOutcome, it.name(), strings.TrimSuffix(cli.Why("opsign review", err), "\n"))
	return nil
}

func refusalLine(err error) string {
	var refused *refusal.Refusal
	if !errors.As(err, &refused) {
		return cli.Inline(err.Error())
	}
	return fmt.Sprintf("%s: %s", cli.Inline(string(refused.Code)), cli.Inline(refused.Detail))
}

// reviewed is one line of a summary as JSON.
type reviewed struct {
	ID       string   `json:"id"`
	Decision string   `json:"decision"` // approved, rejected, skipped, or empty
	State    op.State `json:"state"`    // of the request, as it was seen last
	Outcome  string   `json:"outcome"`  // for people
	Exit     int      `json:"exit"`
}

// severity orders exit codes, the worst last.
var severity = []int{api.ExitDone, api.ExitWaits, api.ExitRefused, api.ExitUsage, api.ExitInternal, api.ExitUnreachable}

// worse returns the worse of two exit codes.
func worse(a, b int) int {
	if slices.Index(severity, b) > slices.Index(severity, a) {
		return b
	}
	return a
}

// endsWorst says what became of each thing, in order, and ends with the worst exit code.
func endsWorst[T any](things []T, say func(T) (code int, err error)) error {
	worst := api.ExitDone
	for _, thing := range things {
		code, err := say(thing)
		if err != nil {
			return err
		}
		worst = worse(worst, code)
	}
	return cli.Ended(worst)
}

// summary says what became of each item, and ends with the worst exit code.
func (r *review) summary(err error) error {
	ended := endsWorst(r.items, func(it *item) (int, error) {
		if it.outcome == "" {
			it.outcome = "not decided"
			if it.marked {
				it.outcome = "marked, not signed"
			} else if it.decision == skipped {
				it.outcome = "skipped"
			}
		}
		return it.exit, r.Answer(reviewed{it.id, string(it.decision), it.request.State, it.outcome, it.exit},
			wordsReviewOutcome, it.name(), it.outcome)
	})
	return cmp.Or(err, ended)
}
