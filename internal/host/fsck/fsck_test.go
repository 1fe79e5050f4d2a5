package fsck_test

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/gate"
	"gated/internal/host/fsck"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
	"gated/internal/nonce"
	"gated/internal/people/policy"
	"gated/internal/test/must"
)

func sound(t testing.TB, path string) fsck.Report {
	t.Helper()
	r := check(t, path)
	require.Empty(t, r.Problems)
	require.True(t, r.Sound)
	return r
}

// TestLegalHistoriesAreSound: a gate may have each of these histories, and fsck must
// not report a problem.
func TestLegalHistoriesAreSound(t *testing.T) {
	broken := errors.New("the disk broke")
	for name, live := range map[string]func(*world){
		"nothing at all": func(*world) {},
		"signed": func(w *world) {
			id := w.waiting("web")
			sound(w.t, w.path) // while it waits
			w.approve(id)
			sound(w.t, w.path) // while it may run
			w.run()
			require.Equal(w.t, op.StateSucceeded, w.job(id.Job).State())
		},
		"under way": func(w *world) {
			id := w.waiting("web")
			w.approve(id)
			_, ok := w.dispatch(id)
			require.True(w.t, ok)
		},
		"interrupted": func(w *world) {
			id := w.waiting("web")
			w.approve(id)
			w.dispatch(id)
			w.record(id, gate.Outcome{Unknown: true})
			require.Equal(w.t, op.StateInterrupted, w.job(id.Job).State())
		},
		"compensated": func(w *world) {
			j := w.submit(hub, ask("guest.create", "web"), ask("guest.create", "db"))
			w.execute(j.Steps[0].ID)
			w.fail = broken
			w.run()
			require.Len(w.t, w.job(j.ID).Steps, 3)
			require.NotContains(w.t, w.guests, "web")
		},
		"benign step retried": func(w *world) {
			w.transient, w.fail = true, broken
			require.Equal(w.t, op.StateSucceeded, w.do(ask("guest.create", "web")).State())
		},
		"retried and by then destructive": func(w *world) {
			w.do(ask("guest.create", "web"))
			j := w.submit(hub, ask("guest.create", "db"), ask("guest.create", "fs"))
			w.execute(j.Steps[0].ID)
			w.fail = broken // of fs: db will be taken back
			w.execute(j.Steps[1].ID)
			undo := w.job(j.ID).Steps[2].ID
			w.transient, w.fail = true, broken
			w.execute(undo)
			o := w.guests["db"]
			require.NoError(w.t, w.gate.Adopt(w.t.Context(), "web", o))
			w.run()
			require.Equal(w.t, op.StatePending, w.job(j.ID).Steps[2].State)
			sound(w.t, w.path)
			w.approve(undo)
			w.run()
			require.NotContains(w.t, w.guests, "db")
		},
		"issued anew": func(w *world) {
			id := w.waiting("web")
			old := w.request(id).Payload
			w.change("web")
			require.NotEqual(w.t, old, w.request(id).Payload)
			sound(w.t, w.path)
			w.pass(25 * time.Hour)
			require.NoError(w.t, w.gate.Tick(w.t.Context()))
			w.approve(id)
			w.run()
		},
		"superseded": func(w *world) {
			id := w.waiting("web")
			delete(w.guests, "web")
			require.NoError(w.t, w.gate.Refresh(w.t.Context(), op.Target{Kind: "guest", Name: "web"}))
			require.Equal(w.t, op.StateSuperseded, w.job(id.Job).State())
		},
		"stale when it would run": func(w *world) {
			id := w.waiting("web")
			w.approve(id)
			o := w.guests["web"]
			o.Fingerprint = op.FingerprintOf(nil)
			w.guests["web"] = o
			w.run()
			require.Equal(w.t, op.StateRefused, w.job(id.Job).State())
		},
		"rejected, also after it was approved": func(w *world) {
			w.reject(w.waiting("web"))
			w.pass(policy.RejectHolds) // before, the same wish is refused
			id := w.destroy("web")
			w.approve(id)
			w.reject(id)
			require.Equal(w.t, op.StateRejected, w.job(id.Job).State())
		},
		"joined and withdrawn, one after the other": func(w *world) {
			id := w.waiting("web")
			w.submit(other, ask("guest.destroy", "web"))
			must.Get(w.gate.Cancel(w.t.Context(), hub, id.Job))(w.t)
			require.Equal(w.t, op.StatePending, w.job(id.Job).State())
			sound(w.t, w.path)
			must.Get(w.gate.Cancel(w.t.Context(), other, id.Job))(w.t)
			require.Equal(w.t, op.StateCancelled, w.job(id.Job).State())
		},
		"desired state withdrawn": func(w *world) {
			w.do(ask("guest.create", "web"), ask("guest.create", "db"))
			for _, name := range []string{"web", "db"} {
				j := must.Get(w.gate.Want(w.t.Context(), "set", ask("guest.destroy", name)))(w.t)
				if name == "db" {
					w.approve(j.Steps[0].ID)
				}
				require.NoError(w.t, w.gate.Withdraw(w.t.Context(), "set", j.Steps[0].Target, nil))
			}
		},
		"approved too late": func(w *world) {
			id := w.waiting("web")
			w.approve(id)
			w.pass(25 * time.Hour)
			w.run()
			require.Equal(w.t, op.StateExpired, w.job(id.Job).State())
		},
		"signed offline": func(w *world) {
			w.do(ask("guest.create", "web"))
			o := w.guests["web"]
			b, err := op.Payload{Gate: w.id, Host: testHost, Op: "guest.destroy", Target: o.Target, Incarnation: o.Incarnation,
				State: o.Fingerprint, Params: op.Params{}, Nonce: op.NewNonce(time.Now()), IssuedAt: w.wall, ExpiresAt: w.wall.Add(time.Hour)}.Encode()
			require.NoError(w.t, err)
			must.Get(w.gate.ApproveOffline(w.t.Context(), hub, w.envelope(b)))(w.t)
			w.run()
			require.NotContains(w.t, w.guests, "web")
		},
		"created and undeleted by signature": func(w *world) {
			w.approve(w.waiting("web"))
			w.run()
			free := must.Get(w.Observe(w.t.Context(), op.At(op.Target{Kind: "guest", Name: "web"})))(w.t)
			b, err := op.Payload{Gate: w.id, Host: testHost, Op: "guest.undelete", Target: free.Target,
				State: op.FingerprintOf([]byte("absent")), Params: op.Params{}, Nonce: op.NewNonce(time.Now()), IssuedAt: w.wall, ExpiresAt: w.wall.Add(time.Hour)}.Encode()
			require.NoError(w.t, err)
			must.Get(w.gate.ApproveOffline(w.t.Context(), hub, w.envelope(b)))(w.t)
			w.run()
			require.Contains(w.t, w.guests, "web")
		},
		"work while the clock is in doubt": func(w *world) {
			id := w.waiting("web")
			w.wall = w.wall.Add(70 * 365 * 24 * time.Hour)
			w.pass(5 * time.Hour)
			w.do(ask("guest.create", "db"))
			sound(w.t, w.path)
			w.wall = w.wall.Add(-70*365*24*time.Hour - 50*time.Minute)
			w.approve(id) // by a trusted clock that is behind the time shown before
			w.run()
		},
		"wanted by two sets, withdrawn by one": func(w *world) {
			w.do(ask("guest.create", "web"))
			var j op.Job
			for _, set := range []string{"a", "b"} {
				j = must.Get(w.gate.Want(w.t.Context(), set, ask("guest.destroy", "web")))(w.t)
			}
			require.NoError(w.t, w.gate.Withdraw(w.t.Context(), "a", j.Steps[0].Target, nil))
			sound(w.t, w.path)
			require.NoError(w.t, w.gate.Withdraw(w.t.Context(), "b", j.Steps[0].Target, nil))
		},
		"configured, then taken back": func(w *world) {
			w.do(ask("guest.create", "web", "memory", int64(256)))
			o := w.guests["web"]
			o.Spec, o.Running = op.Params{"memory": int64(256)}, "running"
			w.guests["web"] = o
			j := w.submit(hub, ask("guest.set-config", "web", "memory", int64(512)), ask("guest.create", "db"))
			w.execute(j.Steps[0].ID)
			w.fail = broken
			w.run()
			require.Len(w.t, w.job(j.ID).Steps, 3)
		},
		"cancelled by root": func(w *world) {
			id := w.waiting("web")
			must.Get(w.gate.Cancel(w.t.Context(), op.Requester{Source: op.SourceAPI}, id.Job))(w.t)
		},
		"cancelled by the last who asked, whose row an earlier version removed": func(w *world) {
			id := w.waiting("web")
			must.Get(w.gate.Cancel(w.t.Context(), hub, id.Job))(w.t)
			sound(w.t, w.path)
			require.NoError(w.t, w.store.Update(w.t.Context(), func(tx *store.Tx) error {
				n, err := tx.Exec(`DELETE FROM requesters WHERE job = ?`, int64(id.Job))
				require.EqualValues(w.t, 1, n)
				return err
			}))
		},
		"scratch, adopted": func(w *world) {
			w.do(ask("guest.create", "web", "scratch", true))
			require.NoError(w.t, w.gate.Adopt(w.t.Context(), "set", w.guests["web"]))
		},
		"nonces forgotten": func(w *world) {
			w.approve(w.waiting("web"))
			w.run()
			w.pass(26 * time.Hour)
			require.NoError(w.t, w.gate.Tick(w.t.Context()))
			require.NoError(w.t, w.store.View(w.t.Context(), func(tx *store.Tx) error {
				var n int
				err := tx.QueryRow(`SELECT count(*) FROM nonces`).Scan(&n)
				require.Zero(w.t, n)
				return err
			}))
		},
		"restored from a backup": func(w *world) {
			w.do(ask("guest.create", "web"), ask("guest.create", "db"))
			w.destroy("web")
			w.approve(w.destroy("db"))
			w.pass(26 * time.Hour)
			require.NoError(w.t, w.store.Update(w.t.Context(), func(tx *store.Tx) error {
				// On a machine whose clock is behind the first one's.
				require.NoError(w.t, nonce.SetMark(tx, nonce.Reading{Wall: w.wall.Add(-72 * time.Hour)}))
				require.NoError(w.t, journal.ExpireRequests(tx))
				_, err := audit.Append(tx, audit.Entry{Kind: audit.Restored, Gate: "f123456789abcdef0123456789abcdef", Time: w.wall})
				return err
			}))
			sound(w.t, w.path)
			require.NoError(w.t, w.store.Close())
			w.id = "f123456789abcdef0123456789abcdef"
			w.open()
			require.NoError(w.t, w.gate.Tick(w.t.Context()))
			w.run()
		},
		"refused callers": func(w *world) {
			id := w.waiting("web")
			for range 3 {
				must.Err(w.gate.Approve(w.t.Context(), hub, id, w.envelope([]byte("{}"))))(w.t)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			live(w)
			sound(t, w.path)
		})
	}
}

