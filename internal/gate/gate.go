// Package gate decides which steps may run. It accepts jobs, asks for signatures,
// counts them, and hands out permits. No other package can make a permit. Each
// decision is one transaction, which also writes the audit log.
package gate

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/base/turns"
	"gated/internal/log/audit"
	"gated/internal/log/checkpoint"
	"gated/internal/log/journal"
	"gated/internal/nonce"
	"gated/internal/people/policy"
)

// Skew is how far an operator's clock may be off (protocol section 1).
const Skew = 60 * time.Second

// Config is what a gate needs. All fields but Key, Wake, WakeSigned and Logger are
// required; Observer, Wake and WakeSigned may come later, by Attach.
type Config struct {
	Store  *store.Store
	Clock  *nonce.Clock
	Host   string
	ID     op.GateID
	Trust  *authz.Trust
	Epoch  int64 // of the trust file
	Policy policy.Policy
	UID    uint32 // beside root, a uid of operators that may cancel any job; 0 is none
	// Operators are the other uids of operators on the socket. A registered agent is
	// no operator, whatever its uid.
	Operators []uint32

	// Member is the name under which callers of this host ask, if the gate has callers of other members; UID and
	// Operators are of this host. Elsewhere are operators' uids on other members.
	Member    string
	Elsewhere []op.Account

	// Key signs the heads of the audit log; nil leaves them unsigned.
	Key checkpoint.Signer

	// Quotas bound what one requester may have the gate keep; zero is no bound.
	Quotas Quotas

	// Room keeps disk space for signed work; nil keeps none.
	Room Room

	// Held returns nil if this daemon may act for the gate now, else why not; nil always may. A step
	// that was dispatched and may not act then fails.
	Held func() error

	// Observer looks at targets. Wake is called after commit for each target that
	// may have something to do, and WakeSigned in its place for those of a job of
	// which operators authorized a step. Nil Wake wakes nothing, nil WakeSigned is
	// Wake. Neither may block.
	Observer         op.Observer
	Wake, WakeSigned func(op.Target)

	Logger *slog.Logger
}

// Gate is safe for concurrent use.
type Gate struct {
	store     *store.Store
	observer  op.Observer
	wake      func(op.Target)
	signed    func(op.Target) // in place of wake
	clock     *nonce.Clock
	host      string
	id        op.GateID
	uid       uint32
	operates  []uint32 // uids of operators beside uid and root
	member    string
	elsewhere []op.Account
	log       *slog.Logger
	rules     atomic.Pointer[rules]
	changing  sync.Mutex // held while rules are replaced
	refusals  refusals
	turned    atomic.Pointer[turnedAway] // nil: none since the start
	news      news
	looks     *turns.Turns
	claims    *claims
	quotas    Quotas
	room      Room
	held      func() error
	checked   atomic.Bool // no request of another gate or of an older policy waits
}

// Migrations returns the schema of everything that a gate writes, in order.
func Migrations() []store.Migration {
	return []store.Migration{
		{Version: 1, Name: "journal, nonces and audit log", SQL: journal.Schema + nonce.Schema + audit.Schema},
		{Version: 2, Name: "requirements, proofs and versions of the trust file", SQL: journal.SchemaPeople},
		{Version: 3, Name: "the audit log as a tree", SQL: audit.SchemaTree},
		{Version: 4, Name: "the time since boot beside the mark", SQL: nonce.SchemaBoot},
		{Version: 5, Name: "what steps printed", SQL: journal.SchemaOutputs},
		{Version: 6, Name: "what jobs may take back", SQL: journal.SchemaUsed},
		{Version: 7, Name: "quotas, what operators were shown, which step destroyed a guest, and who made copies",
			SQL: journal.SchemaQuotas + journal.SchemaEnds + journal.SchemaCopies},
		{Version: 8, Name: "what a target had when a step was dispatched", SQL: journal.SchemaBefore},
		{Version: 9, Name: "entries of the audit log with typed parts; a later request overtakes a rejection",
			SQL: audit.SchemaParts + journal.SchemaOvertaken},
		{Version: 10, Name: "rejections, and the reason of each requester", SQL: journal.SchemaRejections},
		{Version: 11, Name: "copies of the database that were handed out", SQL: journal.SchemaBackups},
		{Version: 12, Name: "batches in the place of payloads", SQL: journal.SchemaBatches},
		{Version: 13, Name: "which steps ran on a target since", SQL: journal.SchemaRan},
		{Version: 14, Name: "the order of steps on a target", SQL: journal.SchemaTurn},
	}
}

