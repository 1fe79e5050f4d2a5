package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/turns"
	"gated/internal/gate"
	"gated/internal/host/service"
	"gated/internal/log/canary"
)

// maxHeader is the largest header of a request, in bytes.
const maxHeader = 16 << 10

// Config has the server's services and the uids that may use it. Each of the first fields is needed, except as said
// below: a call for which its service is missing ends as an internal error.
//
// Refusals of services are *refusal.Refusal. Any other error is answered as internal, without its text.
type Config struct {
	Gate    *gate.Gate
	Held    service.Held // nil: nothing runs steps
	Desired *service.Desired
	Guests  service.Guests
	Log     *service.Log
	Waits   *service.Waits
	Canary  *canary.Canary

	Commands *service.Commands // nil: there are none
	Steering []api.SteeringRule

	// Agents may be nil: then every caller is a bare uid.
	Agents       *service.Agents
	Reservations *service.Reservations

	// Status returns the daemon's state, Backends the state of each back end by name. A check of a back end takes up to
	// seconds; for all callers together, only one runs at a time.
	Status func(context.Context) (api.Status, error)
	// Health returns what Status watches, in few words. Metrics returns Prometheus' text format; it needs no bound on
	// callers at once.
	Health  func(context.Context) api.HealthReport
	Metrics func(context.Context) ([]byte, error)
	// Proved, if not nil, is told that a caller got a proof that the audit log goes on from an older head.
	Proved   func()
	Backends func(context.Context) ([]api.Backend, error)
	// Verified returns what the daemon's own check of its audit log found last.
	Verified func() api.Verified
	// Reload reads the settings again, and says what changed. Its refusal is why the old ones stay in force.
	Reload func(context.Context) (api.Reloaded, error)
	// Backup writes a consistent copy of the state. An error before the first byte is answered as a problem. A later
	// error breaks the connection; a test can cause that only with a function of its own.
	Backup func(context.Context, io.Writer) error
	// BackupVerified is told the hex SHA-256 of a copy that its taker has checked.
	BackupVerified func(ctx context.Context, sha256 string) error

	// UID is the daemon's own. Root is always an operator and a submitter. UID is one only with SingleUser, because
	// guests may run under it.
	UID        uint32
	SingleUser bool
	// Operators may put desired state, take backups, reload settings and accept alerts.
	Operators []uint32
	// Submitters may hand in jobs; nil means every caller that may connect.
	Submitters []uint32
	// OperatorsElsewhere and SubmittersElsewhere are the same on other members.
	OperatorsElsewhere, SubmittersElsewhere []op.Account

	// Refused, if not nil, is told of what the server itself refused; what is
	// the method and path. It must not block for long.
	Refused func(ctx context.Context, by op.Requester, what string, r *refusal.Refusal)

	// TakeOver has a standby become the active member; it returns before that is done.
	TakeOver func(context.Context) error

	// Standby, if not nil, returns the refusal of all that only the gate's active member answers.
	Standby func() error

	// Members is nil on a gate without other members' callers.
	Members *Members

	Limits Limits
	Now    func() time.Time // for deadlines of the kernel: the real clock
	Logger *slog.Logger     // slog.Default() if nil
}

// Server serves one socket once.
type Server struct {
	Config
	routes   *http.ServeMux
	crowd    *crowd
	bodies   *quota
	decoded  *turns.Room
	answers  *quota
	streams  *quota
	waits    *quota
	jobWaits *quota
	plans    *quota
	turns    *turns.Turns
	stopping chan struct{} // closed when streams have to end
}

