package notify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/refusal"
	"gated/internal/notify/message"
	"gated/internal/notify/outbox"
)

// errAnew ends a stream that has to begin anew: the gate is another one now.
var errAnew = errors.New("the gate's id changed")

// keepEvery is after how many entries without a message the cursor is written. A kill in between has them read again.
const keepEvery = 64

// Follow reads the gate's events from the cursor on, until ctx ends or the stream breaks.
func (n *Notifier) Follow(ctx context.Context) error {
	if err := n.Connect(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-n.again:
			cancel()
		case <-done:
		}
	}()
	err := n.gate.Events(ctx, n.cursor().Seq, true, func(e api.Entry) error { return n.Handle(ctx, e) })
	if errors.Is(err, errAnew) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (n *Notifier) cursor() outbox.Cursor {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.at
}

func (n *Notifier) moveTo(c outbox.Cursor) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.at, n.stuck = c, time.Time{}
}

// quiet is after which time without a further break a stream flows, also if no entry came.
const quiet = time.Minute

// Broken notes that the stream ended with an error. If a daemon that answers has it end at the same entry for as long as
// it may be unreachable, that is an alarm: what follows that entry is not told.
func (n *Notifier) Broken(ctx context.Context, err error) error {
	var gone *client.Unreachable
	if errors.As(err, &gone) {
		return nil
	}
	n.mu.Lock()
	if n.stuck.IsZero() || n.now().Sub(n.broke) > quiet {
		n.stuck = n.now()
	}
	n.broke = n.now()
	since, seq, heard := n.now().Sub(n.stuck), n.at.Seq, n.heard
	n.mu.Unlock()
	if since < n.is.Unreachable || n.now().Sub(heard) >= n.is.Unreachable { // the latter has an alarm of its own
		return nil
	}
	return n.raise(ctx, alarm{stuckAt, "the gate's events cannot be read",
		fmt.Sprintf("for %s now, after entry %d: %v. What happens meanwhile is not told", span(since.Round(time.Second)), seq, err)})
}

// flows reports whether the stream goes on.
func (n *Notifier) flows() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.stuck.IsZero() || n.now().Sub(n.broke) > quiet
}

// Connect compares the gate with the cursor. At the first start, and if the gate is another one or its log does not
// continue from the cursor, the cursor begins anew with what waits now. In the latter cases it raises an alarm too.
func (n *Notifier) Connect(ctx context.Context) error {
	st, err := n.gate.Status(ctx)
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.host, n.heard = st.Host, n.now()
	n.mu.Unlock()
	head, err := n.gate.AuditHead(ctx)
	if err != nil {
		return err
	}
	at, known := n.cursor(), n.cursor().Gate != ""
	switch {
	case !known:
		return n.begin(ctx, string(st.Gate), head, nil)
	case at.Gate != string(st.Gate):
		return n.begin(ctx, string(st.Gate), head, &alarm{"restored", "the gate is another one than before",
			fmt.Sprintf("its id was %.12s and is %.12s: it was restored from a backup, or its owner accepted the clock, or it was made anew. "+
				"Signatures for the gate before are worth nothing. Ask who did that", at.Gate, st.Gate)})
	case head.Seq < at.Seq:
		return n.begin(ctx, string(st.Gate), head, &alarm{"log", "the audit log is shorter than it was",
			fmt.Sprintf("it had %d entries and has %d: it was cut or rolled back. Compare with opsign witness on an operator's machine", at.Seq, head.Seq)})
	case head.Seq == at.Seq && at.Hash != "" && head.Hash != at.Hash:
		return n.begin(ctx, string(st.Gate), head, &alarm{"log", "the audit log is another one than it was",
			fmt.Sprintf("entry %d has another text than when it was read: it was rewritten. Compare with opsign witness on an operator's machine", at.Seq)})
	}
	return nil
}

// begin puts the cursor at the end of the gate's log, and tells what waits.
func (n *Notifier) begin(ctx context.Context, gate string, head api.Head, why *alarm) error {
	c := outbox.Cursor{Gate: gate, Seq: head.Seq, Hash: head.Hash}
	if at := n.cursor(); at.Gate == gate {
		c.Era = n.now().Unix()
	}
	waiting, err := n.gate.Requests(ctx, api.StatePending)
	if err != nil {
		return err
	}
	var letters []outbox.Letter
	if why != nil {
		letters = n.alarmLetters(*why, numbered(c)+":"+why.name, message.Alarm)
	}
	for _, r := range waiting {
		r.Gate = api.GateID(gate) // if it changed again meanwhile, its next entry says so
		letters = append(letters, n.asks(r, numbered(c)+":"+r.ID, nil)...)
	}
	if err := n.box.Begin(ctx, c, n.now(), letters...); err != nil {
		return err
	}
	n.moveTo(c)
	n.log.Info("follows the gate", "gate", gate, "entry", head.Seq, "waiting", len(waiting))
	n.wakeAll()
	return nil
}

// links are the members of an entry's text that hold the log together.
type links struct {
	Gate string `json:"gate"`
	Prev string `json:"prev"`
}

// Handle stores the messages that come from one entry, and moves the cursor. It is called with each entry in order.
func (n *Notifier) Handle(ctx context.Context, e api.Entry) error {
	var l links
	if err := api.DecodeAnswer(e.Raw, &l); err != nil {
		return refusal.New(refusal.Internal, "entry %d is not understood: %v", e.Seq, err)
	}
	at := n.cursor()
	if l.Gate != at.Gate {
		return errAnew
	}
	sum := sha256.Sum256(e.Raw)
	next := outbox.Cursor{Gate: at.Gate, Seq: e.Seq, Hash: hex.EncodeToString(sum[:]), Era: at.Era}
	letters, ended, err := n.lettersOf(ctx, e)
	if err != nil {
		return err
	}
	if why := unlinked(at, e, l); why != "" {
		letters = append(letters, n.alarmLetters(alarm{"log", "the audit log does not continue", why}, n.mid(e)+":log", message.Alarm)...)
	}
	if len(letters) == 0 && ended == "" && e.Seq%keepEvery != 0 {
		n.moveTo(next)
		return nil
	}
	if err := n.box.Handled(ctx, next, n.now(), ended, letters...); err != nil {
		return err
	}
	n.moveTo(next)
	for _, letter := range letters {
		n.wakeUp(letter.Sink)
	}
	return nil
}

// unlinked says why an entry does not continue the log that was read so far; empty if it does.
func unlinked(at outbox.Cursor, e api.Entry, l links) string {
	switch {
	case e.Seq != at.Seq+1:
		return fmt.Sprintf("entry %d came after entry %d", e.Seq, at.Seq)
	case at.Hash != "" && l.Prev != at.Hash:
		return fmt.Sprintf("entry %d does not have the hash of entry %d as it was read", e.Seq, at.Seq)
	}
	return ""
}

// mid is the id of the messages that come from an entry.
func (n *Notifier) mid(e api.Entry) string {
	c := n.cursor()
	c.Seq = e.Seq
	return numbered(c)
}

// numbered is GATEID:SEQ, and the era if the gate's numbers began anew: a receiver must not take the new entry of a
// number for the old one.
func numbered(c outbox.Cursor) string {
	id := fmt.Sprintf("%s:%d", c.Gate, c.Seq)
	if c.Era != 0 {
		id += fmt.Sprintf(":%d", c.Era)
	}
	return id
}
