package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/systemd"
	"gated/internal/web/access"
	"gated/internal/web/gates"
	webpage "gated/internal/web/page"
	"gated/internal/wire/cli"
)

// unixListen begins the address of a unix socket for --listen.
const unixListen = "unix:"

// consoleFlags are what the console is told.
type consoleFlags struct {
	listen, cert, key string
	origin, rpID      string
	gates             []string
}

func (t *tool) consoleCommand() *cobra.Command {
	var f consoleFlags
	c := t.Command(cli.Words{
		Use:   "console --origin URL (--cert FILE --key FILE | --listen unix:PATH)",
		Short: "Show what waits to a team in browsers, and relay what passkeys signed",
		Long: `A process with a uid of its own, which is neither root nor a gate's: a client of gates as any other. It holds no
key and decides nothing. It shows what waits to whoever signs in with a passkey that is listed, and hands signatures to
the gates, which verify them. It speaks TLS with --cert and --key, which it reads again when they change and at SIGHUP,
or answers a proxy of this host at a unix socket. It logs to standard error, a line for each sign-in and decision.

The gates are those of --gate, else the known_gates file of its user, else the gate of this host. One of another host
has to be known: run opsign -H ssh://HOST list as that user.`,
		Example: "  gated console --origin https://console.example.com --cert cert.pem --key key.pem --listen :443\n" +
			"  gated console --origin https://console.example.com --listen unix:/run/gated-console/http.sock",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error { return t.console(c.Context(), f) })
	c.Flags().StringVar(&f.origin, "origin", "", "the `URL` that browsers open, https://NAME[:PORT]; it decides which Hosts are answered")
	c.Flags().StringVar(&f.rpID, "rp-id", "", "the `NAME` that passkeys are for: the origin's host or a parent domain of it (default its host)")
	c.Flags().StringVar(&f.listen, "listen", "127.0.0.1:7443", "the `ADDRESS:PORT`, or unix:PATH for a proxy of this host")
	c.Flags().StringVar(&f.cert, "cert", "", "the PEM `FILE` with the certificate and its chain")
	c.Flags().StringVar(&f.key, "key", "", "the PEM `FILE` with the certificate's key")
	c.Flags().StringArrayVar(&f.gates, "gate", nil, "the `ADDRESS` of a gate: unix:/PATH or ssh://[USER@]HOST[:PORT][/PATH]; repeatable")
	for _, file := range []string{"cert", "key"} {
		_ = c.MarkFlagFilename(file) // the flag was just added
	}
	for _, text := range []string{"origin", "rp-id", "listen", "gate"} {
		_ = c.RegisterFlagCompletionFunc(text, cobra.NoFileCompletions) // so was this one
	}
	return c
}

// check refuses flags that do not fit together, and returns the name that passkeys are for.
func (f consoleFlags) check() (rpID string, err error) {
	if f.origin == "" {
		return "", cli.Usage("say with --origin which URL browsers open, as https://console.example.com")
	}
	u, err := access.ParseOrigin(f.origin)
	switch overUnix := strings.HasPrefix(f.listen, unixListen); {
	case err != nil:
		return "", cli.Usage("--origin: " + refusal.As(err).Sentence())
	case u.Scheme != "https":
		return "", cli.Usage("--origin: a console is reached over https alone; opsign web is for one operator's own machine")
	case overUnix && (f.cert != "" || f.key != ""):
		return "", cli.Usage("at a unix socket the proxy speaks TLS: leave --cert and --key away")
	case overUnix && !filepath.IsAbs(strings.TrimPrefix(f.listen, unixListen)):
		return "", cli.Usage("--listen: the socket needs an absolute path, as unix:/run/gated-console/http.sock")
	case !overUnix && (f.cert == "" || f.key == ""):
		return "", cli.Usage("name a certificate with --cert and --key, or a unix socket for a proxy with --listen unix:PATH")
	}
	rpID = f.rpID
	if rpID == "" {
		rpID = u.Hostname()
	}
	if rpID != u.Hostname() && (!strings.HasSuffix(u.Hostname(), "."+rpID) || !strings.Contains(rpID, ".")) {
		return "", cli.Usage("--rp-id is neither the host of --origin nor a parent domain of it")
	}
	return rpID, nil
}

// consoleGarbage is how much garbage, in percent of what is in use, a console lets come together. Go's 100 took 63 MiB once,
// with 50 gates that are read and pages that are asked for; this takes 54, of the budget of 60.
const consoleGarbage = 50

// console serves the pages until ctx ends.
func (t *tool) console(ctx context.Context, f consoleFlags) error {
	rpID, err := f.check()
	if err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		return refusal.New(refusal.NotAllowed, "gated console does not run as root: it listens to everybody, and needs no right but to connect to gates").
			WithHint("run it as a user of its own, as gated-console.service does")
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(consoleGarbage)
	}
	logger := slog.New(slog.NewTextHandler(t.Stderr, nil))
	if t.JSON {
		logger = slog.New(slog.NewJSONHandler(t.Stderr, nil))
	}
	known, options, err := t.consoleGates(f.gates)
	if err != nil {
		return err
	}
	set, err := gates.New(gates.Config{Known: known, Options: options, Identify: notOwnGate, Now: time.Now, Logger: logger})
	if err != nil {
		return err
	}
	wall, err := access.New(access.Config{Origins: []string{f.origin}, SignIn: "/sign-in", Proxied: strings.HasPrefix(f.listen, unixListen),
		Now: time.Now, Logger: logger})
	if err != nil {
		return err
	}
	shown, err := webpage.New(webpage.Config{Gates: set, Wall: wall, Origin: f.origin, RPID: rpID, Now: time.Now, Logger: logger})
	if err != nil {
		return err
	}
	var cert *access.Certificate
	if f.cert != "" {
		if cert, err = access.LoadCertificate(f.cert, f.key, time.Now, logger); err != nil {
			return err
		}
	}
	defer reloadAtHangup(cert, logger)()
	l, err := listenForConsole(ctx, f.listen)
	if err != nil {
		return err
	}
	logger.Info("listening", "origin", f.origin, "at", l.Addr().String(), "gates", len(known))
	if err := systemd.Notify(systemd.Ready); err != nil {
		logger.Warn("the service manager was not told", "why", err)
	}
	return serveConsole(ctx, set, func(ctx context.Context) error { return wall.Serve(ctx, shown, cert, l) })
}

