package outbox_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/notify/message"
	"gated/internal/notify/outbox"
	"gated/internal/test/must"
)

const gate = "e5228e24541e5ab6449ff52e4ab60a37"

// box is an outbox in a directory, with a time of its own.
type box struct {
	*outbox.Outbox
	t    *testing.T
	path string
	now  time.Time
}

func newBox(t *testing.T) *box {
	b := &box{t: t, path: filepath.Join(t.TempDir(), "outbox.db"), now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	b.Outbox = must.Get(outbox.Open(t.Context(), b.path, nil))(t)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

func (b *box) reopen() {
	b.t.Helper()
	require.NoError(b.t, b.Close())
	b.Outbox = must.Get(outbox.Open(b.t.Context(), b.path, nil))(b.t)
}

// at is the cursor after an entry.
func at(seq int64) outbox.Cursor { return outbox.Cursor{Gate: gate, Seq: seq, Hash: "00"} }

// about is the message of an entry about a request.
func about(seq int64, request string) message.Message {
	return message.Message{ID: fmt.Sprintf("%s:%d", gate, seq), Thread: gate + ":" + request, Kind: message.Waits, Gate: gate,
		Title: request + " waits", Request: &message.Request{ID: request}}
}

func to(sink string, m message.Message) outbox.Letter { return outbox.Letter{Sink: sink, Message: m} }

func (b *box) handled(seq int64, letters ...outbox.Letter) {
	b.t.Helper()
	require.NoError(b.t, b.Handled(b.t.Context(), at(seq), b.now, "", letters...))
}

func (b *box) next(sink string) outbox.Stored {
	b.t.Helper()
	s, _, ok, err := b.Next(b.t.Context(), sink)
	require.NoError(b.t, err)
	require.True(b.t, ok, "nothing waits for %s", sink)
	return s
}

func (b *box) report(sink string) outbox.Report {
	b.t.Helper()
	return must.Get(b.Report(b.t.Context(), []string{sink}))(b.t)[0]
}

// dies makes the first message of a sink a dead letter.
func (b *box) dies(sink, why string) {
	b.t.Helper()
	require.NoError(b.t, b.GiveUp(b.t.Context(), b.next(sink), b.now, why))
}

// A message is known by gate and number of its entry. The second time it is not stored, whatever became of the first.
func TestOneMessageOfAnEntryForEachSink(t *testing.T) {
	b := newBox(t)
	m := about(4, "j1.1")
	b.handled(4, to("a", m), to("b", m))
	b.handled(4, to("a", m), to("b", m))
	require.Equal(t, 1, b.report("a").Queued)
	require.Equal(t, 1, b.report("b").Queued)

	s := b.next("a")
	require.Equal(t, m.ID, s.Message.ID)
	require.NoError(t, b.Delivered(t.Context(), s, "a", b.now))
	b.reopen()
	b.handled(4, to("a", m))
	require.Zero(t, b.report("a").Queued, "the sink took it before the restart")
	b.dies("b", "500")
	b.handled(4, to("b", m))
	require.Equal(t, 1, b.report("b").DeadCount)
	require.Zero(t, b.report("b").Queued, "a dead letter comes back by a replay alone")

	b.handled(5, to("a", about(5, "j1.1")))
	other := m
	other.ID = "00000000000000000000000000000000:4"
	b.handled(5, to("a", other))
	require.Equal(t, 2, b.report("a").Queued, "another entry, and the same number of another gate")
}

// Within a gate's log the cursor only goes on. What comes with a cursor that is behind is not stored.
func TestTheCursorNeverGoesBack(t *testing.T) {
	b := newBox(t)
	_, ok, err := b.Cursor(t.Context())
	require.NoError(t, err)
	require.False(t, ok)
	is := func(want outbox.Cursor) {
		t.Helper()
		c, ok, err := b.Cursor(t.Context())
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, want, c)
	}
	b.handled(7)
	require.ErrorIs(t, b.Handled(t.Context(), at(6), b.now, "", to("a", about(6, "j1.1"))), outbox.ErrBehind)
	is(at(7))
	require.Zero(t, b.report("a").Queued)
	b.handled(7)
	b.handled(8)
	b.reopen()
	is(at(8))

	// A log that began anew has numbers of its own, under the same id or another one.
	anew := outbox.Cursor{Gate: gate, Seq: 3, Hash: "01", Era: b.now.Unix()}
	require.NoError(t, b.Begin(t.Context(), anew, b.now))
	is(anew)
	anew.Seq = 2
	require.ErrorIs(t, b.Handled(t.Context(), anew, b.now, ""), outbox.ErrBehind)
	other := outbox.Cursor{Gate: "00000000000000000000000000000000", Seq: 1}
	require.NoError(t, b.Begin(t.Context(), other, b.now))
	is(other)
}

// A message that cannot be stored leaves the cursor where it was, so that its entry is read again.
func TestCursorAndMessagesMoveTogether(t *testing.T) {
	b := newBox(t)
	b.handled(3)
	bad := to("b", about(4, "j1.1"))
	bad.Message.At = time.Date(10001, 1, 1, 0, 0, 0, 0, time.UTC) // JSON has no such year (RFC 3339)
	require.Error(t, b.Handled(t.Context(), at(4), b.now, "", to("a", about(4, "j1.1")), bad))
	c, _, err := b.Cursor(t.Context())
	require.NoError(t, err)
	require.Equal(t, at(3), c)
	require.Zero(t, b.report("a").Queued, "the message before it is not stored either")
}

// An older message of a thread goes first, and holds back no other thread.
func TestTheOrderOfAThread(t *testing.T) {
	b := newBox(t)
	b.handled(1, to("a", about(1, "j1.1")))
	b.handled(2, to("a", about(2, "j1.1")))
	b.handled(3, to("a", about(3, "j2.1")))
	first := b.next("a")
	require.Equal(t, gate+":1", first.Message.ID)
	later := b.now.Add(time.Hour)
	require.NoError(t, b.Failed(t.Context(), first, "a", later, b.now, false, "away"))
	require.Equal(t, gate+":3", b.next("a").Message.ID)
	require.NoError(t, b.Delivered(t.Context(), b.next("a"), "a", b.now))
	s, due, ok, err := b.Next(t.Context(), "a")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, gate+":1", s.Message.ID, "the second of the thread waits for the first")
	require.Equal(t, later, due)
	require.Equal(t, 1, s.Tries)
	require.Equal(t, "away", b.report("a").Why)
}

