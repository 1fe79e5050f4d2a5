// Package browser is for tests alone: it starts Debian's chromium without a window, with
// virtual authenticators in the place of phones and security keys.
//
// Tests wait for what happens in a page, with a deadline, and never for time to pass.
package browser

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// patience is how long a test waits for one thing in a page. The test's machine may be
// busy with others.
const patience = time.Minute

// Browser is one chromium with a profile of its own.
type Browser struct {
	ctx context.Context
}

// Start starts a chromium, which ends with the test. The test is skipped if there is
// none. It resolves names of this host alone and talks to nothing but loopback. The names
// below example.com are this host, and the given certificates are right.
func Start(t *testing.T, trusted ...*x509.Certificate) *Browser {
	t.Helper()
	return StartAt(t, "127.0.0.1", trusted...)
}

// StartAt is Start with the names below example.com at an address of this host. It may have a
// port, which takes the place of the one in a URL.
func StartAt(t *testing.T, address string, trusted ...*x509.Certificate) *Browser {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("needs chromium (Debian: chromium)")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program),
		// Names lead to loopback or nowhere.
		chromedp.Flag("host-resolver-rules", "MAP localhost localhost, MAP *.example.com "+address+", MAP *.test 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE [::1]"),
		chromedp.Flag("no-proxy-server", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-domain-reliability", true),
	)
	var keys []string
	for _, c := range trusted {
		sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
		keys = append(keys, base64.StdEncoding.EncodeToString(sum[:]))
	}
	if len(keys) > 0 {
		options = append(options, chromedp.Flag("ignore-certificate-errors-spki-list", strings.Join(keys, ",")))
	}
	alloc, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(alloc, chromedp.WithErrorf(t.Logf))
	// chromedp removes the profile, and tries again while processes of chromium still write there.
	t.Cleanup(func() {
		cancel()
		stop()
	})
	require.NoError(t, chromedp.Do(ctx), "start of chromium")
	return &Browser{ctx: ctx}
}

// Tab is one page of a browser.
type Tab struct {
	t   *testing.T
	ctx context.Context

	said *messages
}

// Tab opens an empty page. Tabs of one browser share cookies and storage.
func (b *Browser) Tab(t *testing.T) *Tab { return open(t, b.ctx) }

// Person opens an empty page in a context of its own, with its own cookies, as another
// person's browser has them.
func (b *Browser) Person(t *testing.T) *Tab {
	return open(t, b.ctx, chromedp.WithNewBrowserContext())
}

func open(t *testing.T, parent context.Context, options ...chromedp.ContextOption) *Tab {
	t.Helper()
	said := &messages{}
	ctx, cancel := chromedp.NewContext(parent, append(options, chromedp.WithListener(said.hear))...)
	t.Cleanup(cancel)
	tab := &Tab{t: t, ctx: ctx, said: said}
	require.NoError(t, chromedp.Do(ctx))
	return tab
}

// do runs actions before a deadline.
func (p *Tab) do(what string, actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	require.NoError(p.t, chromedp.Do(ctx, actions...), "%s; the page said %q", what, p.said.all())
}

// run runs one action before a deadline and returns its value.
func run[T any](p *Tab, what string, action chromedp.Action[T]) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, action)
	require.NoError(p.t, err, "%s; the page said %q", what, p.said.all())
	return v
}

// call runs a command of the protocol before a deadline.
func call[P, R any](p *Tab, command cdp.Command[P, R], params P) R {
	p.t.Helper()
	return run(p, command.Method, func(ctx context.Context, t *chromedp.Target) (R, error) {
		return cdp.Call(ctx, t, command, params)
	})
}
