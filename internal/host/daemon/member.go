package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"gated/client/api"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/host/config"
	"gated/internal/host/life"
	"gated/internal/host/server"
	"gated/internal/host/systemd"
	"gated/internal/ledger"
	"gated/internal/ledger/lease"
	"gated/internal/log/audit"
	"gated/internal/nonce"
)

// maxApart is how far this member's clock may be from the ledger's, before it decides nothing. So two members are no further
// apart than nonce.MaxBehind, and the next one believes its clock after a takeover.
const maxApart = nonce.MaxBehind / 2

// member is this daemon's part in a gate that several daemons know. It is a standby first, and then perhaps the active one.
type member struct {
	config.Store
	dir       string
	engine    ledger.Engine
	lease     *lease.Lease // of the active one; nil on a standby
	mine      bool         // this state directory began the era before, so no other host is at anything
	forced    bool         // an operator had it take over while another member may have been alive
	stopPings func()       // of the time in which it becomes the active one; nil before
	own       bool         // that its era is its own is written down
	log       *slog.Logger

	mu     sync.Mutex
	at     ledger.Position // as the ledger answered last
	group  uint64          // the newest in the database here
	silent time.Duration   // for how long the active one gave no sign of life
	active audit.Member    // as the log says
	policy string          // the digest of the one that the active member decides by, as the log says
	told   bool            // the log told of revoked keys since it was asked last
	read   int64           // up to which entry the log was read for that
	fault  error           // why the standby does not follow, or does not take over

	forwards // of callers of this host, and of other members'

	asked chan chan<- error // of an operator who wants this member to take over; each has room for the answer
}

// serveMember serves as a standby until no other member decides, and then as the active one. A member that is taken over
// ends with an error, so that its service manager starts it anew, with nothing in its memory.
func serveMember(ctx context.Context, c config.Store, o ServeOptions, hup <-chan os.Signal) (served bool, err error) {
	id, err := life.Identity(ctx, o.StateDir)
	if err != nil {
		return false, err
	}
	engines := o.Engines
	if engines == nil {
		engines = life.Postgres
	}
	engine, err := engines(ctx, c, id.Gate)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	m := &member{Store: c, dir: o.StateDir, engine: engine, log: o.Logger, asked: make(chan chan<- error)}
	if m.forwards, err = newForwards(c, id.Gate); err != nil {
		return false, err
	}
	opened, err := life.OpenStandby(ctx, o.StateDir, o.Logger, engine)
	if err != nil {
		return false, err
	}
	served, err = m.standBy(ctx, opened, o, hup)
	if err = errors.Join(err, opened.Close()); err != nil || ctx.Err() != nil {
		return served, err
	}
	return m.decide(ctx, o, hup)
}

// decide serves as the active member.
func (m *member) decide(ctx context.Context, o ServeOptions, hup <-chan os.Signal) (served bool, err error) {
	m.pings(ctx)
	defer m.serves()
	m.lease = lease.New(m.engine, m.Lease, nonce.SinceBoot)
	opened, err := life.OpenActive(ctx, m.dir, o.Logger, m.lease)
	if err != nil {
		return false, err
	}
	m.log.Info("this member decides", "member", m.Member, "era", m.lease.Era())
	if m.forced || !m.mine && m.cameBack() {
		// The member before was alive, and does not know yet that it is not the active one.
		m.log.Info("this member waits for the one before", "longest", m.longest())
		if err := m.lease.Wait(ctx, m.longest()); err != nil || ctx.Err() != nil {
			return false, errors.Join(err, opened.Close())
		}
	}
	served, err = serve(ctx, opened, m, o, hup)
	return served, errors.Join(err, opened.Close())
}

// changing is how long the service manager hears that a member lives that becomes the active one. A start may take as long.
const changing = 10 * time.Minute

// pings tells the service manager that this daemon lives while it becomes the active member: it heard that the standby is
// ready, and would end a daemon that is silent. It ends with serves, which the active member's own watchdog follows.
func (m *member) pings(ctx context.Context) {
	interval := systemd.Watchdog()
	if interval <= 0 {
		return
	}
	ctx, m.stopPings = context.WithTimeout(ctx, changing+m.longest())
	go func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			if err := systemd.Notify(systemd.Alive); err != nil {
				m.log.Warn("the service manager was not told", "error", err)
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
}

// serves ends pings.
func (m *member) serves() {
	if m != nil && m.stopPings != nil {
		m.stopPings()
	}
}

// cameBack reports whether the member before gave a sign of life after the last look of the standby, and before this era.
func (m *member) cameBack() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	was, taken := m.at, m.lease.Taken()
	return taken.Beat != was.Beat || taken.Last != was.Last || taken.Era != was.Era+1
}

// longest is for how long a member before may act without a sign of life: gated.yaml of each member says its own.
func (m *member) longest() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(m.Lease, time.Duration(m.active.Lease)*time.Second)
}

// remember writes down that the era is this member's own, once nothing is left that another host began. Until then a start
// waits, and takes no step that is under way for one of its own.
func (m *member) remember(elsewhere func() bool) error {
	if m == nil || m.own || !m.mine && elsewhere() {
		return nil
	}
	err := life.RememberEra(m.dir, m.lease.Era())
	m.own = err == nil
	return err
}

// standsBy reports whether another member decides.
func (m *member) standsBy() bool { return m != nil && m.lease == nil }

// moved reports whether another host may have been at what was under way.
func (m *member) moved() bool { return m != nil && !m.mine }

