package servicetest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/agents/reserve"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/host/fsck/fscktest"
	"gated/internal/host/life"
	"gated/internal/host/service"
	"gated/internal/log/audit"
	"gated/internal/log/canary"
	"gated/internal/test/mint"
)

// decisions is how many that differ are enough for the canary.
const decisions = 8

// What a world has in which something has happened.
const (
	Document = "apiVersion: gated/v1\nhost: h\nguests:\n  - {name: app, state: stopped}\n"
	Alert    = 14 // the entry whose change the canary warns of
)

// Src is a directory that the daemon cannot see, so the caller's word counts.
var Src = api.Place{Path: "/nowhere/src", Device: 1, Inode: 2}

// Caller is the bare uid of the test.
func Caller() op.Requester {
	return op.Requester{Source: op.SourceAPI, UID: uint32(os.Getuid()), PID: int32(os.Getpid())}
}

// begun is the database from which worlds begin, and builder's token in it. It is made once.
var begun struct {
	sync.Mutex
	database []byte
	token    string
}

// New returns a world in which something has happened. j1.1 is a request to destroy web-1, and j2.1 one to destroy db.
// The jobs j3 to j10 are planned. The set web is Document. r1 and r2 are reservations of the caller in Src, the agents
// builder and tester have tokens, and the canary has an alert. fsck checks the database when the test has ended.
func New(t testing.TB) *World {
	t.Helper()
	dir := t.TempDir()
	fscktest.Watch(t, databaseIn(dir), life.Migrations())
	w := Unwatched(t, dir)
	t.Cleanup(func() { w.Close(t) })
	return w
}

// Unwatched is New, in a directory of the caller, without fsck. The caller closes it.
func Unwatched(t testing.TB, dir string) *World {
	t.Helper()
	begun.Lock()
	defer begun.Unlock()
	if begun.database == nil {
		first, err := os.MkdirTemp("", "gated")
		require.NoError(t, err)
		defer os.RemoveAll(first)
		w := open(t, first, nil)
		w.first(t)
		begun.token = w.live(t)
		w.Close(t)
		begun.database, err = os.ReadFile(databaseIn(first))
		require.NoError(t, err)
	}
	return open(t, dir, begun.database)
}

// live makes what New says, and returns builder's token.
func (w *World) live(t testing.TB) (token string) {
	t.Helper()
	ctx, by := context.Background(), Caller()
	w.Submit(t, "guest.destroy", "web-1")
	w.Submit(t, "guest.destroy", "db")
	for i := range decisions {
		w.Submit(t, "guest.create", fmt.Sprintf("new-%d", i))
	}
	for _, version := range []string{"1", "2"} {
		require.NoError(t, w.Gate.Log(ctx, audit.Entry{Kind: audit.Started, Version: version}))
	}
	for i := range decisions {
		ask := op.Ask{Op: fmt.Sprintf("guest.none%d", i), Target: op.Target{Kind: "guest", Name: "db"}}
		_, err := w.Gate.Submit(ctx, op.Submission{Requester: by, Steps: []op.Ask{ask}})
		require.ErrorIs(t, err, refusal.UnknownOp)
	}
	require.NoError(t, w.Canary.Step(ctx))
	require.Equal(t, canary.Alert, w.Canary.Shown().Watch.Verdict)
	require.EqualValues(t, Alert, w.Canary.Shown().Watch.Change)
	_, err := w.Desired.PutSet(ctx, by, "web", "", []byte(Document))
	require.NoError(t, err)
	for _, pattern := range []string{"a/**", "b/**"} {
		w.Reserve(t, Src.Path, pattern)
	}
	w.Register(t, "tester")
	return w.Register(t, "builder")
}

// Reserve reserves a pattern in a directory for an hour, for the caller.
func (w *World) Reserve(t testing.TB, directory, pattern string) {
	t.Helper()
	_, _, err := w.Agents.Book.Reserve(context.Background(), reserve.Claim{By: Caller(), Patterns: []string{pattern},
		Mode: reserve.Exclusive, Place: reserve.Place{Path: directory, Device: Src.Device, Inode: Src.Inode}, TTL: time.Hour})
	require.NoError(t, err)
}

