package daemon

import (
	"os"

	"gated/internal/base/op"
	"gated/internal/host/server"
	"gated/internal/host/service"
)

// server returns the socket's server over this daemon.
func (d *daemon) server() *server.Server {
	g, guests := d.gate, d.backends.guests
	backups := service.NewBackup(g, d.opened.Store, d.opened.Dir.Path(), d.log)
	c := server.Config{
		Gate:   g,
		Held:   d.reconciler().HeldBack,
		Guests: service.NewGuests(g, guests),
		Log:    d.events,
		Waits:  service.NewWaits(g),
		Status: d.Status,
		Health: d.Health, Metrics: d.scrapes.text, Proved: func() { d.metrics.Proved(g.Moment().Now) },
		Reload: d.Reload, TakeOver: d.member.takeOver,
		Desired: service.NewDesired(g, guests, service.Elsewhere{Dir: d.config.Desired.Dir, Hub: d.hubURL()},
			d.reconciler().Reread),
		Canary: d.canary, Verified: d.whole.verified,
		Backup: backups.Backup, BackupVerified: backups.Verified,
		Backends:     d.backends.Backends,
		Steering:     append(service.SteeringOfCommands(d.config.Commands), d.backends.steers...),
		Agents:       d.agents,
		Reservations: service.NewReservations(d.agents.Book, g, d.agentsOf(), d.config.Unseen),

		UID: uint32(os.Geteuid()), SingleUser: d.config.SingleUser, Operators: d.config.Operators,
		Refused: g.NoteRefused, Now: now, Logger: d.log,
	}
	if d.config.Store == nil { // another host of the gate has other users with the same uids
		c.Users = service.NewUsers(now, service.Accounts)
	}
	if looks, ok := d.drivers[op.KindCommand]; ok {
		c.Commands = service.NewCommands(d.config.Commands, looks)
	}
	if !d.config.AnySubmitter {
		c.Submitters = d.config.Submitters
		if c.Submitters == nil {
			c.Submitters = []uint32{}
		}
	}
	c.OperatorsElsewhere, c.SubmittersElsewhere = d.config.Elsewhere.Operators, d.config.Elsewhere.Submitters
	c.Members = d.membersOf()
	if d.member.standsBy() {
		c.Standby, c.Refused = d.member.refusal, nil // it writes no entry
	}
	return server.New(c)
}
