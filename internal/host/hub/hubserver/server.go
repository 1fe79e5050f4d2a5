// Package hubserver is the reference hub. It serves documents to gates, read-only, and a page that shows their reports. It
// decides nothing, signs nothing, and keeps what it is told in a hubstate.Store.
package hubserver

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path"
	"sync"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/hub"
	"gated/internal/host/hub/hubstate"
)

const (
	maxHeader = 16 << 10
	// maxCalls is how many calls are answered at a time; it refuses more.
	maxCalls = 512
	// maxHostCalls is how many calls of one host are answered at a time. A gate makes one after the other, and may have
	// given up one that still goes on. It is less than maxLarge.
	maxHostCalls = 3
	// idle is how long a connection may be quiet. It is longer than between the calls of one poll, and shorter than between
	// two polls: a fleet's connections would take more memory than its reports.
	idle = 5 * time.Second
	// drain is how long calls may continue after the hub is told to stop.
	drain = 5 * time.Second
)

// Config says what a hub serves, and where.
type Config struct {
	Dir       string // of documents; empty if Documents is given
	Documents hubstate.Documents
	Store     hubstate.Store // nil keeps everything in memory
	Listen    string         // an address of this machine, and a port; port 0 is any
	Cert, Key string         // files; both or neither
	TokenFile string         // file with the gates' token, which callers must present, or HostToken of it; empty means none
	// ReaderFile has a second token, for people: it reads the page, the queue and heads, and nothing else. Empty means none.
	ReaderFile string
	Now        func() time.Time
	Logger     *slog.Logger

	// Ready, if not nil, is called with the address for gates.
	Ready func(url string, hosts int)
}

// Hub is one hub.
type Hub struct {
	Config
	root   *os.Root // of Dir; nil without one
	calls  chan struct{}
	small  chan struct{} // bodies of usual size that are read and kept at a time
	large  chan struct{} // others
	mu     sync.Mutex
	of     map[string]int // calls that are being answered, by host
	token  token          // the gates'; empty for none
	reader token          // the readers'; empty for none
}

// New opens the directory. It refuses, as BadParams, an address that other machines reach if there is no certificate or
// no token.
func New(c Config) (*Hub, error) {
	if (c.Cert == "") != (c.Key == "") {
		return nil, refusal.New(refusal.BadParams, "a certificate and its key are given both or not at all").
			WithHint("give the other file, too")
	}
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return nil, refusal.New(refusal.BadParams, "%q is not ADDRESS:PORT", c.Listen).WithHint("such as 127.0.0.1:8442")
	}
	if !near(host) && (c.Cert == "" || c.TokenFile == "") {
		return nil, refusal.New(refusal.BadParams,
			"%s is reached from other machines: that takes a certificate and a token", c.Listen).
			WithHint("listen on 127.0.0.1, or give --cert, --key and --token-file")
	}
	h := &Hub{Config: c, calls: make(chan struct{}, maxCalls), small: make(chan struct{}, maxSmall), large: make(chan struct{}, maxLarge),
		of: map[string]int{}}
	if h.token, err = tokenOf(c.TokenFile); err != nil {
		return nil, err
	}
	if h.reader, err = tokenOf(c.ReaderFile); err != nil {
		return nil, err
	}
	if h.reader != "" && (h.token == "" || h.token == h.reader) {
		return nil, refusal.New(refusal.BadParams, "the readers' token needs the gates' token beside it, and is another one")
	}
	if h.Documents == nil {
		s, root, err := openSite(c.Dir, c.Now)
		if err != nil {
			return nil, err
		}
		h.Documents, h.root = s, root
	}
	if h.Store == nil {
		h.Store = hubstate.NewMemory(h.Documents.Has)
	}
	return h, nil
}

func openSite(dir string, now func() time.Time) (*site, *os.Root, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, refusal.New(refusal.BadParams, "%v", err).WithHint("name a directory that has one for each host")
	}
	return &site{root: root, now: now, hosts: map[string]*served{}}, root, nil
}

