package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/base/version"
	"gated/internal/host/life"
	"gated/internal/host/metrics"
	"gated/internal/host/ownlog"
	"gated/internal/log/audit"
	"gated/internal/log/follow"
	"gated/internal/log/journal"
)

// follow has each decision logged and counted after its COMMIT, from now on.
func (d *daemon) follow(ctx context.Context) (err error) {
	codes := make([]refusal.Code, len(api.Codes))
	for i, c := range api.Codes {
		codes[i] = c.Code
	}
	d.metrics = metrics.New(codes)
	d.scrapes = &scrapes{make: d.scrape, now: now}
	d.opened.Store.TimeCommits(now, d.metrics.Committed)
	d.decided, err = follow.New(ctx, d.opened.Store, d.log, func(tx *store.Tx, e audit.Entry) {
		d.metrics.Entry(tx, e)
		ownlog.Decision(d.log, e)
	})
	return err
}

// tellRest logs what was decided until the end. It waits for the disk no longer than a stop should take.
func (d *daemon) tellRest(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	d.decided.Drain(ctx)
}

// configureLog sets the form and the level of the daemon's own log as the gated.yaml of a state directory has them, but
// what the command line says counts more. If the file is refused, assemble says so, in the log as it is.
func (o ServeOptions) configureLog(dir string) {
	c, err := life.Settings(dir)
	if o.Log == nil || err != nil {
		return
	}
	format, level := ownlog.Format(c.Log.Format), slog.LevelInfo
	_ = level.UnmarshalText([]byte(c.Log.Level)) // config takes no other words
	if o.LogFormat != "" {
		format = o.LogFormat
	}
	if o.LogLevel != nil {
		level = *o.LogLevel
	}
	if err := o.Log.Configure(format, level); err != nil {
		o.Logger.Warn("the log goes on as it is", "error", err)
	}
}

// lookTime is how long a monitor's question may wait for the database.
const lookTime = 5 * time.Second

// looked is what one snapshot of the database says to those who watch the gate.
type looked struct {
	waiting journal.Waiting
	backups journal.Backups
	drills  journal.Drills
	open    journal.Incidents
	running int
	entries int64
	signed  int64
}

// look reads what monitors ask for. It reads as much whatever the length of the history.
func (d *daemon) look(ctx context.Context) (l looked, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	err = d.gate.Answer(d.opened.Store.View(ctx, func(tx *store.Tx) error {
		if l.waiting, err = journal.ReadWaiting(tx); err != nil {
			return err
		}
		if l.backups, err = journal.ReadBackups(tx); err != nil {
			return err
		}
		if l.drills, err = journal.ReadDrills(tx); err != nil {
			return err
		}
		if l.open, err = journal.ReadIncidents(tx); err != nil {
			return err
		}
		counts, err := journal.Count(tx)
		if err != nil {
			return err
		}
		head, err := audit.ReadHead(tx)
		if err != nil {
			return err
		}
		signed, err := audit.SignedHead(tx)
		l.running, l.entries, l.signed = counts[op.StateDispatched], head.Seq, signed.Size
		return err
	}))
	return l, err
}

// watched puts the oldest wait and the last backup into a status.
func (d *daemon) watched(ctx context.Context, s *api.Status) error {
	l, err := d.look(ctx)
	if err != nil {
		return err
	}
	if at := l.waiting.Oldest; !at.IsZero() {
		at = at.UTC()
		s.OldestWait = &at
	}
	if b := l.backups; !b.At.IsZero() {
		s.LastBackup = &api.LastBackup{At: b.At.UTC()}
		if !b.Verified.IsZero() {
			at := b.Verified.UTC()
			s.LastBackup.Verified = &at
		}
	}
	h := d.backupHealth(l.backups)
	s.BackupTooOld = len(h) > 0 && !h[0].OK
	s.Health = append(s.Health, h...)
	s.Drills = &api.Drills{Open: drillOf(l.drills.Open), Signed: drillOf(l.drills.Signed), Unanswered: drillOf(l.drills.Unanswered)}
	h = d.drillHealth(l.drills)
	s.Drills.TooOld = len(h) > 0 && !h[0].OK
	s.Health = append(s.Health, h...)
	s.Incidents = incidentsOf(l.open)
	s.Health = append(s.Health, d.incidentHealth(l.open)...)
	return nil
}

// backupHealth says whether the newest verified backup is too old; nothing if backups are not watched.
func (d *daemon) backupHealth(b journal.Backups) []api.Health {
	older := d.config.Monitor.BackupOlder
	if older == 0 {
		return nil
	}
	h := api.Health{Name: "backup"}
	switch age := d.gate.Moment().Now.Sub(b.Verified); {
	case b.Verified.IsZero():
		h.Detail = "the gate knows of no backup that was checked: gated backup FILE"
	case age > older:
		h.Detail = fmt.Sprintf("the newest one that was checked is from %s, more than %s ago: gated backup FILE",
			b.Verified.UTC().Format(time.RFC3339), older)
	default:
		h.OK, h.Detail = true, "the newest one that was checked is from "+b.Verified.UTC().Format(time.RFC3339)
	}
	return []api.Health{h}
}

// scrape makes the metrics.
func (d *daemon) scrape(ctx context.Context) []byte {
	moment := d.gate.Moment()
	checks, l, err := d.checks(ctx)
	s := metrics.Sample{Version: version.String(), Now: moment.Now, Started: d.started, Readable: err == nil, Waiting: l.waiting.Count,
		Oldest: l.waiting.Oldest, ByRole: l.waiting.ByRole, Running: l.running, Entries: l.entries, Signed: l.signed,
		Backup: l.backups.At, Verified: l.backups.Verified, BackupOlder: d.config.Monitor.BackupOlder, DrillOlder: d.drillOlder(l.drills), ClockTrusted: moment.Trusted,
		Checks: map[string]bool{}, Backends: map[string]bool{}, Agents: len(d.agents.Registry.All())}
	s.Incidents = len(l.open.Ended) + len(l.open.UnderWay)
	if last := l.drills.Signed; last != nil {
		s.Drill, s.DrillTook = last.Ended, last.Took()
	}
	for _, c := range checks {
		s.Checks[c.Name] = c.State == api.HealthOK
	}
	for _, b := range d.backends.guests.States() {
		s.Backends[b.Name] = b.Away == ""
		s.Guests += b.Targets
	}
	for _, dr := range d.reconciler().Status().Drivers {
		if dr.Kind == op.KindCommand {
			s.Backends[dr.Kind] = dr.OK
		}
	}
	if d.ownLog != nil {
		s.LostLines = d.ownLog.Lost()
	}
	return d.metrics.Text(s)
}

// scrapes gives all scrapes within a second one answer, so that however many there are, the work has a bound.
type scrapes struct {
	make func(context.Context) []byte
	now  func() time.Time

	mu   sync.Mutex
	at   time.Time
	last []byte
}

const scrapeAge = time.Second

func (s *scrapes) text(ctx context.Context) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := s.now(); s.last == nil || at.Sub(s.at) >= scrapeAge || at.Before(s.at) {
		// The answer is for others too, who do not leave with this caller.
		s.last = s.make(context.WithoutCancel(ctx))
		s.at = at
	}
	return s.last, nil
}
