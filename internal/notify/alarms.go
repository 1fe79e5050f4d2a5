package notify

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/refusal"
	"gated/internal/log/witness"
	"gated/internal/notify/message"
	"gated/internal/notify/outbox"
)

// alarm is something that is wrong.
type alarm struct{ name, title, detail string }

// The alarms whose state Watch follows. The health of the daemon has one for each of its names.
const (
	unreachable = "unreachable"
	contradicts = "log"
	oldBackup   = "backup"
	stuckAt     = "events"
	healthOf    = "health:"
	deadOf      = "dead:"
)

// calm is how long something must be well before its alarm ends, so that what comes and goes is one alarm.
const calm = 5 * time.Minute

// alarmLetters addresses an alarm to every sink that gets alarms, without those named. No digest holds it.
func (n *Notifier) alarmLetters(a alarm, mid string, k message.Kind, without ...string) []outbox.Letter {
	n.mu.Lock()
	gate, host := n.at.Gate, n.host
	n.mu.Unlock()
	var out []outbox.Letter
	for _, s := range n.is.Sinks {
		if !s.Alarms || contains(without, s.Name) {
			continue
		}
		title := a.title
		if host != "" && k != message.Unheard {
			title = host + ": " + title
		}
		m := message.Message{ID: mid, Thread: gate + ":alarm:" + a.name, Kind: k, Gate: gate, Host: host, At: n.now(), Title: title,
			Detail: a.detail, Urgent: k != message.Over}
		l := outbox.Letter{Sink: s.Name, Message: m.Bounded()}
		if k == message.Unheard {
			l.Storm = outbox.Storm{More: s.Digest.More, Within: s.Digest.Within}
		}
		out = append(out, l)
	}
	return out
}

func contains(list []string, s string) bool {
	for _, have := range list {
		if have == s {
			return true
		}
	}
	return false
}

// raise says once that something is wrong, until lower.
func (n *Notifier) raise(ctx context.Context, a alarm, without ...string) error {
	raised, err := n.box.Raise(ctx, a.name, n.now(), n.alarmLetters(a, n.alarmID(a.name), message.Alarm, without...)...)
	if raised {
		n.log.Warn("alarm", "name", a.name, "what", a.title, "why", message.Clean(a.detail, 400))
		n.wakeAll()
	}
	return err
}

// lower says once that it is well again.
func (n *Notifier) lower(ctx context.Context, name, title string) error {
	return n.box.Lower(ctx, name, n.now(), n.alarmLetters(alarm{name, title, ""}, n.alarmID(name)+":over", message.Over)...)
}

func (n *Notifier) alarmID(name string) string {
	return fmt.Sprintf("%s:%s:%d", numbered(n.cursor()), name, n.now().Unix())
}

// Watch asks how the gate is, and raises and lowers the alarms about that. One goroutine calls it.
func (n *Notifier) Watch(ctx context.Context) error {
	st, err := n.gate.Status(ctx)
	var gone *client.Unreachable
	switch {
	case errors.As(err, &gone), errors.Is(err, refusal.Unavailable): // a daemon that cannot start answers so
		return errors.Join(n.away(ctx, err), n.watchBackups(ctx))
	case err != nil:
		return err
	}
	n.mu.Lock()
	n.heard, n.host = n.now(), st.Host
	at := n.at
	n.mu.Unlock()
	if at.Gate != "" && at.Gate != string(st.Gate) {
		select { // Connect says what it means
		case n.again <- struct{}{}:
		default:
		}
		return nil
	}
	var flows error
	if n.flows() {
		flows = n.lower(ctx, stuckAt, "the gate's events can be read again")
	}
	return errors.Join(flows, n.lower(ctx, unreachable, "the daemon answers again"), n.watchHealth(ctx, st), n.watchLog(ctx, st),
		n.watchBackups(ctx))
}

// away raises the alarm about a daemon that has not answered for too long, or only that it cannot start.
func (n *Notifier) away(ctx context.Context, why error) error {
	n.mu.Lock()
	since := n.now().Sub(n.heard)
	n.mu.Unlock()
	if since < n.is.Unreachable {
		return nil
	}
	detail := fmt.Sprintf("for %s now: nothing is decided meanwhile, and what waits there is not told", span(since.Round(time.Second)))
	if errors.Is(why, refusal.Unavailable) { // its reason may quote what no receiver may read
		detail += ". It cannot start, or cannot decide: gated status, as root, says why"
	}
	return n.raise(ctx, alarm{unreachable, "the daemon does not answer", detail})
}

// watchHealth has an alarm for each thing that the daemon says is wrong: its clock, the canary, the disk.
func (n *Notifier) watchHealth(ctx context.Context, st api.Status) error {
	standing, err := n.box.Alarms(ctx)
	if err != nil {
		return err
	}
	var all []error
	for _, h := range st.Health {
		name := healthOf + message.Clean(h.Name, 80)
		if !h.OK {
			all = append(all, n.raise(ctx, alarm{name, h.Name + " is not well", h.Detail}))
			delete(standing, name)
			delete(n.well, name)
		}
	}
	for name := range standing {
		if what, ok := strings.CutPrefix(name, healthOf); ok {
			all = append(all, n.settle(ctx, name, what+" is well again"))
		}
	}
	return errors.Join(all...)
}

// settle ends an alarm after it was well for calm.
func (n *Notifier) settle(ctx context.Context, name, title string) error {
	since, ok := n.well[name]
	if !ok {
		n.well[name] = n.now()
		return nil
	}
	if n.now().Sub(since) < calm {
		return nil
	}
	delete(n.well, name)
	return n.lower(ctx, name, title)
}

// watchLog demands that the gate's signed log continues from the last head that this process saw, as opsign does.
func (n *Notifier) watchLog(ctx context.Context, st api.Status) error {
	of := witness.Gate{ID: st.Gate, Host: st.Host, Address: string(n.gate.Address())}
	_, err := n.witness.Check(ctx, of, gateLog{n.gate})
	var unsigned *witness.Unsigned
	switch {
	case err == nil:
		return n.lower(ctx, contradicts, "the audit log continues from what was seen")
	case errors.As(err, &unsigned):
		return nil // an older daemon
	case refusal.CodeOf(err) == refusal.BindingMismatch:
		return n.raise(ctx, alarm{contradicts, "the audit log contradicts what was seen", err.Error()})
	}
	return err
}

// watchBackups looks for the newest file in the directory of backups.
func (n *Notifier) watchBackups(ctx context.Context) error {
	b := n.is.Backups
	if b == nil {
		return nil
	}
	newest, err := newestIn(b.Dir)
	switch {
	case err != nil:
		return n.raise(ctx, alarm{oldBackup, "the backups cannot be looked at", err.Error()})
	case n.now().Sub(newest) > b.Older:
		words := "there is none in " + b.Dir
		if !newest.IsZero() {
			words = "the newest in " + b.Dir + " is from " + newest.UTC().Format(time.RFC3339)
		}
		return n.raise(ctx, alarm{oldBackup, "the last backup is too old", words + ", and it may be " + span(b.Older) + " old"})
	}
	return n.lower(ctx, oldBackup, "there is a new backup")
}

// newestIn returns the time of the newest ordinary file with content in a directory; the zero time if it has none.
func newestIn(dir string) (newest time.Time, err error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return newest, err
	}
	for _, e := range list {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return newest, err
		}
		if info.Mode().IsRegular() && info.Size() > 0 && info.ModTime().After(newest) {
			newest = info.ModTime()
		}
	}
	return newest, nil
}