// lived makes the database that the cases below break: j1 created web, j2.1
// destroyed it, j3 made scratch, j4.1 waits. j5.1 was rejected, j6.1 is planned, and
// j7.3 is planned to take j7.1 back.
func lived(t *testing.T) string {
	w := newWorld(t)
	w.approve(w.waiting("web"))
	w.run()
	w.do(ask("guest.create", "tmp", "scratch", true), ask("guest.create", "db"))
	require.NoError(t, w.gate.Adopt(t.Context(), "set", w.guests["tmp"]))
	w.destroy("db")
	w.reject(w.destroy("tmp"))
	w.submit(hub, ask("guest.set-config", "db", "memory", int64(512)))
	j := w.submit(hub, ask("guest.create", "a"), ask("guest.create", "b"))
	w.execute(j.Steps[0].ID)
	w.fail = errors.New("the disk broke")
	w.execute(j.Steps[1].ID)
	r := sound(t, w.path)
	for _, what := range []string{"audit entries", "steps", "requests", "nonces", "incarnations", "jobs", "requesters"} {
		require.Positive(t, r.Checked[what], what)
	}
	require.NoError(t, w.store.Close())
	return w.path
}

// TestEachRuleBroken breaks one rule at a time by hand.
func TestEachRuleBroken(t *testing.T) {
	path := lived(t)
	const web = `(job = 2 AND idx = 1)`
	for _, c := range []struct{ name, rule, where, sql string }{
		{"a forged provenance row (P12)", "provenance", "guest/x x-1",
			`INSERT INTO incarnations SELECT 'x-1', kind, 'x', creator, agent, job, 1, 1e18, '', created_at, '', 'nothing' FROM incarnations LIMIT 1`},
		{"a forged scratch flag", "provenance", "guest/db db-3", `UPDATE incarnations SET scratch = 1, scratch_until = 4000000000000000000 WHERE name = 'db'`},
		{"scratch that ended goes on", "provenance", "guest/tmp tmp-2", `UPDATE incarnations SET ended = '' WHERE name = 'tmp'`},
		{"scratch lives longer", "provenance", "guest/tmp tmp-2", `UPDATE incarnations SET scratch_until = scratch_until + 1 WHERE name = 'tmp'`},
		{"its job may take it back again", "provenance", "guest/tmp tmp-2", `UPDATE incarnations SET used = CASE used WHEN '' THEN 'x' ELSE '' END WHERE name = 'tmp'`},
		{"what was in it then", "provenance", "guest/tmp tmp-2", `UPDATE incarnations SET content = 'other' WHERE name = 'tmp'`},
		{"another creator", "provenance", "guest/tmp tmp-2", `UPDATE incarnations SET creator = 'uid:7' WHERE name = 'tmp'`},
		{"another job's", "provenance", "guest/db db-3", `UPDATE incarnations SET job = 4 WHERE name = 'db'`},
		{"a foreign disk", "provenance", "guest/db db-3", `INSERT INTO storage SELECT incarnation, 'disk:7', job FROM incarnations WHERE name = 'db'`},
		{"a disk of another job", "provenance", "guest/db db-3", `UPDATE storage SET job = 4 WHERE incarnation = 'db-3'`},
		{"a disk forgotten", "provenance", "guest/db db-3", `DELETE FROM storage WHERE incarnation = 'db-3'`},
		{"provenance forgotten", "provenance", "guest/web web-1",
			`DELETE FROM storage WHERE incarnation = 'web-1'; DELETE FROM incarnations WHERE incarnation = 'web-1'`},

		{"made later than it was", "provenance", "guest/db db-3", `UPDATE incarnations SET created_at = created_at + 315360000000000000 WHERE name = 'db'`},
		{"another agent's", "provenance", "guest/db db-3", `UPDATE incarnations SET agent = 'builder' WHERE name = 'db'`},

		{"another name is planned", "decided", "j6.1", `UPDATE steps SET name = 'prod' WHERE job = 6`},
		{"another operation is planned", "decided", "j6.1", `UPDATE steps SET op = 'guest.stop' WHERE job = 6`},
		{"other parameters are planned", "decided", "j6.1", `UPDATE steps SET params = '{"memory":1}' WHERE job = 6`},
		{"declared destructive", "decided", "j6.1", `UPDATE steps SET class = 'destructive' WHERE job = 6`},
		{"takes back what it does not", "decided", "j6.1", `UPDATE steps SET undoes = 1 WHERE job = 6`},
		{"a compensation of other parameters", "decided", "j7.3", `UPDATE steps SET params = '{"force":true}' WHERE job = 7 AND idx = 3`},
		{"a compensation that is a step like others", "decided", "j7.3", `UPDATE steps SET undoes = 0 WHERE job = 7 AND idx = 3`},
		{"a compensation under another name", "decided", "j7.3", `UPDATE steps SET name = 'prod' WHERE job = 7 AND idx = 3`},

		{"undone by more than it did", "decided", "j6.1", `UPDATE steps SET undo = '{"op":"guest.destroy","params":{}}' WHERE job = 6`},
		{"an undo of another target", "decided", "j1.1",
			`UPDATE steps SET undo = '{"op":"guest.destroy","params":{},"target":"guest/prod"}' WHERE job = 1`},
		{"an undo with parameters", "decided", "j1.1", `UPDATE steps SET undo = '{"op":"guest.destroy","params":{"x":1}}' WHERE job = 1`},
		{"an undo of another incarnation", "decided", "j2.1", `UPDATE steps SET undo = replace(undo, 'web-1', 'web-9') WHERE job = 2`},
		{"an undo that takes protection away", "decided", "j6.1",
			`UPDATE steps SET undo = '{"op":"guest.set-config","params":{"protected":false}}' WHERE job = 6`},
		{"an undo that is none", "decided", "j1.1", `UPDATE steps SET undo = 'x' WHERE job = 1`},

		{"the gate as a requester", "decided", "j6", `INSERT INTO requesters VALUES(6, 'gate', 'gate', 0, 0, '', '', '')`},
		{"a requester who did not ask", "decided", "j4", `INSERT INTO requesters VALUES(4, 'uid:7', 'api', 7, 7, '', '', '')`},
		{"a requester under another's name", "decided", "j4", `UPDATE requesters SET source = 'gate' WHERE job = 4`},
		{"a requester removed", "decided", "j4", `DELETE FROM requesters WHERE job = 4`},

		{"no signature is needed", "signed-step", "j4.1", `UPDATE requests SET need = replace(need, '"threshold":1', '"threshold":0') WHERE job = 4`},
		{"signed in another role", "signed-step", "j4.1", `UPDATE requests SET need = replace(need, '["operational"]', '["recovery"]') WHERE job = 4`},
		{"signed in no role", "signed-step", "j4.1", `UPDATE requests SET need = replace(need, '["operational"]', '[]') WHERE job = 4`},
		{"a way without a demand", "signed-step", "j4.1", `UPDATE requests SET need = replace(need, '}],"windows"', '},{"name":"recovery","demands":[]}],"windows"') WHERE job = 4`},
		{"a delay that no rule asked for", "signed-step", "j4.1", `UPDATE requests SET need = replace(need, '"cool_off":0', '"cool_off":1') WHERE job = 4`},
		{"no requirement", "signed-step", "j4.1", `UPDATE requests SET need = '{}' WHERE job = 4`},
		{"a trust file that no entry made", "trust-epochs", "trust epoch 1", `INSERT INTO trust VALUES(1, x'00', 'init', 1)`},
		{"facts that are none", "signed-step", "j4.1", `UPDATE requests SET facts = '{}' WHERE job = 4`},
		{"the time mark turned back", "once", "time mark", `UPDATE time_mark SET unix = 1`},
		{"the time mark removed", "once", "time mark", `DELETE FROM time_mark`},

		{"succeeded without an entry", "permit", "j4.1", `UPDATE steps SET state = 'succeeded' WHERE job = 4; UPDATE jobs SET finished_at = 1 WHERE id = 4;
			UPDATE nonces SET fate = 'used' WHERE job = 4`},
		{"benign step ended without an entry", "decided", "j1.1", `UPDATE steps SET state = 'failed' WHERE job = 1`},
		{"a step without a requester", "decided", "j1.2",
			`INSERT INTO steps SELECT job, 2, op, kind, name, incarnation, params, fingerprint, class, rule, why, 'succeeded', birth, undoes, undo, task,
				attempts, code, detail, wish, updated_at, before, turn FROM steps WHERE job = 1`},
		{"a step removed", "decided", "j1.1", `DELETE FROM steps WHERE job = 1`},
		{"authorized by hand", "permit", "j4.1", `UPDATE steps SET state = 'authorized' WHERE job = 4; UPDATE nonces SET fate = 'used' WHERE job = 4`},
		{"put back to run again", "once", "j2.1", `UPDATE steps SET state = 'authorized' WHERE job = 2; UPDATE jobs SET finished_at = 0 WHERE id = 2`},
		{"waits again", "once", "j2.1", `UPDATE steps SET state = 'pending_signature' WHERE job = 2; UPDATE jobs SET finished_at = 0 WHERE id = 2;
			UPDATE nonces SET fate = '' WHERE job = 2`},
		{"declared benign", "permit", "j4.1", `UPDATE steps SET class = 'benign' WHERE job = 4`},
		{"declared benign and planned", "decided", "j4.1", `UPDATE steps SET class = 'benign', state = 'planned' WHERE job = 4`},
		{"rejection taken back", "decided", "j5.1", `UPDATE steps SET state = 'pending_signature' WHERE job = 5;
			UPDATE jobs SET finished_at = 0 WHERE id = 5; UPDATE nonces SET fate = '' WHERE job = 5`},

		{"a nonce not spent", "once", "j2.1", `UPDATE nonces SET fate = '' WHERE ` + web},
		{"a nonce removed", "once", "j2.1", `DELETE FROM nonces WHERE ` + web},
		{"a waiting nonce removed", "once", "j4.1", `DELETE FROM nonces WHERE job = 4`},
		{"a waiting nonce spent", "once", "j4.1", `UPDATE nonces SET fate = 'used' WHERE job = 4`},
		{"a nonce's fate changed", "once", "j2.1", `UPDATE nonces SET fate = 'cancelled' WHERE ` + web},
		{"a nonce forgotten sooner", "once", "j2.1", `UPDATE nonces SET expires_at = 7 WHERE ` + web},
		{"a nonce for other bytes", "once", "j4.1", `UPDATE nonces SET payload = 'x' WHERE job = 4`},
		{"a nonce of another request", "once", "j2.1", `UPDATE nonces SET job = 4 WHERE ` + web},
		{"a nonce that was not issued", "once", "j4.1", `INSERT INTO nonces(nonce, job, idx, payload, expires_at) VALUES('AAAAAAAAAAAAAAAAAAAAAA', 4, 1, 'x', 1)`},

		{"an approval without signatures", "signed-step", "j2.1", `DELETE FROM signatures`},
		{"signed by another", "signed-step", "j2.1", `UPDATE signatures SET principal = 'mallory'`},
		{"with another key", "signed-step", "j2.1", `UPDATE signatures SET key = 'SHA256:x'`},
		{"payload bytes changed", "signed-step", "j2.1", `UPDATE requests SET payload = CAST(replace(CAST(payload AS TEXT), '"reason":"test"', '"reason":"best"') AS BLOB) WHERE job = 2`},
		{"payload that is none", "signed-step", "j4.1", `UPDATE requests SET payload = x'7b7d' WHERE job = 4`},
		{"another target", "signed-step", "j4.1", `UPDATE steps SET name = 'web' WHERE job = 4`},
		{"another operation", "signed-step", "j4.1", `UPDATE steps SET op = 'guest.wipe' WHERE job = 4`},
		{"another incarnation", "signed-step", "j4.1", `UPDATE steps SET incarnation = 'x' WHERE job = 4`},
		{"another fingerprint", "signed-step", "j4.1", `UPDATE steps SET fingerprint = 'x' WHERE job = 4`},
		{"other parameters", "signed-step", "j4.1", `UPDATE steps SET params = '{"a":1}' WHERE job = 4`},
		{"lives longer than it was signed for", "signed-step", "j4.1", `UPDATE requests SET expires_at = expires_at + 1 WHERE job = 4`},
		{"its time ended without a restore", "signed-step", "j4.1", `UPDATE requests SET expires_at = 0 WHERE job = 4`},
		{"the time of what ran ended", "signed-step", "j2.1", `UPDATE requests SET expires_at = 0 WHERE job = 2`},
		{"the time of what was rejected ended", "signed-step", "j5.1", `UPDATE requests SET expires_at = 0 WHERE job = 5`},
		{"a step removed under its request", "database", "requests", `DELETE FROM steps WHERE job = 4`},
		{"no request", "signed-step", "j4.1", `DELETE FROM requests WHERE job = 4; DELETE FROM nonces WHERE job = 4`},

		{"job ended early", "jobs", "j4", `UPDATE jobs SET finished_at = 1 WHERE id = 4`},
		{"job not ended", "jobs", "j1", `UPDATE jobs SET finished_at = 0 WHERE id = 1`},

		{"an entry's text changed", "audit-log", "entry 2", `UPDATE audit SET body = CAST(replace(CAST(body AS TEXT), '"by"', '"bY"') AS BLOB) WHERE seq = 2`},
		{"an entry removed", "audit-log", "entry 3", `DELETE FROM audit WHERE seq = 3`},
		{"the newest cut off", "audit-log", "", `DELETE FROM audit WHERE seq = (SELECT max(seq) FROM audit)`},
		{"the head removed", "audit-log", "", `DELETE FROM audit_head`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := check(t, byHand(t, path, c.sql))
			require.False(t, r.Sound)
			hit := false
			for _, p := range r.Problems {
				hit = hit || string(p.Rule) == c.rule && (c.where == "" || p.Where == c.where)
				require.NotEmpty(t, p.Detail)
			}
			require.True(t, hit, "%+v", r.Problems)
			require.LessOrEqual(t, len(r.Problems), 4, "one change is not reported all over: %+v", r.Problems)
		})
	}
}

