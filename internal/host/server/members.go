package server

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/members"
)

// maxForwarded is how many connections of other members there may be at once.
const maxForwarded = 1024

// Members are what a server needs to take calls that other members forward, and to forward its own.
type Members struct {
	Self string      // callers of this host ask as uid@Self
	Gate op.GateID   // a call for another gate is refused
	Took *tls.Config // of connections of other members
	Who  func(*tls.ConnectionState) (member string, err error)

	// Decides returns nil while this member is the active one and may act.
	Decides func() error
	// Group returns the newest group of the ledger here.
	Group func(context.Context) (uint64, error)
	// Forward has the active member answer a call, whose answer begins within so long. An error is a refusal.
	Forward func(ctx context.Context, within time.Duration, c members.Call, r *http.Request, body []byte) (*http.Response, error)
}

// ServeMembers answers on l what other members forward, until ctx ends. Serve has to run, too.
func (s *Server) ServeMembers(ctx context.Context, l net.Listener) error {
	h := s.http(s.forwarded)
	h.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){}
	few := newFewConns(l, maxForwarded, maxStrangers)
	return s.until(ctx, h, tls.NewListener(few, s.Members.Took), few.called, func() {})
}

// forwarded answers a call of another member's caller, as serve answers one of this host's.
func (s *Server) forwarded(w http.ResponseWriter, r *http.Request) {
	p, err := s.forwardedPeer(r)
	if err != nil {
		s.problem(w, api.ProblemOf(err))
		return
	}
	r = r.WithContext(context.WithValue(r.Context(), peerKey{}, p))
	g := &grouped{ResponseWriter: w, s: s, r: r}
	if ofAgents(r) {
		by, _ := s.identify(r) // another member's caller is known already
		s.aboutAgents(g, withRequester(r, by), p)
		return
	}
	s.serve(g, r)
}

// forwardedPeer returns the caller of a forwarded call: a caller of the member whose certificate the connection has.
func (s *Server) forwardedPeer(r *http.Request) (*peer, error) {
	member, err := s.Members.Who(r.TLS)
	if err != nil {
		return nil, err
	}
	c, err := members.CallOf(r.Header)
	if err != nil {
		return nil, err
	}
	if c.Gate != s.Members.Gate {
		return nil, refusal.New(refusal.TargetMismatch, "member %s forwards a call to gate %s, and this is gate %s", member, c.Gate, s.Members.Gate).
			WithHint("correct store.members in gated.yaml: the members of one gate name each other")
	}
	if len(r.Header.Values(api.TokenHeader)) > 0 {
		return nil, refusal.New(refusal.Malformed, "a member looks tokens up itself")
	}
	if err := s.Members.Decides(); err != nil {
		return nil, err
	}
	by := op.Account{UID: c.UID, Member: member}
	if err := s.isAgent(by, c.Agent); err != nil {
		return nil, err
	}
	return &peer{uid: by.Lane(), pid: c.PID, of: &by, agent: c.Agent, crowd: s.crowd, in: true}, nil
}

// grouped says in the answer how far the ledger is, so that the member's reads have what the call did.
type grouped struct {
	http.ResponseWriter
	s *Server
	r *http.Request
}

// WriteHeader adds the group. Without one the member does not wait for it.
func (g *grouped) WriteHeader(status int) {
	if n, err := g.s.Members.Group(context.WithoutCancel(g.r.Context())); err == nil {
		g.Header().Set(members.GroupHeader, strconv.FormatUint(n, 10))
	}
	g.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (g *grouped) Unwrap() http.ResponseWriter { return g.ResponseWriter }

// place lets a caller in, and reports whether another member answers the call. A call that came from another member is never
// forwarded again.
func (s *Server) place(p *peer, by op.Requester, rt route) (elsewhere bool, err error) {
	if err := s.admit(by, rt.who); err != nil {
		return false, err
	}
	here := rt.onStandby() || s.Members != nil && rt.ofHost()
	if p.of != nil && (here && rt.method != http.MethodDelete || !rt.forwarded()) {
		return false, ownRefusal(refusal.New(refusal.NotAllowed, "a member answers %s itself, and forwards no such call", rt.path))
	}
	elsewhere = s.Standby != nil && !here
	if elsewhere && (s.Members == nil || !rt.forwarded() || p.of != nil) {
		return false, s.Standby()
	}
	return elsewhere, nil
}

// forward has the active member answer a call of this host.
func (s *Server) forward(c *call, rt route) error {
	wait, err := s.sighted(c, rt)
	if err != nil {
		return err
	}
	call := members.Call{Gate: s.Members.Gate, UID: c.by.UID, PID: c.by.PID, Agent: c.by.Agent}
	ctx, cancel := context.WithCancel(c.r.Context())
	defer cancel()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-s.stopping:
			cancel()
		case <-stop:
		}
	}()
	_ = http.NewResponseController(c.w).SetWriteDeadline(time.Time{}) // a claim may wait for a day; the active member bounds it
	resp, err := s.Members.Forward(ctx, wait+s.Limits.Body+s.Limits.Work, call, c.r, c.body)
	if err != nil {
		if c.r.Context().Err() != nil {
			panic(http.ErrAbortHandler) // the caller has hung up
		}
		return s.unlessStopped(err)
	}
	defer resp.Body.Close()
	for _, name := range []string{"Content-Type", "Content-Length", "ETag", "Cache-Control", "Allow"} {
		if v := resp.Header.Get(name); v != "" {
			c.w.Header().Set(name, v)
		}
	}
	if err := s.pass(c.w, resp); err != nil {
		panic(http.ErrAbortHandler) // half an answer must not look like a complete one
	}
	return nil
}

// pass writes an answer as it comes.
func (s *Server) pass(w http.ResponseWriter, resp *http.Response) error {
	rc := http.NewResponseController(w)
	late := func() { _ = rc.SetWriteDeadline(s.Now().Add(s.Limits.Write)) }
	late()
	w.WriteHeader(resp.StatusCode)
	buf := make([]byte, 32<<10)
	for {
		n, err := resp.Body.Read(buf)
		if n > 0 {
			late()
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
			if err := rc.Flush(); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
