// Package hubserver is the reference hub. It serves a directory to gates, read-only, and a page that shows their
// reports. It decides nothing, signs nothing and keeps reports in memory alone.
package hubserver

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path"
	"strings"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/hub"
)

const (
	maxHeader = 16 << 10
	// maxCalls is how many calls are answered at a time; it refuses more.
	maxCalls = 64
	// drain is how long calls may continue after the hub is told to stop.
	drain = 5 * time.Second
)

// Config says what a hub serves, and where.
type Config struct {
	Dir       string
	Listen    string // an address of this machine, and a port; port 0 is any
	Cert, Key string // files; both or neither
	TokenFile string // file with the token that callers must present; empty means none
	Now       func() time.Time
	Logger    *slog.Logger

	// Ready, if not nil, is called with the address for gates.
	Ready func(url string, hosts int)
}

// Hub is one hub.
type Hub struct {
	Config
	site    *site
	reports reports
	calls   chan struct{}
	token   *[sha256.Size]byte // of the token; nil for none
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
	h := &Hub{Config: c, calls: make(chan struct{}, maxCalls), reports: reports{of: map[string]*told{}}}
	if c.TokenFile != "" {
		token, err := hub.ReadTokenFile(c.TokenFile)
		if err != nil {
			r := refusal.As(err)
			return nil, refusal.New(refusal.BadParams, "%s", r.Detail).
				WithHint("a token file is one line, and its owner's alone: chmod 600 %s", c.TokenFile)
		}
		sum := sha256.Sum256([]byte(token))
		h.token = &sum
	}
	root, err := os.OpenRoot(c.Dir)
	if err != nil {
		return nil, refusal.New(refusal.BadParams, "%v", err).WithHint("name a directory that has one for each host")
	}
	h.site = &site{root: root, now: c.Now, hosts: map[string]*served{}}
	return h, nil
}

// near reports whether only this machine can reach an address to listen on.
func near(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// Serve answers until ctx ends, then lets calls under way end for a few seconds.
func (h *Hub) Serve(ctx context.Context) error {
	defer h.site.root.Close()
	scheme := "http://"
	srv := &http.Server{Handler: h.Handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second,
		WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: maxHeader,
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
	names, err := h.site.hostNames()
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
		"GET /v1/hosts/{host}/" + hub.PathDesired:    document(h.site.desired),
		"GET /v1/hosts/{host}/" + hub.PathOperations: document(h.site.operations),
		"GET /v1/hosts/{host}/" + hub.PathReport:     h.lastReport,
		"POST /v1/hosts/{host}/" + hub.PathReport:    h.report,
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
		if err != nil {
			h.refuse(w, err)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// admit lets a caller in that has the token: as a bearer, or as a browser's password. Without a token, the host name in
// the request must be this machine's. Otherwise a web page elsewhere could read, through a browser here, what only this
// machine may reach.
func (h *Hub) admit(w http.ResponseWriter, r *http.Request) error {
	if h.token == nil {
		name := r.Host
		if host, _, err := net.SplitHostPort(r.Host); err == nil {
			name = host
		}
		if !near(strings.Trim(name, "[]")) {
			return refusal.New(refusal.NotAllowed, "%q is not a name of this machine", op.Shown(name))
		}
		return nil
	}
	token, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !found {
		_, token, _ = r.BasicAuth()
	}
	sum := sha256.Sum256([]byte(token))
	if subtle.ConstantTimeCompare(sum[:], h.token[:]) == 1 {
		return nil
	}
	w.Header().Set("WWW-Authenticate", `Basic realm="gated hub", charset="UTF-8"`)
	return refusal.New(refusal.NotAllowed, "that is not this hub's token")
}

// document answers with a host's document, or says that it did not change.
func document(of func(host string) (*served, error)) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		s, err := of(r.PathValue("host"))
		if err != nil {
			return err
		}
		etag := `"` + s.tag + `"`
		w.Header().Set("ETag", etag)
		if r.Header.Get("If-None-Match") == etag {
			w.WriteHeader(http.StatusNotModified)
			return nil
		}
		write(w, hub.ContentType, s.body)
		return nil
	}
}

// report takes a host's report.
func (h *Hub) report(w http.ResponseWriter, r *http.Request) error {
	host := r.PathValue("host")
	if err := h.site.has(host); err != nil {
		return err
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != hub.ContentType {
		return refusal.New(refusal.Malformed, "a report is %s", hub.ContentType)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, hub.MaxReport))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return refusal.New(refusal.Oversized, "the report has more than %d bytes", hub.MaxReport)
	case err != nil:
		return refusal.New(refusal.Malformed, "the report broke off")
	}
	report, err := hub.DecodeReport(body, host)
	if err != nil {
		return err
	}
	news, changed, err := h.reports.put(host, report, body, h.Now())
	if err != nil {
		return err
	}
	if news {
		guests, waiting := counts(report)
		h.Logger.Info("report", "host", op.Shown(host), "revision", op.Shown(report.Revision), "converged", converged(report),
			"guests", guests, "waiting", waiting, "seq", report.Seq)
	}
	for _, o := range changed[:min(len(changed), maxRows)] {
		h.Logger.Info("operation", "host", op.Shown(host), "op", op.Shown(o.Op), "target", op.Shown(o.Target),
			"request", op.Shown(o.Request), "state", op.Shown(string(o.State)), "code", op.Shown(string(o.Code)))
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// lastReport answers with a host's last report, byte for byte.
func (h *Hub) lastReport(w http.ResponseWriter, r *http.Request) error {
	t := h.reports.get(r.PathValue("host"))
	if t == nil {
		return refusal.New(refusal.UnknownTarget, "that host did not report since the hub was started")
	}
	write(w, hub.ContentType, t.body)
	return nil
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
