package client

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"gated/client/api"
	"gated/internal/base/httpclient"
	"gated/internal/base/op"
	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
)

// HubOptions say where a hub is, whose queue a person reads.
type HubOptions struct {
	URL       string // https, or http to this machine; without a slash at its end
	CA        string // a file of certificates, which are trusted alone; empty means the system's
	TokenFile string // a file with the readers' token; empty means none
}

// Bounds of what is read of a hub.
const (
	maxHubAnswer = 8 << 20
	hubTime      = 30 * time.Second
	maxPlace     = 1024 // bytes
)

// Hub reads what waits at all gates of a hub. A hub is not trusted: it chooses which gates one looks at, and nothing is
// signed because of its word. Compare shows whether the gate itself says the same.
type Hub struct {
	url    string
	token  string
	client *http.Client
}

// NewHub reads the files that the options name. BadParams is a URL that is none, or http to another machine; the other
// refusals are of the files.
func NewHub(o HubOptions) (*Hub, error) {
	u, err := url.Parse(o.URL)
	near := err == nil && u.Scheme == "http" && isNear(u.Hostname())
	if err != nil || u.Hostname() == "" || u.User != nil || strings.ContainsAny(o.URL, "?#") || u.Scheme != "https" && !near {
		return nil, refusal.New(refusal.BadParams, "%q is not the address of a hub", op.Shown(o.URL)).
			WithHint("such as https://hub.example.com:8442; http is for 127.0.0.1, ::1 and localhost alone")
	}
	h := &Hub{url: strings.TrimSuffix(o.URL, "/")}
	if o.TokenFile != "" {
		if h.token, err = ownfile.ReadToken(o.TokenFile); err != nil {
			return nil, err
		}
	}
	var pool *x509.CertPool
	if o.CA != "" {
		pem, err := ownfile.Own().Read(o.CA, 1<<20)
		if err != nil {
			return nil, err
		}
		if pool = x509.NewCertPool(); !pool.AppendCertsFromPEM(pem) {
			return nil, refusal.New(refusal.Malformed, "%s has no certificate", o.CA).WithHint("it is PEM, as openssl x509 writes it")
		}
	}
	h.client = httpclient.New(pool, near)
	return h, nil
}

func isNear(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// HubFilter chooses rows of a hub's queue. The zero value is the first page over all hosts.
type HubFilter struct {
	Host  string // of this host alone; empty for all
	Op    string // of this operation alone; empty for all
	After string // Next of the page before; empty for the first
	Limit int    // rows of a page, at most 1000; 0 for the hub's own number
}

// Queue returns a page of what waits, the oldest first. Its errors are *Refusal in the hub's words, or Unavailable if the
// hub does not answer.
func (h *Hub) Queue(ctx context.Context, f HubFilter) (api.FleetQueue, error) {
	q := url.Values{}
	for name, v := range map[string]string{"host": f.Host, "op": f.Op, "after": f.After} {
		if v != "" {
			q.Set(name, v)
		}
	}
	if f.Limit != 0 {
		q.Set("limit", strconv.Itoa(f.Limit))
	}
	ctx, cancel := context.WithTimeout(ctx, hubTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url+"/v1/queue?"+q.Encode(), nil)
	if err != nil {
		return api.FleetQueue{}, refusal.New(refusal.BadParams, "the hub's address: %v", err)
	}
	r.Header.Set("Accept", api.ContentType)
	if h.token != "" {
		r.Header.Set("Authorization", "Bearer "+h.token)
	}
	resp, err := h.client.Do(r)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return api.FleetQueue{}, refusal.New(refusal.Unavailable, "the hub cannot be reached: %v", err).
			WithHint("opsign list --all-gates asks the known gates without a hub")
	}
	defer func() { _ = resp.Body.Close() }()
	return readQueue(resp)
}

// Close closes idle connections.
func (h *Hub) Close() { h.client.CloseIdleConnections() }

