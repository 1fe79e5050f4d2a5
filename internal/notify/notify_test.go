package notify_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/log/checkpoint"
	"gated/internal/notify"
	"gated/internal/notify/message"
	"gated/internal/notify/outbox"
	"gated/internal/notify/sink"
	"gated/internal/test/must"
)

const two = `sinks:
  chat: {exec: {argv: [/bin/x]}, roles: [operational], digest: {more_than: 100, within: 1m}}
  alarms: {exec: {argv: [/bin/x]}, alarms: true}
`

// At the first start nothing of the past is told but what still waits; then each request, once.
func TestFirstStart(t *testing.T) {
	w := newWorld(t, two)
	old := w.gate.ask(1)
	w.gate.end(old, "rejected", api.StateRejected)
	w.gate.ask(2)
	w.step()
	require.Equal(t, []string{"waiting j2.1"}, w.sinks["chat"].kinds())
	w.gate.ask(3)
	w.step()
	w.step()
	w.restart()
	w.step()
	require.Equal(t, []string{"waiting j2.1", "waiting j3.1"}, w.sinks["chat"].kinds())
	require.Empty(t, w.sinks["alarms"].got)
	m := w.sinks["chat"].got[1]
	require.Equal(t, gateA+":4", m.ID)
	require.Equal(t, gateA+":j3.1", m.Thread)
	require.Equal(t, []string{"opsign show j3.1", "opsign approve j3.1"}, m.Request.Commands)
}

// Who was told of a request hears of its end, in one thread.
func TestUpdates(t *testing.T) {
	w := newWorld(t, two)
	w.step()
	id := w.gate.ask(1)
	w.step()
	w.gate.end(id, "approved", api.StateAuthorized, `,"signers":["alice@example.com operational SHA256:x"]`)
	w.step()
	w.gate.end(id, "succeeded", api.StateSucceeded)
	w.step()
	got := w.sinks["chat"]
	require.Equal(t, []string{"waiting j1.1", "approved j1.1", "succeeded j1.1"}, got.kinds())
	require.Contains(t, got.got[1].Title, "was approved by alice@example.com")
	require.Equal(t, got.got[0].Thread, got.got[2].Thread)
	for kind, state := range map[string]api.State{"rejected": api.StateRejected, "cancelled": api.StateCancelled, "superseded": api.StateSuperseded,
		"expired": api.StateExpired, "refused": api.StateRefused, "failed": api.StateFailed, "interrupted": api.StateInterrupted} {
		id := w.gate.ask(len(w.gate.log) + 10)
		w.step()
		w.gate.end(id, kind, state, `,"detail":"their words"`)
		w.step()
		last := got.got[len(got.got)-1]
		require.Equal(t, kind, string(last.Kind))
		require.Empty(t, last.Request.Commands, "nothing is left to type")
	}
}

// A refused signature ends nothing, and is no news.
func TestARefusedSignature(t *testing.T) {
	w := newWorld(t, two)
	w.step()
	id := w.gate.ask(1)
	w.gate.add("refused", id, `,"code":"unknown_signer"`)
	w.step()
	require.Equal(t, []string{"waiting j1.1"}, w.sinks["chat"].kinds())
}

// What ended before notify read of it is not told as waiting.
func TestLate(t *testing.T) {
	w := newWorld(t, two)
	w.step()
	id := w.gate.ask(1)
	w.gate.end(id, "cancelled", api.StateCancelled)
	w.step()
	require.Empty(t, w.sinks["chat"].got)
}

const people = `sinks:
  ops: {exec: {argv: [/bin/x]}, roles: [operational]}
  security: {exec: {argv: [/bin/x]}, roles: [security]}
  bob: {exec: {argv: [/bin/x]}, principals: [bob@example.com]}
  mine: {exec: {argv: [/bin/x]}, for: [uid:1000]}
  other: {exec: {argv: [/bin/x]}, for: [uid:1001]}
  agent: {exec: {argv: [/bin/x]}, for: [agent:builder]}
  alarms: {exec: {argv: [/bin/x]}, alarms: true}
`