// Token is that of the agent builder of every world.
func Token() string {
	begun.Lock()
	defer begun.Unlock()
	return begun.token
}

// Register registers an agent with a token, which it returns.
func (w *World) Register(t testing.TB, name string) string {
	t.Helper()
	c := w.Enter(t)
	defer c.Close()
	r, err := w.Agents.Register(context.Background(), c, api.RegisterAgent{Name: name, Token: true})
	require.NoError(t, err)
	return r.Token
}

// Enter returns the test's own process as a caller.
func (w *World) Enter(t testing.TB) *service.Caller {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	require.NoError(t, syscall.Close(fds[1]))
	c, err := w.Agents.Connected(os.NewFile(uintptr(fds[0]), "socket")) // which is closed once c is not used any more
	require.NoError(t, err)
	return c
}

// Submit asks for one step and returns the job.
func (w *World) Submit(t testing.TB, name, guest string) op.Job {
	t.Helper()
	j, err := w.Gate.Submit(context.Background(), op.Submission{Requester: Caller(),
		Steps: []op.Ask{{Op: name, Target: op.Target{Kind: "guest", Name: guest}, Params: op.Params{}}}})
	require.NoError(t, err)
	return j
}

// Happen writes n entries to the log, in one transaction. They concern those holders.
func (w *World) Happen(t testing.TB, n int, concerns ...string) {
	t.Helper()
	entries := make([]audit.Entry, n)
	for i := range entries {
		entries[i] = audit.Entry{Kind: audit.Started, By: "gate", For: concerns}
	}
	require.NoError(t, w.Store.Update(context.Background(), func(tx *store.Tx) error {
		return w.Gate.Append(tx, entries...)
	}))
}

// Head is the number of the last entry of the log.
func (w *World) Head(t testing.TB) int64 {
	t.Helper()
	h, err := w.Gate.AuditHead(context.Background())
	require.NoError(t, err)
	return h.Seq
}

// Approval is an envelope for a request, signed by the operator.
func (w *World) Approval(t testing.TB, id op.RequestID) api.Envelope {
	t.Helper()
	r, err := w.Gate.Request(context.Background(), id)
	require.NoError(t, err)
	return Signed(t, r.Payload)
}

// Rejection is an envelope that rejects a request, signed by the operator.
func (w *World) Rejection(t testing.TB, id op.RequestID) api.Envelope {
	t.Helper()
	r, err := w.Gate.Request(context.Background(), id)
	require.NoError(t, err)
	now := w.Gate.Moment().Now.UTC().Truncate(time.Second)
	b, err := op.Rejection{Gate: GateID, Host: Host, Request: id, PayloadSHA256: op.SHA256(r.Payload),
		Nonce: "BBBBBBBBBBBBBBBBBBBBBA", IssuedAt: now, ExpiresAt: now.Add(time.Hour)}.Encode()
	require.NoError(t, err)
	return Signed(t, b)
}

// Offline is an envelope for a step that the gate issued no payload for.
func (w *World) Offline(t testing.TB) api.Envelope {
	t.Helper()
	target := op.Target{Kind: "guest", Name: "old"}
	o, err := w.Guests.Observe(context.Background(), op.At(target))
	require.NoError(t, err)
	now := w.Gate.Moment().Now.UTC().Truncate(time.Second)
	b, err := op.Payload{Gate: GateID, Host: Host, Op: "guest.destroy", Target: target, Incarnation: o.Incarnation,
		State: o.Fingerprint, Params: op.Params{}, Nonce: "AAAAAAAAAAAAAAAAAAAAAA", IssuedAt: now, ExpiresAt: now.Add(time.Hour)}.Encode()
	require.NoError(t, err)
	return Signed(t, b)
}

// Signed is an envelope with the operator's signature.
func Signed(t testing.TB, payload []byte) api.Envelope {
	t.Helper()
	return api.EnvelopeOf(payload, mint.Sign(t, Operator(t), op.Operational.Namespace(), payload).Armored())
}
