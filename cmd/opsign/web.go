package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/refusal"
	"gated/internal/web/access"
	"gated/internal/web/gates"
	"gated/internal/web/page"
	"gated/internal/wire/cli"
)

// webPort is fixed, because passkeys.origins of gated.yaml names it.
const webPort = 7480

func (t *tool) webCommand() *cobra.Command {
	var k keyFlags
	port := uint16(webPort)
	c := t.Command(cli.Words{
		Use:   "web",
		Short: "Show what waits at all known gates in a browser of this machine",
		Long: `Listens on 127.0.0.1 and ::1 alone, and prints the address to open. The part behind its # opens one session in one
browser; a new address is printed when a browser comes without a session. The gates are all that opsign known lists, or
the one that --socket, --remote or GATED_HOST names. A decision is signed by a passkey in the browser, or by opsign in
this terminal: it shows the request and asks, as opsign approve does. Without a terminal, passkeys alone sign.

Ends with Ctrl-C.`,
		Example: "  opsign web\n" +
			"  opsign -H ssh://alice@pve1 web --port 7481",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		context.AfterFunc(ctx, stop) // a second signal ends the program at once
		return t.web(ctx, k, port)
	})
	t.keyFlags(c, &k)
	c.Flags().Uint16Var(&port, "port", port, "the `PORT` of 127.0.0.1 and ::1; 0 for any that is free")
	_ = c.RegisterFlagCompletionFunc("port", cobra.NoFileCompletions) // the flag was just added
	return c
}

// web serves the pages until ctx ends.
func (t *tool) web(ctx context.Context, k keyFlags, port uint16) error {
	if err := errors.Join(k.alone(), t.check(k)); err != nil {
		return err
	}
	known, err := t.webGates(ctx)
	if err != nil {
		return err
	}
	listeners, at, err := listenLocally(ctx, port)
	if err != nil {
		return err
	}
	defer func() {
		for _, l := range listeners {
			_ = l.Close() // Serve closed it, if it came to that
		}
	}()
	beside := &aside{to: t.Stderr}
	quiet := *t
	quiet.Stderr, quiet.unasked = beside, false
	logger := slog.New(slog.NewTextHandler(beside, &slog.HandlerOptions{Level: slog.LevelWarn}))
	options, err := t.Where()
	if err != nil {
		return err
	}
	set, err := gates.New(gates.Config{Known: known, Options: options, Identify: quiet.webIdentify(), Now: t.now, Logger: logger})
	if err != nil {
		return err
	}
	origin := "http://" + net.JoinHostPort("localhost", strconv.Itoa(at))
	var wall *access.Wall
	var printing sync.Mutex
	address := func() {
		printing.Lock()
		defer printing.Unlock()
		if !wall.TokenWaits() {
			t.sayAddress(beside, origin+access.LaunchPath+"#"+wall.NewToken())
		}
	}
	wall, err = access.New(access.Config{Origins: []string{origin}, Local: true, Wanted: address, Now: t.now, Logger: logger})
	if err != nil {
		return err
	}
	c := page.Config{Gates: set, Wall: wall, Origin: origin, RPID: "localhost", Local: true, Now: t.now, Logger: logger}
	pages, end, err := t.webPages(ctx, &c, k, beside)
	if err != nil {
		return err
	}
	defer end()
	address()
	if c.Terminal == nil {
		t.Say("note: there is no terminal to ask on, so passkeys alone sign\n")
	}
	return runWeb(ctx, set, wall, pages, listeners)
}

// runWeb watches the gates and serves the pages until ctx ends.
func runWeb(ctx context.Context, set *gates.Set, wall *access.Wall, pages http.Handler, listeners []net.Listener) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	watching := make(chan error, 1)
	go func() { watching <- set.Run(ctx) }()
	err := wall.Serve(ctx, pages, nil, listeners...)
	stop()
	return errors.Join(err, <-watching)
}

// webPages makes the pages. If there is a terminal, it is theirs to ask on.
func (t *tool) webPages(ctx context.Context, c *page.Config, k keyFlags, beside *aside) (pages http.Handler, end func(), err error) {
	end = func() {}
	asks, err := t.asker(false, k)
	switch {
	case err == nil:
		end = asks.close
		c.Terminal = &webTerminal{asks: asks, gates: c.Gates, keys: k, beside: beside, ends: ctx}
	case api.Exit(err) == api.ExitUsage:
	default:
		return nil, end, err
	}
	pages, err = page.New(*c)
	return pages, end, err
}

