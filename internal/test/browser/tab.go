package browser

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/emulation"
	devlog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// Open opens an address and waits until the page has loaded.
func (p *Tab) Open(address string) {
	p.t.Helper()
	p.do("open "+address, chromedp.Navigate(address))
}

// Reload loads the page again.
func (p *Tab) Reload() {
	p.t.Helper()
	p.do("reload", chromedp.Reload())
}

// URL returns the page's address.
func (p *Tab) URL() string {
	p.t.Helper()
	return run(p, "address", chromedp.Location())
}

// Title returns the page's title.
func (p *Tab) Title() string {
	p.t.Helper()
	return run(p, "title", chromedp.Title())
}

// Wait waits until an element that the CSS selector finds is visible.
func (p *Tab) Wait(selector string) {
	p.t.Helper()
	onElement(p, "wait for "+selector, chromedp.WaitVisible(chromedp.CSS(selector)))
}

// WaitGone waits until no element that the CSS selector finds is left.
func (p *Tab) WaitGone(selector string) {
	p.t.Helper()
	onElement(p, "wait for the end of "+selector, chromedp.WaitNotPresent(chromedp.CSS(selector)))
}

// WaitText waits until an element that the CSS selector finds has a text, also if the page
// goes to another address meanwhile.
func (p *Tab) WaitText(selector, text string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	for {
		err := chromedp.Do(ctx, chromedp.PollFunction[chromedp.Void](
			`(selector, text) => [...document.querySelectorAll(selector)].some(e => e.textContent.includes(text))`,
			chromedp.WithPollingArgs(selector, text), chromedp.WithPollingTimeout(patience)))
		if err == nil {
			return
		}
		// The page that was asked has gone. Another one begins with an element.
		if chromedp.Do(ctx, chromedp.WaitReady(chromedp.CSS("body"))) != nil {
			require.FailNow(p.t, "it did not come", "%q in %s: %v; the page shows %q and said %q", text, selector, err, p.shown(), p.said.all())
		}
	}
}

// shown returns the whole text of the page, for a failure's message.
func (p *Tab) shown() string {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string]("document.body.innerText"))
	if err != nil {
		return err.Error()
	}
	return text
}

// Click clicks on the element, as a mouse does.
func (p *Tab) Click(selector string) {
	p.t.Helper()
	onElement(p, "click on "+selector, chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible, chromedp.NodeEnabled))
}

// Type types a text into the element.
func (p *Tab) Type(selector, text string) {
	p.t.Helper()
	onElement(p, "type into "+selector, chromedp.SendKeys(chromedp.CSS(selector), text, chromedp.NodeVisible))
}

// onElement runs an action on an element before a deadline and returns its value. If news swap the page after the element was
// found and before anything was done to it, the action begins anew, with the element of the new page, as a person does.
func onElement[T any](p *Tab, what string, action chromedp.Action[T]) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, action)
	for ctx.Err() == nil && isSwapped(err) {
		v, err = chromedp.Run(ctx, action)
	}
	if err != nil {
		require.FailNow(p.t, "it cannot be done", "%s: %v; the page shows %q and said %q", what, err, p.shown(), p.said.all())
	}
	return v
}

// isSwapped reports whether the browser did not know an element any more. It says so before it does anything to it.
func isSwapped(err error) bool {
	var refused *cdproto.Error
	return errors.As(err, &refused) && slices.ContainsFunc([]string{"Could not find node", "No node with given id", "Node is detached"},
		func(said string) bool { return strings.HasPrefix(refused.Message, said) })
}

// Press presses keys at whatever has the focus. Package kb of chromedp has their names.
func (p *Tab) Press(keys string) {
	p.t.Helper()
	p.do("press keys", chromedp.KeyEvent(keys))
}

// Text returns the visible text of the element.
func (p *Tab) Text(selector string) string {
	p.t.Helper()
	return strings.TrimSpace(onElement(p, "text of "+selector, chromedp.Text(chromedp.CSS(selector), chromedp.NodeVisible)))
}

// Size sets the size of the page in CSS pixels.
func (p *Tab) Size(width, height int64) {
	p.t.Helper()
	p.do("size", chromedp.EmulateViewport(width, height))
}

// Dark says if the person prefers dark pages.
func (p *Tab) Dark(yes bool) {
	p.t.Helper()
	scheme := "light"
	if yes {
		scheme = "dark"
	}
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
}

// Screenshot returns the visible part of the page as PNG.
func (p *Tab) Screenshot() []byte {
	p.t.Helper()
	return run(p, "screenshot", chromedp.CaptureScreenshot())
}

// Eval evaluates JavaScript outside the page's content security policy, waits for a
// promise and returns its value.
func Eval[T any](p *Tab, expression string) T {
	p.t.Helper()
	return run(p, "evaluate", chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// Said returns what the page wrote to its console, and what the browser said about it:
// errors of scripts, refusals by the content security policy.
func (p *Tab) Said() []string { return p.said.all() }

// messages collects what a page says. Its methods may run at the same time.
type messages struct {
	mu    sync.Mutex
	texts []string
}

func (m *messages) all() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.texts)
}

// hear is called for each event of a page.
func (m *messages) hear(event any) {
	var text string
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		text = string(e.Type)
		for _, a := range e.Args {
			text += " " + string(a.Value) + a.Description
		}
	case *runtime.EventExceptionThrown:
		text = "exception " + e.ExceptionDetails.Text
		if x := e.ExceptionDetails.Exception; x != nil {
			text += " " + x.Description
		}
	case *devlog.EventEntryAdded:
		text = string(e.Entry.Level) + " " + e.Entry.Text + " " + e.Entry.URL
	default:
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.texts = append(m.texts, text)
}
