package daemon

import (
	"context"
	"errors"
	"time"

	"gated/internal/base/store"
	"gated/internal/host/systemd"
)

// tell tells the service manager how the daemon stands.
func (d *daemon) tell(state string) {
	if err := systemd.Notify(state); err != nil {
		d.log.Warn("the service manager was not told", "error", err)
	}
}

// watchdog tells the service manager at each interval that the gate still reads its database. If the disk hangs, or
// the whole process stands still, the manager hears nothing, ends the daemon and starts it again. Load cannot silence
// it: the ping needs no place among callers, asks for one row, and there are more connections for readers than callers may
// use at once.
func (d *daemon) watchdog(ctx context.Context) error {
	interval := systemd.Watchdog()
	if interval <= 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		if err := d.alive(ctx); err != nil && ctx.Err() == nil {
			d.log.Error("the service manager's watchdog gets no ping, because the database cannot be read", "error", err)
		} else if err == nil {
			d.tell(systemd.Alive)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// errNoSchema says that the database has no tables.
var errNoSchema = errors.New("the database has no schema")

// alive reads one value of the database's first page.
func (d *daemon) alive(ctx context.Context) error {
	return d.opened.Store.View(ctx, func(tx *store.Tx) error {
		var version int
		err := tx.QueryRow(`SELECT user_version FROM pragma_user_version`).Scan(&version)
		if err == nil && version == 0 {
			err = errNoSchema
		}
		return err
	})
}