func readQueue(resp *http.Response) (out api.FleetQueue, err error) {
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxHubAnswer+1))
	switch {
	case err != nil:
		return out, refusal.New(refusal.Unavailable, "the hub's answer broke off")
	case len(b) > maxHubAnswer:
		return out, refusal.New(refusal.Oversized, "the hub's answer has more than %d bytes", maxHubAnswer).WithHint("ask for fewer rows")
	case resp.StatusCode != http.StatusOK:
		var p api.Problem
		if err := api.DecodeAnswer(b, &p); err != nil || p.Code == "" || len(p.Code) > maxCode {
			return out, refusal.New(refusal.Unavailable, "the hub answered %d", resp.StatusCode).
				WithHint("does the URL name a hub of this version?")
		}
		return out, refused(p)
	}
	if err = api.DecodeAnswer(b, &out); err == nil && !isPlace(out.Next) {
		return api.FleetQueue{}, refusal.New(refusal.Malformed, "%s is no place in a hub's queue", op.Shown(out.Next[:min(len(out.Next), 80)]))
	}
	return out, err
}

// What is repeated of a hub's refusal, in bytes: the beginning of its sentence, and its code. A longer code is none.
const (
	maxWords = 400
	maxCode  = 64
)

// refused is a hub's refusal, said to be its own. A hub says what is wrong, and not what a person is to do.
func refused(p api.Problem) error {
	words := p.Detail[:min(len(p.Detail), maxWords)]
	r := refusal.New(p.Code, "the hub says: %s", op.Shown(strings.ToValidUTF8(words, "")))
	if p.Code == refusal.NotAllowed {
		r = r.WithHint("--hub-token-file or GATED_HUB_TOKEN_FILE names the file with the readers' token")
	}
	return r
}

// isPlace reports whether a text is a place in the queue or none. People copy it into their next command line, so a hub
// must not choose other characters.
func isPlace(s string) bool {
	at, rest, _ := strings.Cut(strings.TrimPrefix(s, "-"), ".")
	return s == "" || len(s) <= maxPlace && strings.Trim(at, "0123456789") == "" && strings.Trim(rest, "0123456789abcdef.") == ""
}

// CheckRow refuses, as Malformed, a row whose host, gate or request has not the form that a gate gives it. People copy these
// into their next command line, so a hub must not choose other characters.
func CheckRow(row api.FleetRow) error {
	what, text := "", ""
	id, err := op.ParseStepID(row.Request)
	switch {
	case err != nil || id.String() != row.Request:
		what, text = "the id of a request", row.Request
	case !isHostName(row.Host):
		what, text = "the name of a host", row.Host
	case !row.Gate.Valid():
		what, text = "the id of a gate", string(row.Gate)
	default:
		return nil
	}
	return refusal.New(refusal.Malformed, "the hub lists %s, which is not %s", op.ShownQuoted(text[:min(len(text), 80)]), what)
}

// isHostName reports whether a text is a host's name in which a shell gives no character a meaning: people type it before the
// id of a request.
func isHostName(s string) bool {
	odd := func(r rune) bool { return !unicode.In(r, unicode.L, unicode.M, unicode.N) }
	return isHostText(s) && strings.IndexFunc(s, odd) != 0 && !strings.ContainsFunc(s, func(r rune) bool { return odd(r) && !strings.ContainsRune("._-+@:", r) })
}

// Compare refuses, as BindingMismatch, a hub's word about a request that differs from that of the gate which answered. The
// status and the request are the gate's own. That a request is open no more is UnknownTarget: it may have ended since the
// report.
func Compare(row api.FleetRow, s api.Status, r api.Request) error {
	for _, c := range [][3]string{
		{"gate", string(row.Gate), string(s.Gate)}, {"host", row.Host, s.Host}, {"request", row.Request, r.ID}, {"operation", row.Op, r.Op},
		{"target", row.Target, r.Target}, {"payload", row.PayloadSHA256, r.PayloadSHA256},
	} {
		if c[1] != c[2] {
			return refusal.New(refusal.BindingMismatch, "%s: the hub says %s, the gate says %s", c[0], op.Shown(c[1]), op.Shown(c[2])).
				WithHint("believe the gate: opsign show. A payload may be newer than the report; anything else is a lie of the hub or of a program with its token")
		}
	}
	if r.State != op.StatePending {
		return refusal.New(refusal.UnknownTarget, "it waits no more, it is %s", r.State)
	}
	return nil
}
