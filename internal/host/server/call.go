package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// call is one request whose caller was let in and whose body was read.
type call struct {
	ctx   context.Context
	w     http.ResponseWriter // only for streams
	r     *http.Request
	by    op.Requester
	body  []byte
	query url.Values

	release func() // gives back the room of the decoded body; never nil
}

// answer is the result of a call that was not refused.
type answer struct {
	status int
	value  any    // written as JSON, if raw is nil
	raw    []byte // written unchanged
	kind   string // the media type of raw
	etag   string // without quotes
	sent   bool   // the call has written its answer itself
}

// ok is an answer of status 200.
func ok(v any) answer { return answer{status: http.StatusOK, value: v} }

// own marks a refusal that the server itself decided. It has the status if that is not the code's.
type own struct {
	*refusal.Refusal
	status int
}

func (o own) Unwrap() error { return o.Refusal }

func ownRefusal(err error) error { return own{Refusal: refusal.As(err)} }

func noPath() error {
	return own{refusal.New(refusal.Malformed, "there is no such path").WithHint("gated docs http-api lists them"),
		http.StatusNotFound}
}

func noMethod(method, allowed string) error {
	return own{refusal.New(refusal.Malformed, "%q is not a method of this path", clip(method)).
		WithHint("it has %s", allowed),
		http.StatusMethodNotAllowed}
}

// serve answers one request. A panic ends only that request.
func (s *Server) serve(hw http.ResponseWriter, r *http.Request) {
	w := &recorder{ResponseWriter: hw}
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		if v == http.ErrAbortHandler {
			panic(v)
		}
		s.Logger.Error("a handler panicked", "method", r.Method, "path", r.URL.Path, "panic", fmt.Sprint(v),
			"stack", string(debug.Stack()))
		if w.begun {
			// Half an answer must not look like a complete one.
			panic(http.ErrAbortHandler)
		}
		s.problem(w, api.ProblemOf(refusal.New(refusal.Internal, "an internal error; the daemon's log has it")))
	}()
	if peerOf(r.Context()) == nil {
		panic("server: a connection without a peer")
	}
	by, err := s.identify(r)
	r = withRequester(r, by)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	// The mux would redirect an unclean path, in HTML, and would answer OPTIONS * with nothing.
	if r.URL.Path == "" || r.URL.Path[0] != '/' || path.Clean(r.URL.Path) != r.URL.Path {
		s.refuse(w, r, noPath())
		return
	}
	s.routes.ServeHTTP(w, r)
}

// recorder remembers whether an answer was begun.
type recorder struct {
	http.ResponseWriter
	begun bool
}

func (w *recorder) WriteHeader(status int) {
	w.begun = true
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// run lets a caller in, reads the request and answers it.
func (s *Server) run(w http.ResponseWriter, r *http.Request, rt route) {
	p := peerOf(r.Context())
	c := &call{w: w, r: r, by: requesterOf(r.Context()), release: func() {}}
	elsewhere, err := s.place(p, c.by, rt)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	if c.query, err = parseQuery(r, rt.query); err != nil {
		s.refuse(w, r, err)
		return
	}
	body, release, err := s.read(w, r, p.uid, rt.body)
	defer release()
	if err != nil {
		// Otherwise net/http waits for the rest of the body before it sends the answer.
		w.Header().Set("Connection", "close")
		s.refuse(w, r, err)
		return
	}
	c.body = body
	if rt.body > 0 {
		// The body may have taken half a minute, so the caller is identified again.
		if c.by, err = s.identify(r); err != nil {
			s.refuse(w, r, err)
			return
		}
		r = withRequester(r, c.by)
		c.r = r
	}
	if !p.begin() {
		panic(http.ErrAbortHandler)
	}
	defer p.end()
	// The deadline for the body would end the context of a slower answer.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	if elsewhere {
		if err := s.forward(c, rt); err != nil {
			s.refuse(w, r, err)
		}
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.Limits.Work)
	defer cancel()
	c.ctx = ctx
	defer func() { c.release() }()
	a, err := rt.answer(c)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	end, err := s.holdAnswer(r, p.uid, &a)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	defer end()
	s.write(w, a)
}

// holdAnswer encodes the answer to a reading call, and counts it until the caller has taken it. An answer without room
// is refused as OverLimit. The answer to a call that changes something is always sent.
func (s *Server) holdAnswer(r *http.Request, uid uint32, a *answer) (end func(), err error) {
	nothing := func() {}
	if r.Method != http.MethodGet || a.sent {
		return nothing, nil
	}
	if err := a.encode(); err != nil {
		return nothing, err
	}
	n := int64(len(a.raw)) - freeAnswer
	if n <= 0 {
		return nothing, nil
	}
	if err := s.answers.take(uid, n); err != nil {
		return nothing, ownRefusal(err)
	}
	return func() { s.answers.give(uid, n) }, nil
}