// Only people who can decide are asked; the requester hears that it waits and how it ended, without a line to type.
func TestWhoIsTold(t *testing.T) {
	w := newWorld(t, people)
	w.step()
	id := w.gate.ask(1)
	w.step()
	for name, want := range map[string][]string{"ops": {"waiting j1.1"}, "mine": {"waiting j1.1"}, "agent": {"waiting j1.1"},
		"security": {}, "bob": {}, "other": {}, "alarms": {}} {
		require.Equal(t, want, w.sinks[name].kinds(), name)
	}
	require.Empty(t, w.sinks["mine"].got[0].Request.Commands)

	// Alice signed; a second person of security is missing.
	r := w.gate.requests[id]
	r.Demands = []api.Demand{{Roles: []op.Role{op.Operational}, Threshold: 1, Have: 1, Could: []string{"alice@example.com"}},
		{Roles: []op.Role{"security"}, Threshold: 1, Could: []string{"bob@example.com"}}}
	w.gate.set(r)
	w.gate.add("signed", id, `,"signers":["alice@example.com operational SHA256:x"]`)
	w.step()
	require.Equal(t, []string{"waiting j1.1", "signed j1.1"}, w.sinks["ops"].kinds())
	require.Equal(t, []string{"waiting j1.1"}, w.sinks["security"].kinds())
	require.Equal(t, []string{"waiting j1.1"}, w.sinks["bob"].kinds())
	require.Equal(t, []string{"security"}, w.sinks["bob"].got[0].Request.Roles)

	w.gate.end(id, "rejected", api.StateRejected, `,"signers":["bob@example.com security SHA256:y"],"detail":"not today"`)
	w.step()
	require.Equal(t, "not today", w.sinks["mine"].got[len(w.sinks["mine"].got)-1].Request.ByWords)
	require.Equal(t, []string{"bob@example.com"}, w.sinks["agent"].got[len(w.sinks["agent"].got)-1].Request.By)
	require.Empty(t, w.sinks["other"].got)
}

// A request for which no sink is, is said where alarms go.
func TestUnheard(t *testing.T) {
	w := newWorld(t, people)
	w.step()
	r := api.Request{ID: "j9.1", Job: "j9", Op: "trust.rotate", State: api.StatePending, Demands: []api.Demand{{Roles: []op.Role{op.Recovery}, Threshold: 1, Could: []string{"vault"}}}}
	w.gate.set(r)
	w.gate.add("requested", r.ID)
	w.step()
	require.Equal(t, []string{"unheard"}, w.sinks["alarms"].kinds())
}

// Parameters and output go only where the settings say so; the outbox has them for no other sink.
func TestDetailsPerSink(t *testing.T) {
	w := newWorld(t, `sinks:
  plain: {exec: {argv: [/bin/x]}, roles: [operational]}
  params: {exec: {argv: [/bin/x]}, roles: [operational], details: params}
  all: {exec: {argv: [/bin/x]}, roles: [operational], details: all}
`)
	w.step()
	id := w.gate.ask(1)
	r := w.gate.requests[id]
	r.Params, r.Facts = api.Params{"dsn": "s3cret"}, []api.Fact{{Name: "files", Text: "fact-text"}}
	w.gate.set(r)
	w.step()
	w.gate.end(id, "succeeded", api.StateSucceeded)
	w.step()
	texts := map[string]string{}
	for name, s := range w.sinks {
		for _, m := range s.got {
			texts[name] += string(must.Get(m.JSON())(t))
		}
	}
	require.NotContains(t, texts["plain"], "s3cret")
	require.Contains(t, texts["params"], "s3cret")
	require.NotContains(t, texts["params"], "fact-text")
	require.NotContains(t, texts["params"], "what it printed")
	require.Contains(t, texts["all"], "fact-text")
	require.Contains(t, texts["all"], "what it printed")
}

const ladder = `sinks:
  first: {exec: {argv: [/bin/x]}, roles: [operational], escalate: {after: 10m, to: second}}
  second: {exec: {argv: [/bin/x]}, roles: [security], escalate: {after: 5m, to: third}}
  third: {exec: {argv: [/bin/x]}, roles: [operational]}
`

