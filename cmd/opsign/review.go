package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/people/shown"
	"gated/internal/wire/cli"
)

const wordsNoTerminal = "there is no terminal to review on; instead: opsign list, opsign show ID, then opsign approve ID --yes"

func (t *tool) reviewCommand() *cobra.Command {
	var k keyFlags
	var noWait bool
	c := t.Command(cli.Words{
		Use:   "review",
		Short: "Walk through what waits, and approve or reject each with one key",
		Long: `Shows one request a screen: what it would do, to what, whether that can be undone, what goes and what stays, who
asked and why, and which signatures are missing. d shows the details and ? the keys. Several can be marked and
approved together, each with a signature of its own. What is gone, what people can undo for a while only, and a rotation
are signed once you type the name of the target. Ends with a line for each, and with the exit code of the worst. It
needs a terminal.`,
		Example: "  opsign review\n" +
			"  opsign review --agent",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		if !cli.IsTerminal(t.stdin) {
			return cli.Usage(wordsNoTerminal)
		}
		keys, err := t.keyring(k)
		if err != nil {
			return err
		}
		return t.review(c.Context(), keys, !noWait)
	})
	t.keyFlags(c, &k)
	c.Flags().BoolVar(&noWait, "no-wait", false, flagNoWait)
	return c
}

// review is one walk through what waits.
type review struct {
	approval
	screen  *screen
	items   []*item
	at      int    // the item that is looked at
	message string // what is said above the next screen; lines with their ends
}

// tell says something above the next screen, below what no screen has shown yet. What is said again at once is said once.
func (r *review) tell(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.message = strings.TrimSuffix(r.message, text) + text
}

// item is one request on the way through.
type item struct {
	id       string
	shown    question // what was shown last
	read     bool     // all of it was
	marked   bool
	details  bool // are shown, too
	decision decision
	request  api.Request // as it is after the decision
	outcome  string      // what became of it, for people
	exit     int

	others   []api.Request // that were open when it was shown last
	unlisted error         // why they could not be listed
}

// name says which request an item is, safe to print. Those for one command differ in
// what is asked of it.
func (it *item) name() string {
	if r := it.shown.request; r.Op == op.Run {
		return cli.Inline(it.id) + " " + cli.Asked(r.Target, r.Params)
	}
	return cli.Inline(it.id)
}

// decision is what the operator did with a request.
type decision string

const (
	undecided decision = ""
	skipped   decision = "skipped"
	approved  decision = "approved"
	rejected  decision = "rejected"
)

const wordsReviewMore = "more: space   a approve  r reject  s skip  m mark  d details  q quit  ? help "

const wordsReviewKeys = "a approve  r reject  s skip  m mark  b back  d details  q quit  ? help "

func (t *tool) review(ctx context.Context, keys *keyring, wait bool) error {
	cl, err := t.Client()
	if err != nil {
		return err
	}
	defer cl.Close()
	requests, _, err := t.open(ctx, cl, false)
	if err != nil {
		return err
	}
	r := &review{approval: approval{asker: &asker{tool: t, keys: keys}, client: cl, wait: wait}}
	for _, q := range requests {
		r.items = append(r.items, &item{id: q.ID, shown: question{request: q}, request: q})
	}
	if len(r.items) == 0 {
		if !t.JSON {
			t.Print(wordsNothingWaits)
		}
		return nil
	}
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return cli.Usage(wordsNoTerminal)
	}
	defer func() { _ = tty.Close() }() // all was written
	if r.screen, err = openScreen(tty, t.Getenv("TERM")); err != nil {
		return err
	}
	if rows, cols := r.screen.size(); !fits(rows, cols, [2]string{wordsReviewKeys, wordsReviewMore}) {
		r.screen.close()
		return cli.Usage(wordsTooSmall)
	}
	err = r.walk(ctx)
	r.screen.close()
	return r.summary(err)
}

// walk shows the items one after another until all were, or the operator quits.
// Marked ones that are left at the end are asked for.
func (r *review) walk(ctx context.Context) error {
	for {
		for r.at < len(r.items) && r.items[r.at].decision != undecided && r.items[r.at].decision != skipped {
			r.at++
		}
		var quit bool
		var err error
		switch {
		case r.at < len(r.items):
			quit, err = r.look(ctx, r.items[r.at])
		case len(r.marked()) > 0:
			if quit, err = r.batch(ctx); err == nil && !quit && len(r.marked()) > 0 && r.at == len(r.items) {
				r.at = r.indexOf(r.marked()[0]) // nothing was signed: look again
			}
		default:
			return nil
		}
		if err != nil || quit {
			return err
		}
	}
}