// A dead letter keeps why, is not tried again by itself, and a replay takes one id, one sink or all.
func TestReplay(t *testing.T) {
	for _, c := range []struct {
		name, id, sink string
		want           int64
		queued         map[string]int
	}{
		{"all", "", "", 4, map[string]int{"a": 2, "b": 2}},
		{"one id", gate + ":1", "", 2, map[string]int{"a": 1, "b": 1}},
		{"one sink", "", "b", 2, map[string]int{"b": 2}},
		{"one id of one sink", gate + ":2", "a", 1, map[string]int{"a": 1}},
		{"an unknown id", gate + ":9", "", 0, nil},
		{"an unknown sink", "", "c", 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBox(t)
			for seq, request := range []string{"j1.1", "j2.1"} {
				m := about(int64(seq+1), request)
				b.handled(int64(seq+1), to("a", m), to("b", m))
			}
			for _, sink := range []string{"a", "a", "b", "b"} {
				b.dies(sink, "410 Gone")
			}
			_, _, ok, err := b.Next(t.Context(), "a")
			require.NoError(t, err)
			require.False(t, ok)
			r := b.report("a")
			require.Equal(t, 2, r.DeadCount)
			require.Equal(t, outbox.Letters{ID: gate + ":2", Kind: "waiting", Made: b.now, Ended: b.now, Tries: 1, Why: "410 Gone"}, r.Dead[0])

			b.now = b.now.Add(time.Hour)
			n, err := b.Replay(t.Context(), c.id, c.sink, b.now)
			require.NoError(t, err)
			require.Equal(t, c.want, n)
			for _, sink := range []string{"a", "b"} {
				r := b.report(sink)
				require.Equal(t, c.queued[sink], r.Queued)
				require.Equal(t, 2-c.queued[sink], r.DeadCount)
				if r.Queued > 0 {
					s := b.next(sink)
					require.Zero(t, s.Tries)
					require.Equal(t, b.now, s.Since, "it has its whole time again")
				}
			}
			n, err = b.Replay(t.Context(), c.id, c.sink, b.now)
			require.NoError(t, err)
			require.Zero(t, n, "it is queued once")
		})
	}
}

// What was delivered is never sent again: not by a replay, and not by a late failure of another try.
func TestADeliveredMessageStays(t *testing.T) {
	b := newBox(t)
	b.handled(1, to("a", about(1, "j1.1")))
	s := b.next("a")
	require.NoError(t, b.Delivered(t.Context(), s, "a", b.now))
	require.NoError(t, b.Failed(t.Context(), s, "a", b.now, b.now, true, "too late"))
	require.NoError(t, b.GiveUp(t.Context(), s, b.now, "too late"))
	n, err := b.Replay(t.Context(), "", "", b.now)
	require.NoError(t, err)
	require.Zero(t, n)
	r := b.report("a")
	require.Zero(t, r.Queued+r.DeadCount)
	require.Equal(t, b.now, *r.Delivered)
}

// Old dead letters and delivered messages are removed; what waits is not.
func TestPrune(t *testing.T) {
	b := newBox(t)
	b.handled(1, to("a", about(1, "j1.1")))
	b.dies("a", "410 Gone")
	b.handled(2, to("a", about(2, "j2.1")))
	b.now = b.now.Add(outbox.KeepDone)
	require.NoError(t, b.Prune(t.Context(), b.now))
	require.Equal(t, 1, b.report("a").DeadCount, "at the limit it is kept")
	require.NoError(t, b.Prune(t.Context(), b.now.Add(time.Second)))
	require.Zero(t, b.report("a").DeadCount)
	require.Equal(t, 1, b.report("a").Queued)
}
