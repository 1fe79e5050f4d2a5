package daemon

import (
	"context"
	"fmt"
	"time"

	"gated/client/api"
	"gated/internal/base/store"
	"gated/internal/log/journal"
)

// looked is what one snapshot of the database says to those who watch the gate.
type looked struct {
	waiting journal.Waiting
	backups journal.Backups
}

// look reads what monitors ask for. It reads as much whatever the length of the history.
func (d *daemon) look(ctx context.Context) (l looked, err error) {
	err = d.gate.Answer(d.opened.Store.View(ctx, func(tx *store.Tx) error {
		if l.waiting, err = journal.ReadWaiting(tx); err != nil {
			return err
		}
		l.backups, err = journal.ReadBackups(tx)
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