// webGates returns the gates to show: the one that the flags or the environment name, which is met as by any command, or
// all that are known. Where none is known, it is that of this host.
func (t *tool) webGates(ctx context.Context) ([]client.KnownGate, error) {
	where, err := t.Where()
	if err != nil {
		return nil, err
	}
	if where.Socket == "" && where.Remote == "" && t.Getenv("GATED_SOCKET") == "" {
		known, err := client.KnownGatesOf(t.Getenv).List()
		if err != nil || len(known) > 0 {
			return known, err
		}
	}
	cl, err := t.Client()
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	s, err := t.knownGate(ctx, cl)
	if err != nil {
		return nil, err
	}
	return []client.KnownGate{{Address: cl.Address(), Host: s.Host, Gate: s.Gate}}, nil
}

// webIdentify is knownGate for the watchers of gates: nobody is asked, and each text is said once.
func (t *tool) webIdentify() func(context.Context, *client.Client) (api.Status, error) {
	var mu sync.Mutex
	said := map[string]bool{}
	return func(ctx context.Context, cl *client.Client) (api.Status, error) {
		one := *t
		texts := &collected{}
		one.Stdout, one.Stderr, one.said, one.unasked = io.Discard, texts, nil, true
		s, err := one.knownGate(ctx, cl)
		mu.Lock()
		defer mu.Unlock()
		for _, text := range texts.said {
			if !said[text] && len(said) < 1000 { // one for each gate and reason
				said[text] = true
				t.Say("%s", text)
			}
		}
		return s, err
	}
}

// collected keeps what is said.
type collected struct{ said []string }

// Write keeps one text.
func (c *collected) Write(b []byte) (int, error) {
	c.said = append(c.said, string(b))
	return len(b), nil
}

// webAddress is the answer of web with --json.
type webAddress struct {
	Address string `json:"address"`
}

// sayAddress prints an address to open. It goes nowhere else: what a command line has, every user of this machine can read.
func (t *tool) sayAddress(beside *aside, address string) {
	beside.wait(func() {
		if t.JSON {
			_ = t.Emit(webAddress{address}) // nobody reads it any more
			return
		}
		t.Print("%s\n", address)
	})
}

// listenLocally listens on both loopback addresses at one port, and says which. A machine without IPv6 has one of them. Another
// program at one of them would get what a browser sends to localhost, so that is refused.
func listenLocally(ctx context.Context, port uint16) (listeners []net.Listener, at int, err error) {
	const tries = 10 // of ports that are free on one address alone
	for range tries {
		listeners, at, err = listenBoth(ctx, port)
		if err == nil || port != 0 || !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	if err != nil {
		return nil, 0, refusal.New(refusal.Unavailable, "the pages cannot be served: %v", err).
			WithHint("is opsign web running already? Else choose another port with --port, which passkeys.origins of gated.yaml has " +
				"to name then")
	}
	return listeners, at, nil
}

func listenBoth(ctx context.Context, port uint16) ([]net.Listener, int, error) {
	var lc net.ListenConfig
	four, err := lc.Listen(ctx, "tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, 0, err
	}
	at := four.Addr().(*net.TCPAddr).Port
	six, err := lc.Listen(ctx, "tcp6", fmt.Sprintf("[::1]:%d", at))
	switch {
	case err == nil:
		return []net.Listener{four, six}, at, nil
	case errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, syscall.EAFNOSUPPORT):
		return []net.Listener{four}, at, nil
	}
	return nil, 0, errors.Join(err, four.Close())
}

// aside is where things are said beside the question in the terminal. They wait while a question is there.
type aside struct {
	to io.Writer

	mu     sync.Mutex
	asking bool
	later  []func()
}

// maxLater bounds what waits for the end of a question.
const maxLater = 200

// Write says a text now, or after the question.
func (a *aside) Write(b []byte) (int, error) {
	text := string(b)
	a.wait(func() { _, _ = io.WriteString(a.to, text) }) // nobody reads it any more
	return len(b), nil
}

// wait calls fn now, or after the question.
func (a *aside) wait(fn func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case !a.asking:
		fn()
	case len(a.later) < maxLater:
		a.later = append(a.later, fn)
	}
}

// ask holds back what is said until the result is called.
func (a *aside) ask() (answered func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asking = true
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.asking = false
		for _, fn := range a.later {
			fn()
		}
		a.later = nil
	}
}