// The next sink is told after the time, if its people can sign; else the one after it. A decision ends the ladder.
func TestEscalation(t *testing.T) {
	w := newWorld(t, ladder)
	w.step()
	id := w.gate.ask(1)
	decided := w.gate.ask(2)
	w.step()
	w.pass(9 * time.Minute)
	require.Empty(t, w.sinks["third"].got)
	w.gate.end(decided, "rejected", api.StateRejected)
	w.step()
	w.restart()
	w.pass(2 * time.Minute)
	require.Empty(t, w.sinks["second"].got, "its people cannot sign")
	require.Empty(t, w.sinks["third"].got)
	w.pass(5 * time.Minute)
	require.Equal(t, []string{"escalated " + id}, w.sinks["third"].kinds())
	require.Contains(t, w.sinks["third"].got[0].Title, "still waits after")
	w.pass(time.Hour)
	require.Len(t, w.sinks["third"].got, 1)
	w.gate.end(id, "approved", api.StateAuthorized)
	w.step()
	require.Equal(t, []string{"escalated " + id, "approved " + id}, w.sinks["third"].kinds())
	require.Empty(t, w.sinks["second"].got)
}

// A thousand requests are some messages and one digest of bounded size.
func TestStorm(t *testing.T) {
	w := newWorld(t, `sinks: {chat: {exec: {argv: [/bin/x]}, roles: [operational], digest: {more_than: 5, within: 2m}}}`)
	w.step()
	for i := range 1000 {
		w.gate.ask(i + 1)
	}
	w.step()
	for i := range 300 {
		w.gate.end(fmt.Sprintf("j%d.1", i+101), "cancelled", api.StateCancelled)
	}
	w.step()
	require.Len(t, w.sinks["chat"].got, 5)
	require.Equal(t, 1295, w.report("chat").Held)
	w.pass(3 * time.Minute)
	got := w.sinks["chat"].got
	require.Len(t, got, 6)
	digest := got[5]
	require.Equal(t, message.Digest, digest.Kind)
	require.Equal(t, "pve1: 1295 messages in one", digest.Title)
	require.Equal(t, "300 cancelled, 695 waiting. opsign list shows what waits now", digest.Detail)
	require.Len(t, digest.Lines, message.MaxLines)
	require.Equal(t, "and 676 more: opsign list", digest.Lines[message.MaxLines-1])
	require.True(t, digest.Urgent)
	w.pass(time.Hour)
	require.Len(t, w.sinks["chat"].got, 6)
	w.gate.ask(1500)
	w.step()
	require.Equal(t, "waiting j1500.1", w.sinks["chat"].kinds()[6], "the storm is over")
	require.Zero(t, w.report("chat").Queued+w.report("chat").Held)
}

// A sink that is away for an hour gets everything soon after it is back, once and in order; others notice nothing.
func TestAwayForAnHour(t *testing.T) {
	w := newWorld(t, `sinks:
  chat: {exec: {argv: [/bin/x]}, roles: [operational], digest: {more_than: 1000, within: 1m}}
  other: {exec: {argv: [/bin/x]}, roles: [operational], digest: {more_than: 1000, within: 1m}}
`)
	w.step()
	chat := w.sinks["chat"]
	chat.fail = func(message.Message) error { return &sink.Failure{Why: "connection refused"} }
	for i := range 30 {
		id := w.gate.ask(i + 1)
		w.step()
		if i%3 == 0 {
			w.gate.end(id, "cancelled", api.StateCancelled)
			w.step()
		}
		w.pass(2 * time.Minute)
		if i == 15 {
			w.restart()
		}
	}
	require.Empty(t, chat.got)
	require.Len(t, w.sinks["other"].got, 40)
	require.Less(t, chat.tries, 120, "it is not called all the time")
	r := w.report("chat")
	require.Equal(t, 40, r.Queued)
	require.Equal(t, "connection refused", r.Why)
	require.NotNil(t, r.NextTry)
	chat.fail = nil
	w.pass(13 * time.Minute)
	require.ElementsMatch(t, w.sinks["other"].kinds(), chat.kinds())
	seen := map[string]bool{}
	for _, m := range chat.got {
		require.False(t, seen[m.ID], "twice: %s", m.ID)
		seen[m.ID] = true
		require.False(t, m.Kind == message.Waits && seen[m.Request.ID+" ended"], "in order")
		seen[m.Request.ID+" ended"] = m.Kind == message.Cancelled
	}
}

