package service

import (
	"context"
	"fmt"
	"log/slog"
	"syscall"
	"time"

	"gated/client/api"
	"gated/internal/agents/agent"
	"gated/internal/agents/reserve"
	"gated/internal/base/crashpoint"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/gate"
	"gated/internal/log/audit"
)

// Agents tells the server which agent calls. It stores registrations, and ends what they hold.
type Agents struct {
	Registry *agent.Registry // of this host
	Book     *reserve.Book
	members  Members
	others   others
	gate     *gate.Gate
	store    *store.Store
	log      *slog.Logger

	ctx  context.Context // ends when Agents no longer waits for an end to be stored
	stop context.CancelFunc
}

// NewAgents returns an empty registry and its book. changed is called for each scope whose reservations changed.
func NewAgents(g *gate.Gate, s *store.Store, m Members, changed func(op.Target), log *slog.Logger) (*Agents, error) {
	a := &Agents{gate: g, store: s, members: m, log: log}
	a.ctx, a.stop = context.WithCancel(context.Background())
	at := func() time.Time { return g.Moment().Now }
	var err error
	if a.Registry, err = agent.New(agent.Config{Now: at, Member: m.Self, Ended: a.ended}); err != nil {
		a.stop()
		return nil, err
	}
	a.Book = reserve.New(reserve.Config{Store: s, Now: at, Append: g.Append, Spend: g.Spend, Still: g.Still, MayAct: g.MayAct, Agent: a.holder, Registered: registered,
		Alive: a.alive, Changed: changed, Logger: log})
	return a, nil
}

// Close stops watching processes. Registrations and reservations stay on disk.
func (a *Agents) Close() {
	a.stop()
	a.Registry.Close()
}

// holderOf returns a registration as a holder of reservations.
func holderOf(r agent.Registration) reserve.Holder {
	return reserve.Holder{Name: r.Name, UID: r.UID, Member: r.Member, Registration: r.ID}
}

// holder returns the present holder of a name.
func (a *Agents) holder(name string) (reserve.Holder, bool) {
	r, ok := a.Registry.Named(name)
	if !ok {
		r, ok = a.others.named(name)
	}
	return holderOf(r), ok
}

// registered reports whether a holder's registration still stands.
func registered(tx *store.Tx, h reserve.Holder) (bool, error) {
	return agent.Registered(tx, h.Name, h.Registration)
}

// alive reports whether a holder's name is registered and alive. A bare uid counts as alive, because it has no process. An agent
// of another host lives until its member tells of its end; a standby hears of that with the reservations.
func (a *Agents) alive(h reserve.Holder) bool {
	if h.Name == "" {
		return true
	}
	if h.Member != a.members.Self {
		r, ok := a.others.named(h.Name)
		return a.members.Active != nil || ok && r.Account() == h.Account()
	}
	r, ok := a.Registry.Named(h.Name)
	return ok && r.Account() == h.Account() && a.Registry.Alive(h.Name)
}

// Caller is the process at the other end of one connection. Who and Self may be called during Close and after it.
type Caller struct {
	registry *agent.Registry
	member   string // as of op.Requester.Set
	peer     *agent.Peer
}

// Connected reads the process that connected. It is called right after accept, once for each connection, while the pid
// is still the process's own. An error closes the connection.
func (a *Agents) Connected(c syscall.Conn) (*Caller, error) {
	p, err := agent.Connected(c)
	if err != nil {
		return nil, err
	}
	return &Caller{a.Registry, a.members.Self, p}, nil
}

// Who returns the caller's agent as op.Requester.Agent has it, "builder#7", and "" for a bare uid. If there is a token,
// only that counts: a wrong one is NotAllowed even if the caller's process is registered.
func (c *Caller) Who(token string) (string, error) {
	if token != "" {
		r, ok := c.registry.WhoByToken(c.peer, token)
		if !ok {
			return "", refusal.New(refusal.NotAllowed, "the token is nobody's here").
				WithHint("gated agent register NAME --token-file FILE makes one; it is good for the uid that asked for it")
		}
		return r.Who(), nil
	}
	r, ok := c.registry.Who(c.peer, 0)
	if !ok {
		return "", nil
	}
	return r.Who(), nil
}