// held returns what says whether this daemon may act, nil for a gate of this host alone.
func (m *member) held() func() error {
	switch {
	case m == nil:
		return nil
	case m.lease == nil:
		return m.refusal
	}
	return m.lease.Held
}

// parts are what an active member does beside the rest.
func (m *member) parts(answers *server.Server) []part {
	if m == nil || m.lease == nil {
		return nil
	}
	return append([]part{{"the lease", m.lease.Run}}, m.takesForwarded(answers)...)
}

// refusal is what a standby answers to all that only the active member can.
func (m *member) refusal() error {
	m.mu.Lock()
	name := m.active.Name
	m.mu.Unlock()
	if name == "" {
		return refusal.New(refusal.Standby, "member %s is a standby, and no member decides yet", m.Member)
	}
	return refusal.New(refusal.Standby, "member %s is a standby: member %s decides", m.Member, name)
}

// takeOver has a standby become the active member, for an operator. It returns before that is done.
func (m *member) takeOver(ctx context.Context) error {
	switch {
	case m == nil:
		return refusal.New(refusal.Conflict, "this gate is of this host alone, so no other member can decide").
			WithHint("gated docs guides/high-availability says how a gate gets members")
	case m.lease != nil:
		return refusal.New(refusal.Conflict, "member %s decides already", m.Member)
	}
	answer := make(chan error, 1)
	select {
	case m.asked <- answer:
		return <-answer
	case <-ctx.Done():
		return ctx.Err()
	}
}

// status says how the member is, nil for a gate of this host alone.
func (m *member) status(ctx context.Context, d *daemon) *api.Member {
	if m == nil {
		return nil
	}
	here, err := d.opened.Store.Place(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &api.Member{Name: m.Member, Role: api.RoleStandby, Active: m.active.Name, Era: m.at.Era, Group: here.Number, Newest: max(m.at.Last, here.Number),
		Silent: int64(m.silent / time.Second)}
	err = errors.Join(err, m.fault)
	if m.lease != nil {
		s.Role, s.Active, s.Era, s.Newest, s.Silent = api.RoleActive, m.Member, m.lease.Era(), here.Number, 0
		err = m.lease.Held()
	}
	if m.identity != nil {
		until := m.identity.Until()
		s.CertificateUntil = &until
	}
	if err != nil {
		r := refusal.As(err)
		s.Error = &api.Error{Code: r.Code, Detail: r.Detail}
	}
	return s
}

// memberHealth says whether the member does its part.
func (d *daemon) memberHealth(ctx context.Context) []api.Health {
	s := d.member.status(ctx, d)
	if s == nil {
		return nil
	}
	d.member.mu.Lock()
	policy := d.member.policy
	d.member.mu.Unlock()
	h := api.Health{Name: "member", OK: true, Detail: fmt.Sprintf("%s is a standby with %d of %d groups; %s decides", s.Name, s.Group, s.Newest, s.Active)}
	switch {
	case s.Error != nil:
		h.OK, h.Detail = false, fmt.Sprintf("%s, %s: %s", s.Name, s.Role, s.Error.Detail)
	case s.Role == api.RoleActive:
		h.Detail = fmt.Sprintf("%s decides, era %d", s.Name, s.Era)
	case policy != "" && policy != d.gate.Policy().Digest():
		h.OK = false
		h.Detail = fmt.Sprintf("the policy in gated.yaml of %s is not the one that %s decides by: make them the same, and restart this member", s.Name, s.Active)
	}
	return append([]api.Health{h}, d.member.callsHealth(now())...)
}

// look reads who decides, and by what: the first time from the end of the log, then from the entries since the last look.
// It returns the jobs that the entries are about.
func (m *member) look(ctx context.Context, s *store.Store) (jobs []string, err error) {
	err = s.View(ctx, func(tx *store.Tx) error {
		if m.read == 0 {
			head, err := audit.ReadHead(tx)
			if err != nil {
				return err
			}
			started, err := audit.Newest(tx, audit.Started)
			if err != nil {
				return err
			}
			newest, err := audit.Newest(tx, audit.Started, audit.Trusted)
			if err != nil {
				return err
			}
			m.note(started)
			m.note(newest)
			m.read = head.Seq
		}
		for {
			entries, err := audit.After(tx, m.read, 512)
			if err != nil || len(entries) == 0 {
				return err
			}
			for _, e := range entries {
				if e.Job != "" && (len(jobs) == 0 || jobs[len(jobs)-1] != e.Job) {
					jobs = append(jobs, e.Job)
				}
				m.note(e)
			}
			m.read = entries[len(entries)-1].Seq
		}
	})
	return jobs, err
}

// note keeps what an entry tells of the active member.
func (m *member) note(e audit.Entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch e.Kind {
	case audit.Started:
		m.active, m.policy, m.told = e.Member, e.Policy, true
	case audit.Trusted:
		m.policy, m.told = e.Policy, true
	}
}

// sameTime refuses to decide by a clock that is far from the ledger's: what is signed has times, and rules have delays.
func (m *member) sameTime(ctx context.Context) error {
	timed, ok := m.engine.(ledger.Timed)
	if !ok {
		return nil
	}
	there, err := timed.Time(ctx)
	if err != nil {
		return err
	}
	if apart := now().Sub(there); apart.Abs() > maxApart {
		return refusal.New(refusal.Unavailable, "the clocks of this member and of the ledger differ by %s, so this member does not take over", apart.Abs().Round(time.Second)).
			WithHint("set the clock that is wrong: timedatectl on both hosts")
	}
	return nil
}