// look shows one item afresh and does what the operator says. Refusals are said
// and change nothing; it fails only where nothing more can be done at all.
func (r *review) look(ctx context.Context, it *item) (quit bool, err error) {
	first := it.shown.bytes == nil
	if _, err := r.refresh(ctx, it); err != nil {
		it.decision, it.marked = skipped, false // there is nothing to show of it
		r.at++
		return false, r.failed(it, err)
	}
	if !r.decidable(it.shown.request) {
		it.outcome, it.marked = fmt.Sprintf("%s already", cli.Inline(string(it.shown.request.State))), false
		r.tell(wordsReviewOutcome, it.name(), it.outcome)
		it.decision = skipped
		r.at++
		return false, nil
	}
	if first {
		r.tell("%s", r.sinceShown(it.shown))
	}
	it.others, it.unlisted = r.listed(ctx)
	pages := r.pager(r.heading(it), r.textOf(it), r.keysOf(it))
	for {
		key, err := pages.key(&r.message)
		if err != nil {
			return true, err
		}
		if pages.seen && !it.read {
			it.read = true
			_ = r.keep(it.shown, shown.OnTerminal, true) // as in showRequest
		}
		switch key {
		case 'd':
			r.turnDetails(it, pages)
		case '?':
			if err := r.help(); err != nil {
				return true, err
			}
			pages.again(r.settling)
		default:
			if moved, quit, err := r.press(ctx, it, key); moved || quit || err != nil {
				return quit, err
			}
		}
	}
}

const wordsUnknownKey = "? shows the keys\n"

// press does what a key says. moved means that the screen is another one now.
func (r *review) press(ctx context.Context, it *item, key int) (moved, quit bool, err error) {
	switch key {
	case 'a':
		return r.pressApprove(ctx, it)
	case 'm':
		if !r.mayApprove(it) {
			return false, false, nil
		}
		it.marked = !it.marked
		r.at++
	case 'r':
		return true, false, r.reject(ctx, it)
	case 's', 'n':
		it.decision, it.marked = skipped, false
		r.at++
	case 'b':
		return r.back(), false, nil
	case 'q':
		return false, true, nil
	default:
		r.tell(wordsUnknownKey)
		return false, false, nil
	}
	return true, false, nil
}

// pasted drops what comes right after a key, and reports whether something did: a pasted word decides nothing.
func (r *review) pasted() (some bool) {
	for {
		if _, more := r.screen.soon(int(r.settling.Milliseconds())); !more {
			return some
		}
		some = true
	}
}

func (r *review) pressApprove(ctx context.Context, it *item) (moved, quit bool, err error) {
	if len(r.marked()) > 0 {
		quit, err = r.batch(ctx)
		return true, quit, err
	}
	if !r.mayApprove(it) {
		return false, false, nil
	}
	if r.pasted() {
		r.tell("not signed: " + wordsPasted)
		return true, false, nil
	}
	if ok, err := r.named(ctx, it); !ok {
		return true, false, err
	}
	return true, false, r.approve(ctx, it)
}

// named has the operator type the name of a target before a step that gated cannot undo takes
// something from it, and before a rotation. It says so above the next screen if it is another name.
func (r *review) named(ctx context.Context, it *item) (bool, error) {
	level, _ := it.shown.undo()
	why := strings.ToLower(hard[level])
	if it.shown.payload.Op == op.Rotate {
		why = "changes who may approve what"
	}
	if why == "" {
		return true, nil
	}
	if err := r.screen.aside(func() error { _, err := r.mayAs(ctx, it.shown.request); return err }); err != nil {
		return false, r.failed(it, err)
	}
	name := it.shown.payload.Target.Name
	r.screen.forget() // a pasted name signs nothing
	typed, err := r.screen.ask(fmt.Sprintf("%s %s. Type %s to sign it (an empty line: do not): ",
		cli.Inline(it.id), why, cli.Inline(name)))
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	if typed == name {
		return true, nil
	}
	r.tell("%s was not signed: the name was not typed\n", cli.Inline(it.id))
	return false, nil
}

const listTime = 3 * time.Second

// listed asks for the open requests. A gate that shows one and does not list them holds no screen up.
func (r *review) listed(ctx context.Context) ([]api.Request, error) {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	return r.client.Requests(ctx, "")
}

// textOf shows an item with what its operator wants to see.
func (r *review) textOf(it *item) string {
	v := r.view(it.details)
	v.more = "d"
	v.others, v.unlisted = it.others, it.unlisted
	return it.shown.text(v)
}

