package fsck_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/gate"
	"gated/internal/host/fsck"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
	"gated/internal/test/must"
)

// TestWhatIsFound changes a database in which every table has rows. Each case names
// the code that fsck must report.
func TestWhatIsFound(t *testing.T) {
	t.Parallel()
	path := everything(t)
	for _, c := range []struct {
		code  fsck.Code
		where string
		sql   string
	}{
		{"schema-unknown", "trigger rewrites", `CREATE TRIGGER rewrites AFTER INSERT ON signatures BEGIN UPDATE signatures SET principal = 'alice'; END`},
		{"schema-unknown", "view seen", `CREATE VIEW seen AS SELECT * FROM jobs`},
		{"schema-unknown", "table more", `CREATE TABLE more(x)`},
		{"schema-unknown", "index jobs_reason", `CREATE INDEX jobs_reason ON jobs(reason)`},
		{"schema-missing", "index agents_token", `DROP INDEX agents_token`},
		{"schema-missing", "table canary", `DROP TABLE canary`},
		{"schema-missing", "table nonces", `DROP TABLE nonces`},
		{"schema-changed", "table reservations", `PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, 'CHECK (due_at <= expires_at)', 'CHECK (1)') WHERE name = 'reservations'`},
		{"row-invalid", "reservations", `PRAGMA ignore_check_constraints = 1; UPDATE reservations SET due_at = expires_at + 1`},
		{"unreadable", "reservations", `UPDATE reservations SET keep = 2`},

		{"head-unreadable", "signed head", `UPDATE audit_head SET note = 'x'`},
		{"head-unsigned", "signed head", `UPDATE audit_head SET note = ''`},
		{"key-changed", "gate " + string(testGate), `UPDATE audit_key SET public = 'x'`},
		{"key-lost", "gate " + string(testGate), `DELETE FROM audit_key`},
		{"key-unknown", "gate y", `INSERT INTO audit_key VALUES('y', 'x')`},

		{"gate-not-newest", "gate 11111111111111111111111111111111", `UPDATE gate_identity SET gate = '11111111111111111111111111111111'`},
		{"payload-other-host", "j2.1", `UPDATE gate_identity SET host = 'pve2'`},

		{"answer-without-job", "uid:1000", `UPDATE idempotency SET job = 99 WHERE job > 0`},
		{"answer-unclear", "uid:1000", `UPDATE idempotency SET job = 0`},
		{"answer-unclear", "uid:1000", `UPDATE idempotency SET code = 'conflict'`},
		{"set-changed", "set web", `UPDATE desired_sets SET body = x'00' WHERE name = 'web'`},
		{"set-changed", "set web", `UPDATE desired_sets SET etag = 'x' WHERE name = 'web'`},
		{"set-unknown", "set more", `INSERT INTO desired_sets SELECT 'more', etag, body, updated_at FROM desired_sets WHERE name = 'web'`},
		{"set-lost", "set web", `DELETE FROM desired_sets WHERE name = 'web'`},
		{"step-words", "j1.1", `UPDATE steps SET why = 'nothing of value' WHERE job = 1`},
		{"step-words", "j1.1", `UPDATE steps SET rule = 'create' WHERE job = 1`},
		{"incident-lost", "j11.1", `DELETE FROM incidents WHERE job = 11`},
		{"incident-unknown", "j5.1", `INSERT INTO incidents SELECT 5, 1, at, reviewed_by, reviewed_at FROM incidents WHERE job = 11`},
		{"incident-changed", "j11.1", `UPDATE incidents SET reviewed_by = '' WHERE job = 11`},
		{"incident-changed", "j14.1", `UPDATE incidents SET reviewed_by = 'j13.1' WHERE reviewed_by = ''`},
		{"incident-changed", "j11.1", `UPDATE incidents SET at = at - 120000000000 WHERE job = 11`},
		{"rejection-lost", "j9.1", `DELETE FROM rejections`},
		{"rejection-unknown", "j5.1", `INSERT INTO rejections SELECT 5, 1, who, caller, wish, reason, principal, words, at FROM rejections`},
		{"rejection-unknown", "j9.1", `UPDATE rejections SET who = 'uid:77'`},
		{"rejection-changed", "j9.1", `UPDATE rejections SET caller = 'uid:77'`},
		{"rejection-changed", "j9.1", `UPDATE rejections SET principal = 'bob'`},
		{"rejection-changed", "j9.1", `UPDATE rejections SET at = at + 120000000000`},
		{"rejection-changed", "j9.1", `UPDATE rejections SET at = at - 120000000000`},
		{"rejection-changed", "j9.1", `UPDATE requesters SET reason = 'x' WHERE job = 9`},
		{"output-changed", "j16.1", `UPDATE outputs SET text = 'nothing of value' WHERE idx = 1`},
		{"output-unknown", "j1.1", `INSERT INTO outputs VALUES(1, 1, 'nothing of value')`},
		{"output-lost", "j16.2", `DELETE FROM outputs`},
		{"nonce-fate", "j0.0", `UPDATE nonces SET fate = 'forgotten' WHERE job = 0`},
		{"nonce-fate", "j2.1", `UPDATE nonces SET fate = 'expired' WHERE fate IN ('rejected', 'cancelled', 'superseded')`},
	} {
		r := check(t, byHand(t, path, c.sql))
		found := false
		for _, p := range r.Problems {
			found = found || p.Code == c.code && (p.Where == c.where || c.where == "j2.1")
			require.NotEmpty(t, p.Rule, "%s has no rule", p.Code)
		}
		require.True(t, found, "%s: %+v", c.sql, r.Problems)
	}
}