// New returns a gate and registers what the store does once per group.
func New(c Config) (*Gate, error) {
	if err := c.Policy.Validate(); err != nil {
		return nil, err
	}
	g := &Gate{store: c.Store, clock: c.Clock, host: c.Host, id: c.ID, uid: c.UID, operates: c.Operators, member: c.Member, elsewhere: c.Elsewhere, log: c.Logger,
		looks: turns.New(maxLooks, maxLooksUID), claims: newClaims(), quotas: c.Quotas, room: c.Room, held: c.Held}
	if g.room == nil {
		g.room = endless{}
	}
	if g.held == nil {
		g.held = func() error { return nil }
	}
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	g.rules.Store(&rules{trust: c.Trust, epoch: c.Epoch, policy: c.Policy})
	c.Store.OnGroup(audit.Sealer{Gate: c.ID, Key: c.Key}.Seal)
	c.Store.OnGroup(c.Clock.Seal)
	c.Store.OnGroup(g.news.collect)
	c.Store.OnCommit(c.Clock.Sealed)
	c.Store.OnCommit(g.room.Committed)
	c.Store.OnCommit(g.news.tell)
	g.Attach(c.Observer, c.Wake, c.WakeSigned)
	return g, nil
}

// MayAct returns why this daemon may not act for the gate now, nil if it may.
func (g *Gate) MayAct() error { return g.held() }

// Attach gives the gate its targets, as Config has them, because drivers that need
// the gate are made after it. It is called once, before a call that is about a
// target.
func (g *Gate) Attach(o op.Observer, wake, signed func(op.Target)) {
	if wake == nil {
		wake = func(op.Target) {}
	}
	if signed == nil {
		signed = wake
	}
	g.observer, g.wake, g.signed = o, wake, signed
}

// Host returns the gate's host name.
func (g *Gate) Host() string { return g.host }

// ID returns the gate id.
func (g *Gate) ID() op.GateID { return g.id }

// Moment returns the gate's time and whether the gate trusts its clock.
func (g *Gate) Moment() nonce.Moment { return g.clock.Now() }

// Log writes one entry that is about no step: started, stopped, trusted.
func (g *Gate) Log(ctx context.Context, e audit.Entry) error {
	return g.machine(g.update(ctx, func(tx *store.Tx) error { return g.append(tx, e) }))
}

// Append writes entries about decisions of other packages, in the transaction that
// decides. Append sets the time and the gate id.
func (g *Gate) Append(tx *store.Tx, entries ...audit.Entry) error { return g.append(tx, entries...) }

// Answer turns an error of such a transaction into the answer for callers, as the
// gate does with its own errors. Refusals pass unchanged. A failure of the machine
// becomes Unavailable. Any other error is logged and becomes Internal.
func (g *Gate) Answer(err error) error { return g.machine(err) }

// append writes entries with the gate's time.
func (g *Gate) append(tx *store.Tx, entries ...audit.Entry) error {
	now := g.clock.Now().Now
	for i := range entries {
		entries[i].Time, entries[i].Gate = now, g.id
	}
	_, err := audit.Append(tx, entries...)
	if err == nil {
		mention(tx, entries)
	}
	return err
}

// decide runs one decision in one transaction. If fn fails, the gate undoes what fn
// wrote and writes the refusal to the audit log instead. If the disk is full, decide
// uses the reserve.
func (g *Gate) decide(ctx context.Context, by op.Requester, about audit.Entry, fn func(*store.Tx) error) error {
	return g.decideBy(ctx, g.updateOr, by, about, fn, nil)
}

// decideOr is decide for work without a signature, which may not use the reserve.
// more, if not nil, writes more if fn refuses.
func (g *Gate) decideOr(ctx context.Context, by op.Requester, about audit.Entry, fn func(*store.Tx) error,
	more func(*store.Tx, error) error) error {
	return g.decideBy(ctx, g.store.UpdateOr, by, about, fn, more)
}