// TestForgedEntries breaks rules in the log itself, as an attacker would who can
// write entries with right hashes.
func TestForgedEntries(t *testing.T) {
	path := lived(t)
	entry := func(kind audit.Kind, step string) audit.Entry {
		return audit.Entry{Kind: kind, Step: step, Class: op.Destructive, Gate: testGate, Time: time.Unix(1, 0)}
	}
	for _, c := range []struct {
		name, rule string
		entries    []audit.Entry
	}{
		{"dispatched twice", "once", []audit.Entry{entry(audit.Dispatched, "j2.1"), entry(audit.Succeeded, "j2.1")}},
		{"to be run again", "once", []audit.Entry{entry(audit.Retried, "j2.1"), entry(audit.Succeeded, "j2.1")}},
		{"dispatched unsigned", "permit", []audit.Entry{entry(audit.Dispatched, "j4.1"), entry(audit.Requested, "j4.1")}},
		{"approved after its end", "decided", []audit.Entry{entry(audit.Approved, "j5.1"), entry(audit.Rejected, "j5.1")}},
		{"about no step", "audit-log", []audit.Entry{entry(audit.Planned, "x")}},
		{"made twice", "provenance", []audit.Entry{{Kind: audit.Succeeded, Incarnation: "db-3", Made: &audit.Made{Creator: "uid:7"}, Gate: testGate}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := check(t, withEntries(t, path, c.entries))
			require.False(t, r.Sound)
			require.EqualValues(t, c.rule, r.Problems[0].Rule, "%+v", r.Problems)
		})
	}
}

