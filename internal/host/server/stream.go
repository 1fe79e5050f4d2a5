package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// eventBatch is how many events are held in memory for one stream. There is no
// buffer beyond it: a slow reader is read for again only when it took these.
const eventBatch = 256

// eventBytes bounds a batch in bytes, as far as more than one event is in it.
const eventBytes = 64 << 10

// stream is an answer that lasts. Each part of it has Limits.Write to be taken.
type stream struct {
	s     *Server
	w     http.ResponseWriter
	rc    *http.ResponseController
	begun bool
	kind  string
}

// open gives the caller one of the streams, with its context and how to end it.
func (s *Server) open(c *call, kind string) (*stream, context.Context, func(), error) {
	ctx, end, err := s.lasting(c, s.streams, s.leaves(c.by))
	if err != nil {
		return nil, nil, nil, err
	}
	return &stream{s: s, w: c.w, rc: http.NewResponseController(c.w), kind: kind}, ctx, end, nil
}

// leaves is how many streams a caller leaves to operators. An agent under an
// operator's uid is none, as there may be many.
func (s *Server) leaves(by op.Requester) int64 {
	if s.operator(by) && by.Agent == "" {
		return 0
	}
	return int64(min(s.Limits.StreamsKept, s.Limits.Streams/2, s.Limits.StreamsUID/2))
}

// lasting gives the caller a place in q, for an answer that may take longer than
// others. The context ends when the caller goes away or the server stops; the
// returned function gives the place back.
func (s *Server) lasting(c *call, q *quota, left int64) (context.Context, func(), error) {
	uid := c.by.Account().Lane()
	if err := q.takeLeaving(uid, 1, left); err != nil {
		return nil, nil, ownRefusal(err)
	}
	// Not c.ctx, which has the deadline of other answers.
	ctx, cancel := context.WithCancel(c.r.Context())
	stop := make(chan struct{})
	go func() {
		select {
		case <-s.stopping:
			cancel()
		case <-stop:
		}
	}()
	return ctx, func() {
		close(stop)
		cancel()
		q.give(uid, 1)
	}, nil
}

// Write sends one part; the first one sends the header before it.
func (st *stream) Write(b []byte) (int, error) {
	st.begin()
	if err := st.rc.SetWriteDeadline(st.s.Now().Add(st.s.Limits.Write)); err != nil {
		return 0, err
	}
	return st.w.Write(b)
}

func (st *stream) begin() {
	if st.begun {
		return
	}
	st.begun = true
	st.w.Header().Set("Content-Type", st.kind)
	st.w.Header().Set("Cache-Control", "no-store")
	st.w.WriteHeader(http.StatusOK)
}

// backup streams the copy. A copy that breaks off breaks the connection, so
// that it is never taken for a whole one.
func (s *Server) backup(c *call) (answer, error) {
	st, ctx, end, err := s.open(c, "application/octet-stream")
	if err != nil {
		return answer{}, err
	}
	defer end()
	err = s.Backup(ctx, st)
	switch {
	case err == nil && ctx.Err() == nil:
		st.begin()
		return answer{sent: true}, nil
	case !st.begun && err != nil:
		return answer{}, err
	}
	s.Logger.Warn("a backup broke off", "error", errors.Join(err, ctx.Err()))
	panic(http.ErrAbortHandler)
}

// backupVerified records that a caller has checked the copy that it took.
func (s *Server) backupVerified(c *call) (answer, error) {
	var in api.VerifiedBackup
	if err := s.decode(c, &in); err != nil {
		return answer{}, err
	}
	if sum, err := hex.DecodeString(in.SHA256); err != nil || len(sum) != sha256.Size || hex.EncodeToString(sum) != in.SHA256 {
		return answer{}, ownRefusal(refusal.New(refusal.Malformed, "sha256 is not 64 hex digits in lower case"))
	}
	return answer{status: http.StatusNoContent}, s.BackupVerified(c.ctx, in.SHA256)
}

// events streams entries as server-sent events (HTML, section 9.2): a line id,
// a line data with one JSON object, an empty line. Comments are heartbeats.
func (s *Server) events(c *call) (answer, error) {
	after, follow, err := c.eventQuery()
	if err != nil {
		return answer{}, err
	}
	concerns, err := c.holder("for")
	if err != nil {
		return answer{}, err
	}
	st, ctx, end, err := s.open(c, "text/event-stream")
	if err != nil {
		return answer{}, err
	}
	defer end()
	for {
		entries, next, err := s.Log.Events(ctx, after, eventBatch, eventBytes, concerns)
		switch {
		case err != nil && !st.begun:
			return answer{}, err
		case err != nil:
			s.ended(ctx, err)
			return answer{sent: true}, nil
		}
		if st.events(entries) != nil {
			return answer{sent: true}, nil
		}
		if next > after {
			after = next
			continue
		}
		if !follow || s.waitEvent(ctx, st, after) != nil {
			return answer{sent: true}, nil
		}
	}
}

// waitEvent returns nil when there may be an event after that number, and
// sends heartbeats until then.
func (s *Server) waitEvent(ctx context.Context, st *stream, after int64) error {
	for {
		beat, cancel := context.WithTimeout(ctx, s.Limits.Beat)
		err := s.Log.Wait(beat, after)
		over := beat.Err() != nil // the error need not say so: a query that is cut off has one of its own
		cancel()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			return nil
		case !over:
			s.ended(ctx, err)
			return err
		}
		if _, err := st.Write([]byte(": heartbeat\n\n")); err != nil {
			return err
		}
		if err := st.rc.Flush(); err != nil {
			return err
		}
	}
}

// ended logs why a stream ended, unless the caller or the server ended it.
func (s *Server) ended(ctx context.Context, err error) {
	if ctx.Err() == nil {
		s.Logger.Warn("an event stream ended", "error", err)
	}
}

func (st *stream) events(entries []api.Entry) error {
	st.begin()
	for _, e := range entries {
		data, err := api.Encode(e)
		if err != nil {
			return err
		}
		b := append([]byte("id: "), strconv.FormatInt(e.Seq, 10)...)
		b = append(b, "\ndata: "...)
		b = append(append(b, data...), "\n\n"...)
		if _, err := st.Write(b); err != nil {
			return err
		}
	}
	return st.rc.Flush()
}

// eventQuery reads where to start and whether to wait for more. A browser-like
// client that resumes says where in Last-Event-ID, which then counts.
func (c *call) eventQuery() (after int64, follow bool, err error) {
	if after, err = c.after(); err != nil {
		return 0, false, err
	}
	if id := c.r.Header.Get("Last-Event-ID"); id != "" {
		if after, err = entryNumber("Last-Event-ID", id); err != nil {
			return 0, false, err
		}
	}
	switch c.query.Get("follow") {
	case "", "true":
		return after, true, nil
	case "false":
		return after, false, nil
	}
	return 0, false, ownRefusal(refusal.New(refusal.Malformed, "follow is neither true nor false"))
}