// encode turns the value into bytes.
func (a *answer) encode() (err error) {
	if a.raw != nil || a.value == nil {
		return nil
	}
	a.raw, err = api.Encode(a.value)
	a.value, a.kind = nil, api.ContentType
	return err
}

func (s *Server) admit(by op.Requester, w who) error {
	switch {
	case w == operators && !s.operator(by):
		return ownRefusal(refusal.New(refusal.NotAllowed, "uid %v is not an admin's", by.Account()).
			WithHint("%s", s.operatorsHint()))
	case w == submitters && !s.submitter(by):
		return ownRefusal(refusal.New(refusal.NotAllowed, "uid %v may not submit jobs", by.Account()).
			WithHint("the list submitters in gated.yaml says who may"))
	}
	return nil
}

func (s *Server) operatorsHint() string {
	if s.SingleUser {
		return fmt.Sprintf("the admins are root, uid %d and the list admins in gated.yaml", s.UID)
	}
	return "the admins are root and the list admins in gated.yaml, never the daemon's own uid"
}

// refuse answers with a problem. It passes the server's own refusals to Config.Refused. It logs an error that is not a
// refusal, because callers must not see its text.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := api.ProblemOf(err)
	var mine own
	var refused *refusal.Refusal
	var by contested
	if errors.As(err, &by) {
		p.Conflicts = by.conflicts
	}
	switch {
	case errors.As(err, &mine):
		if mine.status != 0 {
			p.Status = mine.status
		}
		if !typo(r, mine.Code) {
			s.tell(r, mine.Refusal)
		}
	case !errors.As(err, &refused):
		s.Logger.Error("a call ended with an internal error", "method", r.Method, "path", r.URL.Path, "error", err)
	}
	s.problem(w, p)
}

// typo reports whether a refusal is of a read that is not of the right form, or of something that is not there. It
// changes nothing and shows nothing, and ssh's probe of a gate is one of these, so the audit log has no entry of it. A
// read with a body is told all the same: a change can hide there.
func typo(r *http.Request, code refusal.Code) bool {
	read := r.Method == http.MethodGet || r.Method == http.MethodHead
	return read && r.ContentLength == 0 && (code == refusal.Malformed || code == refusal.BadParams || code == refusal.UnknownTarget)
}

// tell passes a refusal of the server's own to Config.Refused, even if the caller has hung up: it must reach the log.
func (s *Server) tell(r *http.Request, refused *refusal.Refusal) {
	if s.Refused == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), s.Limits.Work)
	defer cancel()
	s.Refused(ctx, requesterOf(ctx), clip(r.Method+" "+r.URL.Path), refused)
}

func (s *Server) problem(w http.ResponseWriter, p api.Problem) {
	b, err := api.Encode(p)
	if err != nil {
		s.Logger.Error("a problem cannot be written", "error", err)
		panic(http.ErrAbortHandler)
	}
	s.send(w, p.Status, api.ProblemType, b)
}

func (s *Server) write(w http.ResponseWriter, a answer) {
	if a.sent {
		return
	}
	if a.etag != "" {
		w.Header().Set("ETag", `"`+a.etag+`"`)
	}
	if err := a.encode(); err != nil {
		panic(fmt.Sprintf("an answer cannot be written: %v", err))
	}
	s.send(w, a.status, a.kind, a.raw)
}

// send writes a complete answer. An error means that the caller is gone.
func (s *Server) send(w http.ResponseWriter, status int, kind string, b []byte) {
	if kind != "" {
		w.Header().Set("Content-Type", kind)
	}
	w.Header().Set("Cache-Control", "no-store")
	if len(b) > 0 {
		w.Header().Set("Content-Length", strconv.Itoa(len(b))) // otherwise a longer answer is sent in chunks
	}
	_ = http.NewResponseController(w).SetWriteDeadline(s.Now().Add(s.Limits.Write))
	w.WriteHeader(status)
	_, _ = w.Write(b)
}

// parseQuery refuses unknown and repeated parameters: if it ignored a misspelt filter, the answer would be to another
// question.
func parseQuery(r *http.Request, known []string) (url.Values, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, ownRefusal(refusal.New(refusal.Malformed, "the query cannot be read"))
	}
	for name, values := range q {
		if !slices.Contains(known, name) {
			err := refusal.New(refusal.Malformed, "the query has the parameter %q, which does not belong", clip(name))
			return nil, ownRefusal(err)
		}
		if len(values) != 1 {
			return nil, ownRefusal(refusal.New(refusal.Malformed, "the query has the parameter %q twice", name))
		}
	}
	return q, nil
}

// clip bounds how much of a caller's words is repeated.
func clip(s string) string {
	const most = 200
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