// A receiver that answers 500 for a day makes a dead letter, an alarm elsewhere, and a replay brings it.
func TestADayOfErrors(t *testing.T) {
	w := newWorld(t, `sinks:
  chat: {exec: {argv: [/bin/x]}, roles: [operational]}
  alarms: {exec: {argv: [/bin/x]}, alarms: true}
`)
	w.step()
	chat := w.sinks["chat"]
	chat.fail = func(message.Message) error { return &sink.Failure{Why: "500 Internal Server Error"} }
	w.gate.ask(1)
	w.step()
	w.pass(23 * time.Hour)
	require.Equal(t, 1, w.report("chat").Queued)
	w.pass(2 * time.Hour)
	r := w.report("chat")
	require.Equal(t, 0, r.Queued)
	require.Equal(t, 1, r.DeadCount)
	require.Equal(t, "500 Internal Server Error", r.Dead[0].Why)
	require.Less(t, r.Dead[0].Tries, 200)
	require.Equal(t, []string{"alarm"}, w.sinks["alarms"].kinds())
	require.Contains(t, w.sinks["alarms"].got[0].Title, "the sink chat does not take messages")

	chat.fail = nil
	require.EqualValues(t, 0, must.Get(w.box.Replay(t.Context(), "none", "", w.now))(t))
	require.EqualValues(t, 0, must.Get(w.box.Replay(t.Context(), r.Dead[0].ID, "alarms", w.now))(t))
	require.EqualValues(t, 1, must.Get(w.box.Replay(t.Context(), r.Dead[0].ID, "chat", w.now))(t))
	w.deliver()
	require.Equal(t, []string{"waiting j1.1"}, chat.kinds())
	require.Equal(t, []string{"alarm", "alarm-over"}, w.sinks["alarms"].kinds())
}

// An answer that will not change makes a dead letter after three tries; the next message is still tried.
func TestRefusedForGood(t *testing.T) {
	w := newWorld(t, two)
	w.step()
	w.sinks["chat"].fail = func(m message.Message) error {
		if m.Request.ID == "j1.1" {
			return &sink.Failure{Why: "400 Bad Request", Refused: true}
		}
		return nil
	}
	w.gate.ask(1)
	w.gate.ask(2)
	w.step()
	w.pass(time.Minute)
	require.Equal(t, []string{"waiting j2.1"}, w.sinks["chat"].kinds())
	require.Equal(t, 3, w.report("chat").Dead[0].Tries)
}

// One message that always fails does not hold up the others for longer than the pauses of its sink.
func TestPoison(t *testing.T) {
	w := newWorld(t, two)
	w.step()
	w.sinks["chat"].fail = func(m message.Message) error {
		if m.Request.ID == "j1.1" {
			return &sink.Failure{Why: "500"}
		}
		return nil
	}
	for i := range 5 {
		w.gate.ask(i + 1)
	}
	w.step()
	w.pass(time.Minute)
	require.Len(t, w.sinks["chat"].got, 4)
}

// A receiver that asks to wait is not called before.
func TestRetryAfter(t *testing.T) {
	w := newWorld(t, two)
	w.step()
	chat := w.sinks["chat"]
	chat.fail = func(message.Message) error { return &sink.Failure{Why: "429", After: 30 * time.Minute} }
	w.gate.ask(1)
	w.step()
	w.gate.ask(2)
	w.step()
	w.pass(29 * time.Minute)
	require.Equal(t, 1, chat.tries)
	chat.fail = nil
	w.pass(2 * time.Minute)
	require.Len(t, chat.got, 2)
}

