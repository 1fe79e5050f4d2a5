package daemon

import (
	"context"
	"strings"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/version"
	"gated/internal/host/config"
	"gated/internal/host/hub"
	"gated/internal/reconcile"
)

// newHub makes the link to a hub. Nothing is asked of it before reconcile reads.
func (d *daemon) newHub(c config.Hub) *hub.Link {
	return hub.New(hub.Config{URL: c.URL, Host: d.config.Host, CA: c.CA, TokenFile: c.TokenFile, Interval: c.Interval,
		Timeout: c.Timeout, Report: c.Report, Gate: d.gate, Log: d.events, Standing: d.standing, ID: d.gate.ID(), Version: version.String(),
		StartedAt: d.started, Now: now, Logger: d.log})
}

// standing asks reconcile, which is made after the link.
func (d *daemon) standing(waits map[op.Target]bool, limit int) ([]reconcile.SetStanding, []reconcile.WishStanding, int) {
	return d.reconciler().Standing(waits, limit)
}

// hubParts is what the daemon does for a hub as long as it runs.
func (d *daemon) hubParts() []part {
	if d.hub == nil {
		return nil
	}
	return []part{{"the hub", func(ctx context.Context) error { return d.hub.Run(ctx) }}}
}

// hubURL returns the hub's address, "" where none is configured.
func (d *daemon) hubURL() string {
	if d.config.Hub == nil {
		return ""
	}
	return d.config.Hub.URL
}

// hubStatus says how the link stands, nil where there is none.
func (d *daemon) hubStatus() *api.Hub {
	if d.hub == nil {
		return nil
	}
	s := d.hub.Status()
	return &api.Hub{URL: s.URL, Revision: s.Revision, ReadAt: atOrNone(s.ReadAt), PolledAt: atOrNone(s.PolledAt), Error: wireError(s.Err),
		Relayed: s.Relayed, Refused: s.Refused, Untried: s.Untried, RelayError: wireError(s.RelayErr),
		ReportedAt: atOrNone(s.ReportedAt), ReportError: wireError(s.ReportErr)}
}

// hubHealth lists what does not work with the hub. That its wishes cannot be
// read is said of the source.
func (d *daemon) hubHealth() []api.Health {
	if d.hub == nil {
		return nil
	}
	s, out := d.hub.Status(), []api.Health{}
	if len(s.Missing) > 0 {
		out = append(out, api.Health{Name: "sets of the hub", Detail: "the hub's last answer lacks " + strings.Join(s.Missing[:min(len(s.Missing), 10)], ", ") +
			": what was wished before holds until the next answer, which withdraws what it lacks too"})
	}
	for _, part := range []struct {
		name       string
		err        error
		since, due time.Time
	}{{"relayed operations", s.RelayErr, s.RelaySince, time.Time{}}, {"reports to the hub", s.ReportErr, s.ReportSince, s.ReportDue},
		{"signed heads for the hub", s.HeadErr, s.HeadSince, s.HeadDue}} {
		if part.err != nil {
			out = append(out, api.Health{Name: part.name, Detail: hubFault(refusal.As(part.err).Detail, part.since,
				later(s.NextAt, part.due), now())})
		}
	}
	return out
}

// hubFault says of what does not work with the hub since when it does not, and
// when it is tried next. A time that has passed, and none, is that of a poll
// which has not ended yet.
func hubFault(what string, since, next, now time.Time) string {
	at := "is tried now"
	if next.After(now) {
		at = "tried next at " + next.UTC().Format(time.RFC3339)
	}
	if since.IsZero() {
		return what
	}
	return what + " (since " + since.UTC().Format(time.RFC3339) + ", " + at + ")"
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func atOrNone(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	at = at.UTC()
	return &at
}

func wireError(err error) *api.Error {
	if err == nil {
		return nil
	}
	r := refusal.As(err)
	return &api.Error{Code: r.Code, Detail: r.Detail}
}
