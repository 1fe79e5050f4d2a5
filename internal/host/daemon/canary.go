package daemon

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"gated/client/api"
	"gated/internal/base/version"
	"gated/internal/host/life"
	"gated/internal/host/state"
	"gated/internal/log/audit"
	"gated/internal/log/canary"
)

// startedEntry is the entry of a start: by what is decided from now on, and by
// which program.
func (d *daemon) startedEntry() audit.Entry {
	e := d.gate.InForceEntry(audit.Started)
	e.Version, e.Schema, e.Detail = version.String(), len(life.Migrations()), fmt.Sprintf("gated %s; revoked keys: %s", version.String(), *d.revokedSays.Load())
	if d.member != nil {
		e.Member = audit.Member{Name: d.member.Member, Era: int64(d.member.lease.Era()),
			Lease: int64((d.member.Lease + time.Second - 1) / time.Second)}
		e.Detail += fmt.Sprintf("; member %s decides from era %d on", e.Member.Name, e.Member.Era)
	}
	return e
}

// newCanary makes what watches the gate's decisions after a change.
func (d *daemon) newCanary() *canary.Canary {
	return canary.New(canary.Config{Store: d.opened.Store, Append: d.gate.Append, Rules: canary.Rules(d.config.Canary), Back: d.back,
		Now: func() (time.Time, bool) { m := d.gate.Moment(); return m.Now, m.Trusted }})
}

// canarySoon has the canary look now, so that whoever asks for the status again
// sees what was decided until then. It does not wait for it.
func (d *daemon) canarySoon() {
	select {
	case d.lookSoon <- struct{}{}:
	default:
	}
}

// back says how to go back from what is to what was.
func (d *daemon) back(was, is canary.Identity) string {
	return strings.Join(backTo(filepath.Join(d.opened.Dir.Path(), state.SettingsName), d.opened.Dir.Database(), was, is), "; ")
}

// backTo is what to do to go back, with the names of the configuration and of
// the database.
func backTo(conf, database string, was, is canary.Identity) (out []string) {
	for _, what := range was.Changed(is) {
		switch what {
		case "policy":
			out = append(out, fmt.Sprintf("put the policy of %s back as it was (policy %.12s) and reload, by SIGHUP", conf, was.Policy))
		case "trust":
			out = append(out, backTrust(was, is)...)
		case "version":
			out = append(out, backVersion(database, was, is))
		}
	}
	return out
}

func backTrust(was, is canary.Identity) (out []string) {
	if was.Signers != is.Signers {
		out = append(out, fmt.Sprintf("have operators sign a gated trust rotate back to the signers of epoch %d (gated trust history)", was.Epoch))
	}
	if was.Revoked != is.Revoked {
		before := "sha256:" + was.Revoked
		switch was.Revoked {
		case "":
			before = "there was none"
		case "unreadable":
			before = "it could not be read"
		}
		out = append(out, fmt.Sprintf("put the file of revoked keys back as it was (%s), unless a key was revoked for good reason", before))
	}
	return out
}

func backVersion(database string, was, is canary.Identity) string {
	text := "run " + was.Version + " again"
	if was.Schema == is.Schema {
		return text
	}
	// From before the first migration since: the program of then reads nothing newer.
	copied := fmt.Sprintf("%s.pre-%d", database, was.Schema+1)
	if was.Schema == 0 {
		copied = database + ".pre-N, the lowest N that is there"
	}
	return fmt.Sprintf("%s, after gated restore %s; what was decided since is lost then, and an older gated may take the signers of that copy: "+
		"compare gated trust show before the start, and put keys that must not count into the file of revoked keys", text, copied)
}

// canaryStatus is the last canary, nil where there was none.
func (d *daemon) canaryStatus() *api.Canary {
	s := d.canary.Shown()
	if s == nil || s.Watch == nil {
		return nil
	}
	w := s.Watch
	out := &api.Canary{Change: w.Change, Changed: w.Changed, At: w.At.UTC(), Verdict: "watching", Before: w.Before, Until: w.Until.UTC(), Open: w.Open(),
		Why: w.Why, Back: w.Back, End: w.End, Paused: !s.Paused.IsZero(), Overdue: s.Overdue(d.gate.Moment().Now)}
	if w.Verdict != "" {
		out.Verdict = string(w.Verdict)
		at := w.Decided.UTC()
		out.DecidedAt = &at
	} else {
		out.Decisions = canary.Answers(s.Recent)
	}
	return out
}

// canaryHealth is the canary in a line, none where nothing changed yet.
func (d *daemon) canaryHealth() []api.Health {
	c := d.canaryStatus()
	if c == nil {
		return nil
	}
	changed := strings.Join(c.Changed, ", ")
	h := api.Health{Name: "canary", OK: true}
	switch {
	case c.Verdict == string(canary.Alert) && c.Open:
		h.OK = false
		h.Detail = fmt.Sprintf("alert: since %s changed (entry %d), %s; to go back: %s; if it is meant: gated canary accept %d", changed,
			c.Change, c.Why, c.Back, c.Change)
	case c.Verdict == string(canary.Alert):
		h.Detail = fmt.Sprintf("the alert after %s changed (entry %d) has ended: %s", changed, c.Change, c.End)
	case c.Open:
		h.Detail = fmt.Sprintf("watches since %s changed (entry %d): %d decisions, before %d", changed, c.Change, c.Decisions, c.Before)
		if c.Paused {
			h.Detail += "; it waits until the clock is believed"
		}
	default:
		h.Detail = fmt.Sprintf("%s: %s changed (entry %d), %s", c.Verdict, changed, c.Change, c.Why)
	}
	if c.Overdue {
		h.OK = false
		h.Detail += "; unresolved for more than 30 days"
	}
	return []api.Health{h}
}