// A restored gate: the cursor begins anew with what waits now, what was queued about the old one is dropped, and an
// alarm says it.
func TestRestored(t *testing.T) {
	w := newWorld(t, two)
	w.step()
	for i := range 3 {
		w.gate.ask(i + 1)
	}
	w.sinks["chat"].fail = func(message.Message) error { return &sink.Failure{Why: "away"} }
	w.step()
	w.gate.id, w.gate.log, w.gate.requests = gateB, w.gate.log[:1], map[string]api.Request{}
	w.gate.add("restored", "")
	w.gate.ask(1) // the same id is another request now
	w.sinks["chat"].fail = nil
	w.step()
	w.pass(15 * time.Minute)
	require.Equal(t, []string{"waiting j1.1"}, w.sinks["chat"].kinds())
	require.Equal(t, gateB, w.sinks["chat"].got[0].Gate)
	require.Equal(t, []string{"alarm"}, w.sinks["alarms"].kinds())
	require.Contains(t, w.sinks["alarms"].got[0].Title, "another one than before")
	w.gate.ask(2)
	w.step()
	require.Equal(t, []string{"waiting j1.1", "waiting j2.1"}, w.sinks["chat"].kinds())
	require.Len(t, w.sinks["alarms"].got, 1)
}

// The gate is restored while the stream is open: the first entry with another id ends the stream.
func TestRestoredMeanwhile(t *testing.T) {
	w := newWorld(t, two)
	w.step()
	w.gate.ask(1)
	w.step()
	require.NoError(t, w.n.Connect(t.Context()))
	w.gate.id = gateB
	w.gate.add("time-accepted", "")
	var last api.Entry
	require.NoError(t, w.gate.Events(t.Context(), 1, false, func(e api.Entry) error { last = e; return nil }))
	require.Error(t, w.n.Handle(t.Context(), last))
	w.step()
	require.Equal(t, []string{"alarm"}, w.sinks["alarms"].kinds())
}

// A log that was cut, or rewritten, under the same id is an alarm.
func TestContradictedLog(t *testing.T) {
	for name, edit := range map[string]func(*gate){
		"cut":                   func(g *gate) { g.log = g.log[:2] },
		"rewritten at the end":  func(g *gate) { g.log = g.log[:3]; g.add("stopped", "") },
		"rewritten, and longer": func(g *gate) { g.log = g.log[:3]; g.add("stopped", ""); g.add("started", "") },
	} {
		w := newWorld(t, two)
		for range 4 {
			w.gate.add("started", "")
		}
		w.step()
		w.gate.add("started", "")
		w.step()
		w.gate.log = w.gate.log[:4]
		edit(w.gate)
		w.step()
		require.Equal(t, []string{"alarm"}, w.sinks["alarms"].kinds(), name)
		require.Contains(t, w.sinks["alarms"].got[0].Title, "the audit log", name)
	}
}

// After a log was cut, the same numbers are other entries: their messages are sent, under ids of their own.
func TestACutLogGoesOn(t *testing.T) {
	w := newWorld(t, two)
	w.step()
	w.gate.ask(1)
	w.gate.ask(2)
	w.step()
	w.gate.log, w.gate.requests = w.gate.log[:1], map[string]api.Request{}
	w.step()
	w.gate.ask(3)
	w.step()
	got := w.sinks["chat"]
	require.Equal(t, []string{"waiting j1.1", "waiting j2.1", "waiting j3.1"}, got.kinds())
	require.NotEqual(t, got.got[1].ID, got.got[2].ID)
	w.restart()
	w.gate.ask(4)
	w.step()
	require.Len(t, got.got, 4)
	require.Len(t, w.sinks["alarms"].got, 1)
}

// A step that loses nothing, but that a rule wants signed, waits as others do.
func TestASignedBenignStep(t *testing.T) {
	w := newWorld(t, two)
	w.step()
	id := w.gate.ask(1)
	w.gate.log[0] = bytes.Replace(w.gate.log[0], []byte(`"destructive"`), []byte(`"benign"`), 1)
	w.step()
	w.gate.end(id, "succeeded", api.StateSucceeded)
	w.gate.log[1] = bytes.Replace(w.gate.log[1], []byte(`"destructive"`), []byte(`"benign"`), 1)
	w.gate.add("succeeded", "j7.1") // of a step that no request was for
	w.step()
	require.Equal(t, []string{"waiting j1.1", "succeeded j1.1"}, w.sinks["chat"].kinds())
}