// New returns a server that is ready to Serve.
func New(c Config) *Server {
	c.Limits = c.Limits.orDefault()
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	s := &Server{
		Config:   c,
		crowd:    &crowd{all: c.Limits.Conns, perUID: c.Limits.ConnsPerUID},
		bodies:   newQuota("bytes of request bodies", c.Limits.Bodies, c.Limits.BodiesUID),
		decoded:  turns.NewRoom(c.Limits.Decoded, c.Limits.DecodedUID),
		answers:  newQuota("bytes of answers that nobody has taken", c.Limits.Answers, c.Limits.AnswersUID),
		streams:  newQuota("streams", int64(c.Limits.Streams), int64(c.Limits.StreamsUID)),
		waits:    newQuota("waiting calls", int64(c.Limits.Waits), int64(c.Limits.WaitsUID)),
		jobWaits: newQuota("waits for jobs", int64(c.Limits.JobWaits), int64(c.Limits.JobWaitsUID)),
		plans:    newQuota("plans", int64(c.Limits.Plans), int64(c.Limits.PlansUID)),
		turns:    turns.New(c.Limits.Lists, c.Limits.ListsUID),
		stopping: make(chan struct{}),
	}
	s.routes = s.mux()
	return s
}

// Serve answers on l until ctx ends, then takes the socket away, ends streams
// at once and lets the calls under way finish for Limits.Drain. It returns nil
// for an end that was asked for.
func (s *Server) Serve(ctx context.Context, l *Socket) error {
	h := s.http(s.serve)
	h.ConnContext = withPeer
	return s.until(ctx, h, &peerListener{Socket: l, crowd: s.crowd, agents: s.Agents, log: s.Logger}, nil, func() { close(s.stopping) })
}

// http is a server of HTTP with the limits of all connections.
func (s *Server) http(answer http.HandlerFunc) *http.Server {
	return &http.Server{
		Handler:                      answer,
		ReadHeaderTimeout:            s.Limits.Header,
		ReadTimeout:                  s.Limits.Body,
		WriteTimeout:                 s.Limits.Body + s.Limits.Work + s.Limits.Write,
		IdleTimeout:                  s.Limits.Idle,
		MaxHeaderBytes:               maxHeader,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(s.Logger.Handler(), slog.LevelWarn),
	}
}

// until answers on l until ctx ends, then lets the calls under way finish for Limits.Drain. It tells called, unless that is nil,
// of each connection's first call. It calls ending as soon as it takes no more calls.
func (s *Server) until(ctx context.Context, h *http.Server, l net.Listener, called func(net.Conn), ending func()) error {
	fresh := newUnread()
	fresh.watch(h, called)
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(l) }()
	select {
	case err := <-ended:
		ending()
		return errors.Join(err, h.Close())
	case <-ctx.Done():
	}
	ending()
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Limits.Drain)
	defer cancel()
	err := l.Close()
	<-ended
	soon, cancelSoon := context.WithTimeout(drain, unreadFor)
	defer cancelSoon()
	fresh.wait(soon)
	err = errors.Join(err, h.Shutdown(drain))
	if errors.Is(err, context.DeadlineExceeded) {
		s.Logger.Warn("calls under way were cut off", "after", s.Limits.Drain)
		err = h.Close()
	}
	return err
}

// operator reports whether a caller may use the operators' end points.
func (s *Server) operator(by op.Requester) bool {
	return s.authority(by, s.Operators, s.OperatorsElsewhere)
}

// authority reports whether root, SingleUser or a list gives a caller a right. The
// list cannot give it to the daemon's own uid: a program that broke out of its
// guest, or a mistake in the daemon, would hold that right. Of other members' callers only the list of accounts counts.
func (s *Server) authority(by op.Requester, list []uint32, elsewhere []op.Account) bool {
	switch {
	case by.Set != s.member():
		return slices.Contains(elsewhere, by.Account())
	case by.UID == 0:
		return true
	case by.UID == s.UID:
		return s.SingleUser
	}
	return slices.Contains(list, by.UID)
}

// submitter reports whether a caller may hand in jobs.
func (s *Server) submitter(by op.Requester) bool {
	return s.Submitters == nil || s.authority(by, s.Submitters, s.SubmittersElsewhere)
}

// member returns the name under which this host's callers ask, "" if no other member has callers.
func (s *Server) member() string {
	if s.Members == nil {
		return ""
	}
	return s.Members.Self
}