// near reports whether only this machine can reach an address to listen on.
func near(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// Serve answers until ctx ends, then lets calls under way end for a few seconds.
func (h *Hub) Serve(ctx context.Context) error {
	if h.root != nil {
		defer h.root.Close()
	}
	scheme := "http://"
	srv := &http.Server{Handler: h.Handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second,
		WriteTimeout: time.Minute, IdleTimeout: idle, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(h.Logger.Handler(), slog.LevelDebug)}
	if h.Cert != "" {
		pair, err := tls.LoadX509KeyPair(h.Cert, h.Key)
		if err != nil {
			return refusal.New(refusal.BadParams, "the certificate: %v", err).WithHint("both files are PEM")
		}
		scheme, srv.TLSConfig = "https://", &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", h.Listen)
	if err != nil {
		return refusal.New(refusal.Unavailable, "%v", err)
	}
	names, err := h.Documents.Hosts(ctx, "", maxHosts)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	if h.Ready != nil {
		h.Ready(scheme+l.Addr().String(), len(names))
	}
	h.Logger.Info("listening", "url", scheme+l.Addr().String(), "hosts", len(names))
	ended := make(chan error, 1)
	go func() {
		if h.Cert != "" {
			ended <- srv.ServeTLS(l, "", "")
			return
		}
		ended <- srv.Serve(l)
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	if err := srv.Shutdown(last); err != nil {
		return errors.Join(srv.Close())
	}
	return nil
}

// Handler answers every path of the hub.
func (h *Hub) Handler() http.Handler {
	mux := http.NewServeMux()
	for path, answer := range map[string]func(http.ResponseWriter, *http.Request) error{
		"GET /{$}": h.page,
		"GET /v1/hosts/{host}/" + hub.PathDesired:    h.document(hub.PathDesired),
		"GET /v1/hosts/{host}/" + hub.PathOperations: h.document(hub.PathOperations),
		"GET /v1/hosts/{host}/" + hub.PathReport:     h.lastReport,
		"POST /v1/hosts/{host}/" + hub.PathReport:    h.report,
		"GET /v1/hosts/{host}/" + hub.PathHead:       h.keptHead,
		"POST /v1/hosts/{host}/" + hub.PathHead:      h.head,
		"GET /v1/queue":                              h.queue,
		"GET /v1/heads/{gate}":                       h.headsOf,
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) { h.refuse(w, answer(w, r)) })
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-cache")
		select {
		case h.calls <- struct{}{}:
			defer func() { <-h.calls }()
		default:
			h.refuse(w, refusal.New(refusal.Unavailable, "too many calls at a time"))
			return
		}
		err := h.admit(w, r)
		if err == nil && path.Clean(r.URL.Path) != r.URL.Path { // otherwise the mux redirects it
			err = refusal.New(refusal.UnknownTarget, "there is no such path")
		}
		if err == nil {
			var done func()
			if done, err = h.enter(hostOf(r.URL.Path)); err == nil {
				defer done()
			}
		}
		if err != nil {
			h.refuse(w, err)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// enter counts a call of a host until done. With calls that it does not end, a program with one host's token could
// otherwise keep the places of all.
func (h *Hub) enter(host string) (done func(), err error) {
	if host == "" {
		return func() {}, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.of[host] >= maxHostCalls {
		return nil, refusal.New(refusal.Unavailable, "too many calls of the host %q at a time", op.Shown(host))
	}
	h.of[host]++
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.of[host]--; h.of[host] == 0 {
			delete(h.of, host)
		}
	}, nil
}

// write answers with a body. An error means that the caller is gone.
func write(w http.ResponseWriter, kind string, body []byte) {
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(body)
}

// refuse answers with a problem, if err is not nil.
func (h *Hub) refuse(w http.ResponseWriter, err error) {
	if err == nil {
		return
	}
	p := api.ProblemOf(err)
	if w.Header().Get("WWW-Authenticate") != "" {
		p.Status = http.StatusUnauthorized
	}
	var odd *hubstate.Contradiction
	if errors.As(err, &odd) {
		p = contradicts(odd)
	}
	if p.Status >= 500 {
		h.Logger.Warn("a call failed", "error", err)
	}
	body, err := api.Encode(p)
	if err != nil {
		h.Logger.Error("a problem cannot be written", "error", err)
	}
	w.Header().Set("Content-Type", api.ProblemType)
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // an error means that the caller is gone
}
