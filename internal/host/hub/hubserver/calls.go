package hubserver

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/hub"
	"gated/internal/host/hub/hubstate"
)

// Bodies that are read, decoded and kept at a time. They bound memory: a decoded report takes several times its bytes.
const (
	usualBody = 64 << 10 // bytes
	maxSmall  = 64
	maxLarge  = 4
	// turn is how long a call waits for its turn.
	turn = 10 * time.Second
)

// document answers with a host's document, or says that it did not change.
func (h *Hub) document(what string) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		sent := r.Header.Get("If-None-Match")
		tag := ""
		if len(sent) >= 2 && sent[0] == '"' && sent[len(sent)-1] == '"' {
			tag = sent[1 : len(sent)-1]
		}
		d, err := h.Documents.Document(r.Context(), r.PathValue("host"), what, tag)
		if err != nil {
			return err
		}
		w.Header().Set("ETag", `"`+d.Tag+`"`)
		if d.Tag == tag {
			w.WriteHeader(http.StatusNotModified)
			return nil
		}
		write(w, hub.ContentType, d.Body)
		return nil
	}
}

// body reads a JSON body of at most so many bytes, when it is its turn; done ends the turn.
func (h *Hub) body(w http.ResponseWriter, r *http.Request, what string, most int64) (b []byte, done func(), err error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != hub.ContentType {
		return nil, nil, refusal.New(refusal.Malformed, "a %s is %s", what, hub.ContentType)
	}
	if r.ContentLength > most {
		return nil, nil, oversized(what, most)
	}
	turns := h.large
	if r.ContentLength >= 0 && r.ContentLength <= usualBody {
		turns = h.small
	}
	wait := time.NewTimer(turn)
	defer wait.Stop()
	select {
	case turns <- struct{}{}:
	case <-r.Context().Done():
		return nil, nil, refusal.New(refusal.Unavailable, "the caller is gone")
	case <-wait.C:
		return nil, nil, refusal.New(refusal.Unavailable, "too many calls wait for their turn")
	}
	done = func() { <-turns }
	b, err = io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		err = oversized(what, most)
	case err != nil:
		err = refusal.New(refusal.Malformed, "the %s broke off", what)
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	return b, done, nil
}

func oversized(what string, most int64) error {
	return refusal.New(refusal.Oversized, "the %s has more than %d bytes", what, most).
		WithHint("what a gate sends is smaller: another program has the gates' token, or the gate is newer than this hub")
}

// report takes a host's report. It answers when the store has committed it.
func (h *Hub) report(w http.ResponseWriter, r *http.Request) error {
	host := r.PathValue("host")
	body, done, err := h.body(w, r, hub.PathReport, hub.MaxReport)
	if err != nil {
		return err
	}
	defer done()
	report, err := hub.DecodeReport(body, host)
	if err != nil {
		return err
	}
	out, err := h.Store.Put(r.Context(), hubstate.Arrived{Host: host, Report: report, Body: body, At: h.Now()})
	if err != nil {
		return err
	}
	if out.News {
		guests, waiting := counts(report)
		h.Logger.Info("report", "host", op.Shown(host), "revision", op.Shown(report.Revision), "converged", hubstate.Converged(report),
			"guests", guests, "waiting", waiting, "seq", report.Seq)
	}
	if out.Was != "" {
		h.Logger.Warn("another gate reports as this host: it was restored or set up anew, or two gates have one name, or a program has the host's token",
			"host", op.Shown(host), "gate", op.Shown(string(report.Gate)), "before", op.Shown(string(out.Was)))
	}
	if out.News && out.Twin != "" {
		h.Logger.Warn("two hosts report as one gate: a state directory was copied, or a host has a new name and the old one is to be forgotten",
			"gate", op.Shown(string(report.Gate)), "host", op.Shown(host), "other", op.Shown(out.Twin))
	}
	for _, o := range out.Changed[:min(len(out.Changed), maxRows)] {
		h.Logger.Info("operation", "host", op.Shown(host), "op", op.Shown(o.Op), "target", op.Shown(o.Target),
			"request", op.Shown(o.Request), "state", op.Shown(string(o.State)), "code", op.Shown(string(o.Code)))
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// counts adds up the guests of all sets, and those that wait for signatures.
func counts(r hub.Report) (guests, waiting int) {
	for _, s := range r.Sets {
		guests, waiting = guests+s.Guests, waiting+s.Waiting
	}
	return guests, waiting
}

// lastReport answers with a host's last report, byte for byte.
func (h *Hub) lastReport(w http.ResponseWriter, r *http.Request) error {
	t, err := h.Store.Report(r.Context(), r.PathValue("host"))
	if err != nil {
		return err
	}
	if t == nil {
		return refusal.New(refusal.UnknownTarget, "the hub keeps no report of that host")
	}
	write(w, hub.ContentType, t.Body)
	return nil
}

// queue answers with a page of what waits at all gates.
func (h *Hub) queue(w http.ResponseWriter, r *http.Request) error {
	q, err := queryOf(r)
	if err != nil {
		return err
	}
	page, err := h.Store.Queue(r.Context(), q)
	if err != nil {
		return err
	}
	return encode(w, page)
}

// queryOf reads the parameters of the queue.
func queryOf(r *http.Request) (hubstate.Query, error) {
	q := hubstate.Query{Limit: hubstate.PageRows}
	all, err := url.ParseQuery(r.URL.RawQuery) // Query would leave out what it cannot read, and so a filter
	if err != nil {
		return q, refusal.New(refusal.BadParams, "the parameters of the queue cannot be read: %s", op.Shown(err.Error()))
	}
	for name, values := range all {
		if len(values) != 1 {
			return q, refusal.New(refusal.BadParams, "%q is there twice", op.Shown(name))
		}
		var err error
		switch v := values[0]; name {
		case "host":
			q.Host = v
		case "op":
			q.Op = v
		case "limit":
			q.Limit, err = strconv.Atoi(v)
		case "after":
			var at hubstate.Place
			if at, err = hubstate.ParsePlace(v); err != nil {
				return q, err
			}
			q.After = &at
		default:
			return q, refusal.New(refusal.BadParams, "the queue has no parameter %q", op.Shown(name)).WithHint("it has host, op, limit and after")
		}
		if err != nil || q.Limit < 1 || q.Limit > hubstate.MaxPageRows {
			return q, refusal.New(refusal.BadParams, "a page has 1 to %d rows", hubstate.MaxPageRows)
		}
	}
	return q, nil
}

// encode answers with an object.
func encode(w http.ResponseWriter, v any) error {
	b, err := api.Encode(v)
	if err == nil {
		write(w, hub.ContentType, b)
	}
	return err
}