// turnDetails shows the details of an item, from their first line on, or takes them
// away again.
func (r *review) turnDetails(it *item, pages *pager) {
	it.details = !it.details
	text, top := r.textOf(it), 0
	if it.details {
		before, _, _ := strings.Cut(text, wordsSigned)
		top = len(cli.Wrapped(before, pages.cols-1))
	}
	pages.turn(text, top)
}

const wordsReadFirst = "there is more to read: space shows it\n"

// mayApprove says why an item cannot be approved or marked yet.
func (r *review) mayApprove(it *item) bool {
	switch {
	case it.shown.request.State != op.StatePending:
		r.tell("it is authorized already; r stops it\n")
	case !it.read:
		r.tell(wordsReadFirst)
	default:
		return true
	}
	return false
}

// back goes to the item before that is not decided.
func (r *review) back() bool {
	for i := r.at - 1; i >= 0; i-- {
		if d := r.items[i].decision; d == undecided || d == skipped && r.decidable(r.items[i].shown.request) {
			r.items[i].decision = undecided
			r.at = i
			return true
		}
	}
	r.tell("there is none before it\n")
	return false
}

const (
	wordsAnyKey   = "any letter: back "
	wordsHelpMore = "more: space   any letter: back "
)

func (r *review) help() error {
	_, err := r.pager("keys", `Each screen is one request: what is signed, what goes and what stays.

  a      approve it: sign it, and see what becomes of it
  r      reject it; asks for the reason
  s, n   skip it, and leave it waiting
  m      mark it; a then has a line for each that is marked, and signs each
         of them by itself once you say y. One that changed is read again
  b      back to the one before
  d      the details: ids, hashes and times that the signature binds
  space  the next page; up and down keys page too
  q      quit; what is not decided goes on waiting

What is gone, what people can undo for a while only, and a change of the
signers are signed once you type the name of the target. Nothing is approved
before all of its pages were shown.
A request that changes while you look at it is shown again.
`, [2]string{wordsAnyKey, wordsHelpMore}).key(&r.message)
	return err
}

// refresh asks for an item again, and says what of it is not as it was shown:
// the bytes to sign, or the facts. Then it has to be read again. The
// answer is empty where it is still the same.
func (r *review) refresh(ctx context.Context, it *item) (changed string, err error) {
	q, err := r.question(ctx, r.client, it.id)
	if err != nil {
		return "", err
	}
	if it.shown.bytes != nil { // else it was not shown yet
		changed = q.since(it.shown)
	}
	it.request = q.request
	if changed == "" {
		it.shown = q
		return "", nil
	}
	return it.unread(q, changed), nil
}

const wordsChanged = "%s changed while you looked, and nothing was signed: this is how it is now\n"

// unread makes an item one that has to be read again, and says what of it changed.
func (it *item) unread(now question, what string) string {
	it.read, it.marked, it.shown, it.request = false, false, now, now.request
	text := fmt.Sprintf(wordsChanged, cli.Inline(it.id)) + what
	if now.moving {
		text += "only counts, sizes and times move: once you have read it again, they hold up no signature\n"
	}
	return text
}

// still reports whether an item is as it was shown, right before it is signed.
// Otherwise it says why not above the next screen.
func (r *review) still(ctx context.Context, it *item) (bool, error) {
	changed, err := r.refresh(ctx, it)
	if err != nil {
		return false, r.failed(it, err)
	}
	r.tell("%s", changed)
	return changed == "", nil
}

func (r *review) marked() (out []*item) {
	for _, it := range r.items {
		if it.marked {
			out = append(out, it)
		}
	}
	return out
}

func (r *review) indexOf(it *item) int { return slices.Index(r.items, it) }

// heading says which of the requests this is.
func (r *review) heading(it *item) string {
	mark, marks := "", ""
	if it.marked {
		mark = ", marked"
	}
	if n := len(r.marked()); n > 0 {
		marks = fmt.Sprintf(" (%d marked)", n)
	}
	return fmt.Sprintf("%d of %d%s%s", r.indexOf(it)+1, len(r.items), mark, marks)
}

const wordsReviewStop = "r stop it  s skip  b back  d details  q quit  ? help "

// keysOf returns the keys of an item's last page, and of those before.
func (r *review) keysOf(it *item) [2]string {
	if it.shown.request.State != op.StatePending {
		return [2]string{wordsReviewStop, wordsReviewStop}
	}
	return [2]string{wordsReviewKeys, wordsReviewMore}
}