// serveConsole watches the gates and serves the pages until ctx ends.
func serveConsole(ctx context.Context, set *gates.Set, serve func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	watching := make(chan error, 1)
	go func() { watching <- set.Run(ctx) }()
	err := serve(ctx)
	stop()
	return errors.Join(err, <-watching)
}

// consoleGates returns the gates to show. It refuses those whose daemon runs as this user.
func (t *tool) consoleGates(named []string) (gates []client.KnownGate, o client.Options, err error) {
	if o, err = t.Where(); err != nil {
		return nil, o, err
	}
	o.ReadToken = nil // it is a client for operators, and no agent
	pinned, err := client.KnownGatesOf(t.Getenv).List()
	if err != nil {
		return nil, o, err
	}
	if len(named) == 0 && (len(pinned) == 0 || o.Socket != "") {
		paths := o.Paths()
		if len(paths) == 0 {
			return nil, o, refusal.New(refusal.UnknownTarget, "no gate is known").WithHint("name one with --gate")
		}
		named = []string{firstThere(paths)}
	}
	gates = pinned
	if len(named) > 0 {
		gates = nil
		for _, text := range named {
			at, err := client.ParseAddress(text)
			if err != nil {
				return nil, o, err
			}
			gates = append(gates, knownAt(pinned, at))
		}
	}
	for _, k := range gates {
		one, err := o.At(k.Address)
		if err != nil {
			return nil, o, err
		}
		if info, err := os.Stat(one.Socket); one.Socket != "" && err == nil {
			if sys, ok := info.Sys().(*syscall.Stat_t); ok && sys.Uid == uint32(os.Geteuid()) {
				return nil, o, ownGate(k.Address)
			}
		}
	}
	return gates, o, nil
}

func firstThere(paths []string) string {
	for _, p := range paths {
		if _, err := os.Lstat(p); err == nil {
			return p
		}
	}
	return paths[len(paths)-1]
}

// knownAt returns the gate that is pinned at an address, or one that was never met.
func knownAt(pinned []client.KnownGate, at client.Address) client.KnownGate {
	for _, k := range pinned {
		if k.Address == at {
			return k
		}
	}
	return client.KnownGate{Address: at}
}

func ownGate(at client.Address) error {
	return refusal.New(refusal.NotAllowed, "the gate at %s runs as this user: whoever takes the console over would have the gate", op.Shown(string(at))).
		WithHint("run gated console as a user of its own, as gated-console.service does")
}

// notOwnGate asks a gate who it is, and refuses one of this host that runs as this user.
func notOwnGate(ctx context.Context, cl *client.Client) (api.Status, error) {
	st, err := cl.Status(ctx)
	if at := cl.Address(); err == nil && !at.Remote() && st.UID == uint32(os.Geteuid()) {
		return st, ownGate(at)
	}
	return st, err
}

// listenForConsole listens at a TCP address or a unix socket, which its group may open. It replaces a socket to which nobody
// listens any more.
func listenForConsole(ctx context.Context, at string) (net.Listener, error) {
	path, overUnix := strings.CutPrefix(at, unixListen)
	var lc net.ListenConfig
	if !overUnix {
		l, err := lc.Listen(ctx, "tcp", at)
		if err != nil {
			return nil, cannotListen(err)
		}
		return l, nil
	}
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSocket != 0 {
		c, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
		switch {
		case err == nil:
			return nil, errors.Join(cannotListen(errors.New(path+" is in use")), c.Close())
		case errors.Is(err, syscall.ECONNREFUSED):
			if err := os.Remove(path); err != nil {
				return nil, cannotListen(err)
			}
		}
	}
	l, err := lc.Listen(ctx, "unix", path)
	if err == nil {
		err = os.Chmod(path, 0o660)
	}
	if err != nil {
		return nil, cannotListen(err)
	}
	return l, nil
}

func cannotListen(err error) error {
	return refusal.New(refusal.Unavailable, "the console cannot listen: %v", err).WithHint("is it running already? Else say another --listen")
}

// reloadAtHangup reads the certificate again at each SIGHUP, until the result is called. Without one, it ignores the signal.
func reloadAtHangup(cert *access.Certificate, logger *slog.Logger) (stop func()) {
	came := make(chan os.Signal, 1)
	signal.Notify(came, syscall.SIGHUP)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-came:
				if cert == nil {
					logger.Info("there is no certificate to read again")
				} else if err := cert.Reload(); err != nil {
					logger.Warn("the new certificate is not used", "why", err)
				} else {
					logger.Info("the certificate was read again")
				}
			case <-done:
				return
			}
		}
	}()
	return func() {
		signal.Stop(came)
		close(done)
	}
}