// The health of the daemon: an alarm at once, one only, and its end after five well minutes.
func TestHealth(t *testing.T) {
	w := newWorld(t, two)
	w.step()
	watch := func() { require.NoError(t, w.n.Watch(t.Context())); w.deliver() }
	for range 5 {
		w.gate.health = []api.Health{{Name: "clock", Detail: "signed work waits"}, {Name: "disk", OK: true}}
		watch()
		w.gate.health = []api.Health{{Name: "clock", OK: true}, {Name: "disk", OK: true}}
		watch()
		w.pass(time.Minute)
	}
	require.Equal(t, []string{"alarm"}, w.sinks["alarms"].kinds(), "what comes and goes is one alarm")
	w.pass(5 * time.Minute)
	watch()
	require.Equal(t, []string{"alarm", "alarm-over"}, w.sinks["alarms"].kinds())
	w.gate.health = []api.Health{{Name: "canary", Detail: "alert: since policy changed"}}
	watch()
	require.Equal(t, "pve1: canary is not well", w.sinks["alarms"].got[2].Title)
	require.Empty(t, w.sinks["chat"].got)
}

func TestUnreachable(t *testing.T) {
	w := newWorld(t, two)
	w.step()
	w.gate.away = true
	require.NoError(t, w.n.Watch(t.Context()))
	w.pass(4 * time.Minute)
	require.NoError(t, w.n.Watch(t.Context()))
	w.pass(2 * time.Minute)
	require.Empty(t, w.sinks["alarms"].got)
	require.NoError(t, w.n.Watch(t.Context()))
	require.NoError(t, w.n.Watch(t.Context()))
	w.deliver()
	w.gate.away = false
	require.NoError(t, w.n.Watch(t.Context()))
	w.deliver()
	require.Equal(t, []string{"alarm", "alarm-over"}, w.sinks["alarms"].kinds())
}

// A daemon that cannot start answers, and decides nothing: that is the alarm about one that does not answer, and no second one.
func TestADaemonThatCannotStart(t *testing.T) {
	w := newWorld(t, two)
	w.step()
	w.gate.down = &api.Refusal{Code: api.CodeUnavailable, Detail: "the daemon cannot start: its settings are refused"}
	looks := func() {
		require.NoError(t, w.n.Broken(t.Context(), must.Err(0, w.n.Follow(t.Context()))(t)))
		require.NoError(t, w.n.Watch(t.Context()))
		w.deliver()
		w.pass(30 * time.Second)
	}
	for range 10 {
		looks()
	}
	require.Empty(t, w.sinks["alarms"].got)
	for range 10 {
		looks()
	}
	require.Equal(t, []string{"alarm"}, w.sinks["alarms"].kinds())
	require.Equal(t, "pve1: the daemon does not answer", w.sinks["alarms"].got[0].Title)
	require.Contains(t, w.sinks["alarms"].got[0].Detail, "gated status, as root, says why")
	require.NotContains(t, w.sinks["alarms"].got[0].Detail, "settings", "its reason may quote them")
	w.gate.down = nil
	w.step()
	require.NoError(t, w.n.Watch(t.Context()))
	w.deliver()
	require.Equal(t, []string{"alarm", "alarm-over"}, w.sinks["alarms"].kinds())
}

// A recovery key that was used is always said.
func TestRecoveryKey(t *testing.T) {
	w := newWorld(t, two)
	w.step()
	w.gate.add("approved", "j1.1", `,"op":"trust.rotate","signers":["vault@example.com recovery SHA256:x"]`)
	w.gate.add("approved", "j2.1", `,"op":"trust.rotate","signers":["alice@example.com operational SHA256:x"]`)
	w.step()
	require.Equal(t, []string{"alarm"}, w.sinks["alarms"].kinds())
	require.Contains(t, w.sinks["alarms"].got[0].Detail, "vault@example.com")
}