// Self says which agent the daemon takes the caller for; who is what Who returned.
func (c *Caller) Self(who string) api.Caller {
	out := api.Caller{UID: c.peer.UID, Member: c.member, PID: int32(c.peer.PID)}
	if who == "" {
		out.Why = c.registry.WhyNot(c.peer)
		return out
	}
	if r, ok := c.registry.Named(op.AgentName(who)); ok && r.Who() == who {
		one := agentOf(r, c.registry.Alive(r.Name))
		out.Agent = &one
		return out
	}
	out.Why = "the registration has just ended"
	return out
}

// Close releases the process. It is called once, when the connection ends.
func (c *Caller) Close() { c.peer.Close() }

// requester returns the caller as its process shows it.
func (c *Caller) requester() op.Requester {
	who, _ := c.Who("") // only a token can cause an error
	return op.Requester{Source: op.SourceAPI, UID: c.peer.UID, PID: int32(c.peer.PID), Agent: who, Set: c.member}
}

// agentOf returns a registration as the API shows it.
func agentOf(r agent.Registration, alive bool) api.Agent {
	a := api.Agent{Name: r.Name, ID: r.Who(), UID: r.UID, Member: r.Member, PID: r.Process.PID, Bound: "process", Alive: alive, RegisteredAt: r.At.UTC()}
	if r.Token != "" {
		a.Bound = "token"
	}
	return a
}

// List returns the registered agents, by name, with those of other members.
func (a *Agents) List(ctx context.Context) (out []api.Agent, err error) {
	all := a.Registry.All()
	if a.members.Self != "" {
		if all, err = a.rows(ctx); err != nil {
			return nil, a.gate.Answer(err)
		}
	}
	out = make([]api.Agent, len(all))
	for i, r := range all {
		out[i] = agentOf(r, r.Member != a.members.Self || a.Registry.Alive(r.Name))
	}
	return out, nil
}

// rows returns the registrations in the database, by name.
func (a *Agents) rows(ctx context.Context) (list []agent.Registration, err error) {
	err = a.store.View(ctx, func(tx *store.Tx) (err error) {
		list, err = agent.All(tx)
		return err
	})
	return list, err
}

// Register binds a name to a process of the caller's, or to a new token.
func (a *Agents) Register(ctx context.Context, c *Caller, in api.RegisterAgent) (api.RegisteredAgent, error) {
	who := c.requester()
	var r agent.Registration
	var token string
	var err error
	if in.Token {
		r, token, err = a.Registry.RegisterToken(ctx, c.peer, in.Name, a.begin(who))
	} else {
		r, err = a.Registry.Register(ctx, c.peer, agent.Wish{Name: in.Name, PID: in.PID, Reaper: in.Reaper}, a.begin(who))
	}
	if err != nil && a.members.Active != nil {
		return api.RegisteredAgent{}, err // the log is the active member's
	}
	if err != nil {
		return api.RegisteredAgent{}, noteRefused(ctx, a.gate, who, "POST /v1/agents", err)
	}
	return api.RegisteredAgent{Agent: agentOf(r, true), Token: token}, nil
}

// registrationCost is how many bytes a registration writes, from its begin to its end.
const registrationCost = 4 << 10

// begin stores a registration, or has the active member store it.
func (a *Agents) begin(by op.Requester) agent.Commit {
	if a.members.Active != nil {
		return func(ctx context.Context, r agent.Registration) (int64, error) {
			return a.members.Active.Enrol(ctx, by, r.Name, Bound{PID: r.Process.PID, Start: r.Process.Start, Boot: r.Process.Boot, Token: r.Token})
		}
	}
	return func(ctx context.Context, r agent.Registration) (int64, error) {
		err := a.store.Update(ctx, func(tx *store.Tx) (err error) {
			r.ID, err = a.add(tx, by, r)
			return err
		})
		crashpoint.Here(crashpoint.RegisterKept)
		return r.ID, err
	}
}