// decideBy runs one decision with update. Only what the store runs instead of a
// failed fn counts refusals, because the store may run fn more than once.
func (g *Gate) decideBy(ctx context.Context, update func(context.Context, func(*store.Tx) error, func(*store.Tx, error) error) error,
	by op.Requester, about audit.Entry, fn func(*store.Tx) error, more func(*store.Tx, error) error) error {
	var refused error
	err := update(ctx, func(tx *store.Tx) error { refused = nil; return fn(tx) }, func(tx *store.Tx, failed error) error {
		if errors.Is(failed, errRulesMoved) || errors.Is(failed, store.ErrUnavailable) {
			return failed
		}
		if more != nil {
			if err := more(tx, failed); err != nil {
				return err
			}
		}
		refused = failed
		return g.note(tx, by, about, failed)
	})
	if err == nil {
		err = refused
	}
	return g.machine(err)
}

// noteTime is the longest time that the gate tries to write a refusal.
const noteTime = 10 * time.Second

// refuse writes a refusal that was found before any transaction, and returns it. If
// it cannot write the refusal, it returns Unavailable. It writes the refusal also if
// the caller hangs up.
func (g *Gate) refuse(ctx context.Context, by op.Requester, about audit.Entry, refused error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTime)
	defer cancel()
	return g.decideOr(ctx, by, about, func(*store.Tx) error { return g.machine(refused) }, nil)
}

// view reads in one snapshot.
func (g *Gate) view(ctx context.Context, fn func(*store.Tx) error) error {
	return g.machine(g.store.View(ctx, fn))
}

// HintInDoubt says what to do if it is not known whether the database kept something.
const HintInDoubt = "when the gate answers again, look first: gated jobs, opsign list; what was kept counts once"

// machine turns a failure of the machine into the refusal that callers see, and logs
// the failure. Refusals pass unchanged.
func (g *Gate) machine(err error) error {
	var refused *refusal.Refusal
	switch {
	case err == nil, errors.Is(err, errRulesMoved):
		return err
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		level := slog.LevelError
		if errors.Is(err, context.Canceled) {
			level = slog.LevelDebug // the caller left or the daemon stops, which is no fault
		}
		if store.InDoubt(err) {
			g.log.Error("whether it is decided is not known", "error", err)
			return refusal.New(refusal.Unavailable, "the gate cannot say now whether this was decided, because it is not known whether its journal kept it").
				WithHint("%s", HintInDoubt)
		}
		g.log.Log(context.Background(), level, "not decided", "error", err)
		return refusal.New(refusal.Unavailable, "the gate cannot write its journal now, so nothing was decided").
			WithHint("gated status says what is wrong; try again when the disk has space and works")
	case errors.As(err, &refused):
		return err
	default:
		g.log.Error("internal error", "error", err)
		return refusal.New(refusal.Internal, "an internal error; nothing was decided").WithHint("the daemon's log has it")
	}
}

// wakeAll wakes the targets of the open steps among those of a job.
func (g *Gate) wakeAll(steps []op.Step) {
	wake := g.wake
	if authorized(steps) {
		wake = g.signed
	}
	seen := map[op.Target]bool{}
	for _, s := range steps {
		if !seen[s.Target] && s.State.Open() {
			seen[s.Target] = true
			wake(s.Target)
		}
	}
}

// about starts an audit entry for a step.
func about(kind audit.Kind, by string, s op.Step) audit.Entry {
	e := audit.Entry{Kind: kind, By: by, Op: s.Op, Target: s.Target.String(), Incarnation: s.Incarnation,
		Class: s.Verdict.Class, Rule: s.Verdict.Rule}
	if s.ID.Job != 0 {
		e.Job, e.Step = s.ID.Job.String(), s.ID.String()
	}
	return e
}

// asked is about, with the requester's words and the reason for the step's class.
func asked(kind audit.Kind, by op.Requester, s op.Step, reason string) audit.Entry {
	e := about(kind, by.String(), s)
	e.PID, e.Why, e.Params, e.Reason = by.PID, s.Verdict.Why, s.Params, reason
	return e
}