func TestOldBackups(t *testing.T) {
	dir := t.TempDir()
	w := newWorld(t, "backups: {dir: "+dir+", older_than: 26h}\n"+two)
	w.step()
	watch := func() []string {
		require.NoError(t, w.n.Watch(t.Context()))
		w.deliver()
		return w.sinks["alarms"].kinds()
	}
	require.Equal(t, []string{"alarm"}, watch(), "there is none")
	file := filepath.Join(dir, "gated.backup")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, os.Chtimes(file, w.now, w.now))
	require.Len(t, watch(), 1, "an empty file is no backup")
	require.NoError(t, os.WriteFile(file, []byte("x"), 0o600))
	require.NoError(t, os.Chtimes(file, w.now, w.now))
	require.Equal(t, []string{"alarm", "alarm-over"}, watch())
	w.now = w.now.Add(26 * time.Hour)
	require.Len(t, watch(), 2)
	w.now = w.now.Add(time.Second)
	require.Len(t, watch(), 3)
}

// held is a sink that takes a message only when its try is over.
type held struct{ began chan string }

func (h held) Send(ctx context.Context, m message.Message, _ time.Time) (string, error) {
	h.began <- m.ID
	<-ctx.Done()
	return "", ctx.Err()
}

// told is a sink that says what it got.
type told struct{ got chan string }

func (o told) Send(_ context.Context, m message.Message, _ time.Time) (string, error) {
	o.got <- m.ID
	return "ok", nil
}

// While one sink holds its try, the others get theirs. A stop ends the try, which then does not count.
func TestASlowSink(t *testing.T) {
	w := newWorld(t, `sinks:
  slow: {exec: {argv: [/bin/x]}, roles: [operational]}
  quick: {exec: {argv: [/bin/x]}, roles: [operational]}
`)
	w.gate.stays = true
	for i := range 3 {
		w.gate.ask(i + 1)
	}
	slow, quick := held{make(chan string, 10)}, told{make(chan string, 10)}
	n := notify.New(notify.Options{Settings: w.is, Dir: w.dir, Gate: w.gate, Logger: slog.New(slog.DiscardHandler), Now: time.Now,
		Sinks: map[string]sink.Sink{"slow": slow, "quick": quick}, Outbox: w.box})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	first := <-slow.began
	for i := range 3 {
		require.Equal(t, fmt.Sprintf("%s:3:j%d.1", gateA, i+1), <-quick.got)
	}
	cancel()
	require.NoError(t, <-ended)
	require.Equal(t, gateA+":3:j1.1", first)
	require.Empty(t, slow.began)
	r := w.report("slow")
	require.Equal(t, 3, r.Queued)
	require.Empty(t, r.Why)
	require.Zero(t, w.report("quick").Queued)
}

// An entry that cannot be handled is an alarm after a time, and its end is said.
func TestStuck(t *testing.T) {
	w := newWorld(t, two)
	w.step()
	w.gate.ask(1)
	w.gate.odd = &api.Refusal{Code: api.CodeInternal, Detail: "broken"}
	breaks := func() {
		require.NoError(t, w.n.Broken(t.Context(), must.Err(0, w.n.Follow(t.Context()))(t)))
		require.NoError(t, w.n.Watch(t.Context()))
		w.deliver()
	}
	breaks()
	w.pass(10 * time.Minute) // it did not break meanwhile
	for range 10 {
		breaks()
		w.pass(30 * time.Second)
	}
	require.Empty(t, w.sinks["alarms"].got)
	breaks()
	breaks()
	require.Equal(t, []string{"alarm"}, w.sinks["alarms"].kinds())
	w.gate.odd = nil
	w.step()
	require.NoError(t, w.n.Watch(t.Context()))
	w.deliver()
	require.Equal(t, []string{"alarm", "alarm-over"}, w.sinks["alarms"].kinds())
	require.Equal(t, []string{"waiting j1.1"}, w.sinks["chat"].kinds())
}