// add writes a registration and its entry.
func (a *Agents) add(tx *store.Tx, by op.Requester, r agent.Registration) (id int64, err error) {
	if err := a.gate.Spend(tx, by, registrationCost); err != nil {
		return 0, err
	}
	if r.ID, err = agent.Add(tx, r); err != nil {
		return 0, err
	}
	what := "a token"
	if r.Token == "" {
		what = fmt.Sprintf("process %d", r.Process.PID)
	}
	e := about(audit.AgentRegistered, by, r, what)
	e.Registration.PID, e.Registration.Token, e.Registration.SHA256 = r.Process.PID, r.Token != "", r.Binding()
	crashpoint.Here(crashpoint.RegisterWritten)
	return r.ID, a.gate.Append(tx, e)
}

// about returns the audit entry for a registration that began or ended.
func about(kind audit.Kind, by op.Requester, r agent.Registration, detail string) audit.Entry {
	return audit.Entry{Kind: kind, By: by.String(), PID: by.PID, Detail: r.Who() + ": " + detail, For: []string{r.Name},
		Parts: audit.Parts{Registration: audit.Registration{ID: r.ID, Name: r.Name}}}
}

// Unregister takes a name away, and what is bound to its registration. The agent itself may do it. An operator may take
// the name of a token under which nothing is reserved; only a signature may take an agent's reservation. Others are
// refused as NotHolder. operator says that by's uid is an operator's. An agent is never an operator, even under an
// operator's uid: with single_user, all agents have that uid.
func (a *Agents) Unregister(ctx context.Context, by op.Requester, name string, operator bool) (api.Agent, error) {
	operator = operator && by.Agent == ""
	var r agent.Registration
	var err error
	switch other, there := a.others.named(name); {
	case a.members.Active != nil:
		return a.giveUpThere(ctx, by, name)
	case there:
		r, err = other, a.others.mayEnd(other, by, operator)
		if err == nil {
			err = a.giveUp(ctx, by, r)
		}
	default:
		r, err = a.Registry.Unregister(ctx, name, by.Agent, operator, func(ctx context.Context, r agent.Registration) error {
			return a.giveUp(ctx, by, r)
		})
	}
	if err != nil {
		return api.Agent{}, noteRefused(ctx, a.gate, by, "DELETE /v1/agents/"+name, err)
	}
	return agentOf(r, false), nil
}

// giveUp ends a registration, for its agent or for an operator.
func (a *Agents) giveUp(ctx context.Context, by op.Requester, r agent.Registration) error {
	check := func(tx *store.Tx) error { return a.holdsNothing(tx, r) }
	if r.Who() == by.Agent {
		check = nil
	}
	n, err := a.endIf(ctx, check, by, "the name was given up", r)
	if err == nil && n == 0 {
		err = refusal.New(refusal.UnknownTarget, "no agent %q is registered any more", r.Name).
			WithHint("gated agent list shows who is")
	}
	return err
}

// holdsNothing refuses, as NotHolder, a name with a reservation, even one kept from an earlier registration.
func (a *Agents) holdsNothing(tx *store.Tx, r agent.Registration) error {
	id, err := a.Book.Holds(tx, holderOf(r))
	if err != nil || id == 0 {
		return err
	}
	return refusal.New(refusal.NotHolder, "%q holds %v, so only the holder of its token can give the name up", r.Name, id).
		WithHint("wait until the reservation's time is up, or have it signed away: gated reservation force-transfer, gated reservation release-all")
}

// Health says whether the daemon can recognise agents by their processes.
func (a *Agents) Health() api.Health {
	if why := a.Registry.Blind(); why != "" {
		return api.Health{Name: "agents", Detail: "no process can be recognised, and agents that are registered by one have no name: " + why +
			"; tokens work: gated agent register NAME --token-file FILE"}
	}
	return api.Health{Name: "agents", OK: true, Detail: "recognised by their processes"}
}