// TestGateIDs: only a restore or an accepted clock begins another gate id, and no
// gate id begins again.
func TestGateIDs(t *testing.T) {
	path := lived(t)
	entry := func(kind audit.Kind, gate op.GateID) audit.Entry { return audit.Entry{Kind: kind, Gate: gate} }
	const next = op.GateID("11111111111111111111111111111111")
	for _, c := range []struct {
		entries []audit.Entry
		want    []fsck.Code
	}{
		{[]audit.Entry{entry(audit.Restored, next)}, nil},
		{[]audit.Entry{entry(audit.TimeAccepted, next), entry(audit.Started, next), {Kind: audit.Stopped}}, nil},
		{[]audit.Entry{entry(audit.Started, next)}, []fsck.Code{"gate-unexplained"}},
		{[]audit.Entry{entry(audit.Restored, next), entry(audit.Restored, testGate)}, []fsck.Code{"gate-reused"}},
		{[]audit.Entry{entry(audit.Keyed, testGate), entry(audit.Keyed, testGate)}, []fsck.Code{"key-lost", "head-unsigned"}},
		{[]audit.Entry{{Kind: audit.DesiredPut, Gate: testGate, Parts: audit.Parts{Set: audit.Set{Name: "web"}}}},
			[]fsck.Code{"entry-unclear"}},
	} {
		var got []fsck.Code
		for _, p := range check(t, withEntries(t, path, c.entries)).Problems {
			// The waiting request has a payload of the old id. A restore ends its time, and
			// these entries alone do not.
			if p.Code != "payload-other-gate" {
				got = append(got, p.Code)
			}
		}
		require.Equal(t, c.want, got)
	}
}

// TestListedSigners: fsck reports a counted signature if the list did not have its
// signer then. It does not if the signer was removed later.
func TestListedSigners(t *testing.T) {
	c := newCrowd(t)
	id := c.destroy("a")
	c.approve(id)
	c.send(id, c.by(c.bob, c.request(id).Payload))
	sound(t, c.path)

	text := []byte(c.ca.Line("*@example.com", "cert-authority,"+asOperator)) // neither of them
	next := must.Get(authz.LoadTrust(text))(t)
	require.NoError(t, c.store.Update(t.Context(), func(tx *store.Tx) error {
		return journal.AddTrust(tx, journal.TrustVersion{Epoch: 2, Text: text, How: "test", At: c.wall})
	}))
	require.NoError(t, c.gate.Log(t.Context(), gate.RotatedEntry("test", authz.Rotation{Trust: next}, journal.TrustVersion{Epoch: 2})))
	sound(t, c.path)         // both were listed then
	c.pass(10 * time.Second) // decisions by the old list have ended by then
	other := c.destroy("b")
	c.approve(other) // this gate has the old list, and should not have counted it
	require.NoError(t, c.store.Close())
	r := check(t, c.path)
	require.Len(t, r.Problems, 1, "%+v", r.Problems)
	require.Equal(t, fsck.Code("signer-not-listed"), r.Problems[0].Code)
	require.Equal(t, other.String(), r.Problems[0].Where)
}

// TestEntriesThatRowsContradict: entries with right hashes that no gate writes.
func TestEntriesThatRowsContradict(t *testing.T) {
	path := everything(t)
	const next = op.GateID("11111111111111111111111111111111")
	reissued := audit.Entry{Kind: audit.Reissued, Step: "j8.1", Job: "j8", Class: op.Destructive, Gate: testGate}
	for code, entries := range map[fsck.Code][]audit.Entry{
		"head-foreign": {{Kind: audit.Restored, Gate: next},
			{Kind: audit.Keyed, Gate: next, Parts: audit.Parts{HeadKey: "x"}}},
		"offline-reissued": {reissued},
	} {
		var got []fsck.Code
		for _, p := range check(t, withEntries(t, path, entries)).Problems {
			got = append(got, p.Code)
		}
		require.Contains(t, got, code)
	}
}
