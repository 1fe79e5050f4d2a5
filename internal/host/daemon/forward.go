package daemon

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/config"
	"gated/internal/host/members"
	"gated/internal/host/server"
)

const (
	// catchUp is how long the answer to a forwarded call waits until the reads of this member have what it did.
	catchUp = 2 * time.Second
	// listenAgain is the pause before the next try to listen for other members. The gate decides without it, too.
	listenAgain = 5 * time.Second
)

// forwards carries calls between members. It is empty on a gate whose members forward nothing.
type forwards struct {
	identity *members.Identity
	sender   *members.Forwarder
	sooner   chan struct{} // holds one: the ledger has something new
	followed chan struct{} // closed with the next look at the ledger; guarded by member.mu
	deaf     error         // why the active member cannot listen; guarded by member.mu
}

func newForwards(c config.Store, gate op.GateID) (forwards, error) {
	f := forwards{sooner: make(chan struct{}, 1), followed: make(chan struct{})}
	if c.Members == nil {
		return f, nil
	}
	if err := checkScopes(c); err != nil {
		return f, err
	}
	peers := map[string]members.Peer{}
	for name, m := range c.Members {
		peers[name] = members.Peer(m)
	}
	var err error
	if f.identity, err = members.Load(members.Settings{Gate: gate, Self: c.Member, Members: peers, Certificate: c.Certificate, Key: c.Key, Now: now}); err != nil {
		return f, err
	}
	f.sender = members.NewForwarder(f.identity)
	return f, nil
}

// callers returns the name under which callers of this host ask, "" on a gate whose members forward nothing.
func (m *member) callers() string {
	if m == nil || m.identity == nil {
		return ""
	}
	return m.Member
}

// membersOf returns what the server needs for calls between members, nil for none.
func (d *daemon) membersOf() *server.Members {
	m := d.member
	if m.callers() == "" {
		return nil
	}
	return &server.Members{Self: m.Member, Gate: d.gate.ID(), Took: m.identity.Server(), Who: m.identity.Who, Decides: m.held(), Forward: m.forward,
		Group: func(ctx context.Context) (uint64, error) {
			here, err := d.opened.Store.Place(ctx)
			return here.Number, err
		}}
}

// certificateWarns is how long before the end of its certificate a member warns.
const certificateWarns = 30 * 24 * time.Hour

// callsHealth says whether other members can ask this one and take its calls, nil if members forward nothing.
func (m *member) callsHealth(at time.Time) []api.Health {
	if m.callers() == "" {
		return nil
	}
	until := m.identity.Until()
	h := api.Health{Name: "certificate", OK: true, Detail: "until " + until.Format(time.RFC3339)}
	switch fault := m.identity.Fault(); {
	case fault != nil:
		h.OK, h.Detail = false, refusal.As(fault).Detail+"; "+refusal.As(fault).Hint
	case until.Sub(at) < certificateWarns:
		h.OK = false
		h.Detail += ", in less than 30 days: make a new one, and write its fingerprint into gated.yaml of each member; see gated docs guides/high-availability"
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.deaf != nil {
		return []api.Health{h, {Name: "other members", Detail: fmt.Sprintf("cannot ask this one, because it cannot listen on %s: %v", m.Listen, m.deaf)}}
	}
	return []api.Health{h}
}

// takesForwarded is the part of an active member that answers other members' calls.
func (m *member) takesForwarded(answers *server.Server) []part {
	if m.callers() == "" {
		return nil
	}
	return []part{{"the other members' calls", func(ctx context.Context) error {
		for {
			l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", m.Listen)
			m.mu.Lock()
			m.deaf = err
			m.mu.Unlock()
			if err == nil {
				m.log.Info("other members' calls are answered", "listen", l.Addr().String())
				return answers.ServeMembers(ctx, l)
			}
			m.log.Error("other members cannot ask this one", "listen", m.Listen, "error", err, "again_in", listenAgain)
			again := time.NewTimer(listenAgain)
			select {
			case <-ctx.Done():
				again.Stop()
				return nil
			case <-again.C:
			}
		}
	}}}
}

// forward has the active member answer, within so long. Before the answer to a change is passed on, the reads of this member have it.
func (m *member) forward(ctx context.Context, within time.Duration, c members.Call, r *http.Request, body []byte) (*http.Response, error) {
	m.mu.Lock()
	active := m.active.Name
	m.mu.Unlock()
	_, known := m.Members[active]
	switch {
	case active == "" || active == m.Member:
		return nil, refusal.New(refusal.Standby, "member %s is a standby, and no other member decides yet", m.Member).WithHint("ask again")
	case !known:
		return nil, refusal.New(refusal.Standby, "member %s decides, and store.members of %s lacks it", active, m.Member).
			WithHint("add it to gated.yaml of each member, and start each again")
	}
	resp, err := m.sender.Send(ctx, within, active, c, r, body)
	if err != nil || r.Method == http.MethodGet {
		return resp, err
	}
	if n, err := strconv.ParseUint(resp.Header.Get(members.GroupHeader), 10, 64); err == nil {
		m.catchUp(ctx, n)
	}
	return resp, nil
}

// catchUp returns when this member has a group, or after a while.
func (m *member) catchUp(ctx context.Context, n uint64) {
	late := time.NewTimer(catchUp)
	defer late.Stop()
	for {
		m.mu.Lock()
		has, next := m.group >= n, m.followed
		m.mu.Unlock()
		if has {
			return
		}
		select {
		case m.sooner <- struct{}{}:
		default:
		}
		select {
		case <-next:
		case <-late.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// tellFollowers ends the waits for a look at the ledger. The caller holds mu.
func (m *member) tellFollowers() {
	close(m.followed)
	m.followed = make(chan struct{})
}