// TestAnIndexThatHidesARow: the rows are right and an index is not. Only a full
// check shows that.
func TestAnIndexThatHidesARow(t *testing.T) {
	r := check(t, byHand(t, lived(t), `PRAGMA writable_schema = ON;
		UPDATE sqlite_schema SET sql = replace(sql, '''planned'', ', '''succeeded'', ') WHERE name = 'steps_open'`))
	require.False(t, r.Sound)
	require.EqualValues(t, "database", r.Problems[0].Rule, "%+v", r.Problems)
}

func TestProblemsAreBounded(t *testing.T) {
	r := check(t, byHand(t, lived(t), `WITH RECURSIVE n(i) AS (VALUES(100) UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
		INSERT INTO jobs(id, reason, created_at) SELECT i, '', 1 FROM n`))
	require.Len(t, r.Problems, 1000)
}

// copied is a copy of a database that no program has open.
func copied(t *testing.T, path string) string {
	b := must.Get(os.ReadFile(path))(t)
	path = filepath.Join(t.TempDir(), "gated.db")
	require.NoError(t, os.WriteFile(path, b, 0o600))
	return path
}

// byHand changes a copy of a database as any program with its file can: without
// foreign keys and without the store.
func byHand(t *testing.T, path, statements string) string {
	path = copied(t, path)
	db := must.Get(sql.Open("sqlite", "file:"+path))(t)
	must.Get(db.Exec(statements))(t)
	require.NoError(t, db.Close())
	return path
}

// withEntries adds entries to the log of a copy, with right hashes and a right head.
func withEntries(t *testing.T, path string, entries []audit.Entry) string {
	path = copied(t, path)
	s := openStore(t, path)
	require.NoError(t, s.Update(t.Context(), func(tx *store.Tx) error {
		for _, e := range entries {
			if _, err := audit.Append(tx, e); err != nil {
				return err
			}
		}
		return audit.Seal(tx)
	}))
	require.NoError(t, s.Close())
	return path
}