// The signed head of the log is kept. Another log under the same key and id is an alarm, until the old one is back.
func TestWitness(t *testing.T) {
	w := newWorld(t, two)
	key := must.Get(checkpoint.NewKey(gateA))(t)
	sign := func(root byte) string {
		c := checkpoint.Checkpoint{Gate: gateA, Size: 1}
		c.Root[0] = root
		return must.Get(c.Sign(key))(t)
	}
	w.gate.add("started", "")
	w.step()
	watch := func(note string) []string {
		w.gate.note, w.gate.key = note, key.Public
		require.NoError(t, w.n.Watch(t.Context()))
		w.deliver()
		return w.sinks["alarms"].kinds()
	}
	require.Empty(t, watch(sign(1)))
	require.Empty(t, watch(sign(1)))
	require.Equal(t, []string{"alarm"}, watch(sign(2)))
	require.Equal(t, []string{"alarm"}, watch(sign(2)))
	require.Contains(t, w.sinks["alarms"].got[0].Title, "contradicts")
	require.Equal(t, []string{"alarm", "alarm-over"}, watch(sign(1)))
}

// A daemon that goes away in the middle of an entry: the entry is read again.
func TestTheDaemonGoesAway(t *testing.T) {
	w := newWorld(t, two)
	w.step()
	w.gate.ask(1)
	require.NoError(t, w.n.Connect(t.Context()))
	var e api.Entry
	require.NoError(t, w.gate.Events(t.Context(), 0, false, func(one api.Entry) error { e = one; return nil }))
	w.gate.away = true
	require.Error(t, w.n.Handle(t.Context(), e))
	w.gate.away = false
	w.step()
	require.Equal(t, []string{"waiting j1.1"}, w.sinks["chat"].kinds())
}

// A queue has a bound: what is above it is a dead letter at once, and can be replayed.
func TestAFullQueue(t *testing.T) {
	w := newWorld(t, two)
	w.step()
	letters := make([]outbox.Letter, 0, outbox.MaxQueued+1)
	for i := range outbox.MaxQueued + 1 {
		letters = append(letters, outbox.Letter{Sink: "chat", Message: message.Message{ID: fmt.Sprint(i), Thread: fmt.Sprint(i), Kind: message.Waits}})
	}
	require.NoError(t, w.box.Put(t.Context(), w.now, letters[:outbox.MaxQueued]...))
	require.Zero(t, w.report("chat").DeadCount)
	require.NoError(t, w.box.Put(t.Context(), w.now, letters[outbox.MaxQueued]))
	require.Equal(t, outbox.MaxQueued, w.report("chat").Queued)
	require.Equal(t, 1, w.report("chat").DeadCount)
	require.NoError(t, w.box.Put(t.Context(), w.now, letters...))
	require.Equal(t, 1, w.report("chat").DeadCount, "the same message is not stored again")
	must.Get(w.n.Try(t.Context(), "chat"))(t)
	require.Len(t, w.sinks["chat"].got, 1)
	require.NoError(t, w.box.Prune(t.Context(), w.now.Add(outbox.KeepDone)))
	require.Equal(t, 1, w.report("chat").DeadCount)
	require.NoError(t, w.box.Prune(t.Context(), w.now.Add(outbox.KeepDone+time.Second)))
	require.Zero(t, w.report("chat").DeadCount)
	require.Equal(t, outbox.MaxQueued-1, w.report("chat").Queued, "what waits is never old")
}

// Sinks that the settings do not have any more keep nothing back.
func TestForgottenSink(t *testing.T) {
	w := newWorld(t, two)
	w.step()
	require.NoError(t, w.box.Put(t.Context(), w.now, outbox.Letter{Sink: "gone", Message: message.Message{ID: "1", Kind: message.Alarm}}))
	require.NoError(t, w.box.Forget(t.Context(), []string{"chat", "alarms"}, w.now))
	require.Zero(t, w.report("gone").Queued)
}

var errOdd = errors.New("odd")

// A sink's error of any other kind is a failure like others.
func TestOddFailure(t *testing.T) {
	w := newWorld(t, two)
	w.step()
	w.sinks["chat"].fail = func(message.Message) error { return errOdd }
	w.gate.ask(1)
	w.step()
	require.Equal(t, "odd", w.report("chat").Why)
}
