package fsck_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/test/mint"
)

// signedRows is a crowd's database in which tests forge rows. j5.1 waits with
// alice's signature. j6.1 is authorized by carol's certificate and frank's security
// key. j7.1 waits with alice's signature and the proofs of dave and erin. j8.1 came
// offline with alice's, and j9.1 was rejected with bob's.
func signedRows(t *testing.T) (c crowd, waiting []byte) {
	c = newCrowd(t)
	id := c.destroy("a")
	c.approve(id)
	b := c.destroy("b")
	c.send(b, c.certified(c.carol, "carol@example.com", c.request(b).Payload), c.by(c.frank, c.request(b).Payload))
	// A rotation of an operator takes two people because what operators may do takes
	// two.
	r := c.rotation(c.dave.Line("dave", asOperator), c.erin.Line("erin", asOperator))
	p := c.request(r).Payload
	c.approve(r)
	c.send(r, c.by(c.dave, p), c.by(c.erin, p))
	c.offline("c")
	d := c.destroy("d")
	c.send(d, c.by(c.bob, c.request(d).Payload))
	c.reject(d)
	require.Equal(t, int64(8), sound(t, c.path).Checked["signatures"])
	waiting = c.request(id).Payload
	require.NoError(t, c.store.Close())
	return c, waiting
}

// TestForgedSignatures changes or adds one row of a signature or a proof, or what
// people see with it.
func TestForgedSignatures(t *testing.T) {
	t.Parallel()
	c, waiting := signedRows(t)
	mallory := mint.Ed25519(t, "mallory")
	insert := func(job, principal, role string, k mint.Key, armor string) string {
		return `INSERT INTO signatures VALUES(` + strings.Join([]string{job, "1", "'" + principal + "'", "'" + role + "'", "'" + k.Fingerprint() + "'",
			"'" + armor + "'", "1", "''", "-1", "0", "x''", "0", "x''", "''", "''"}, ", ") + `)`
	}
	const frank, carol, proof = ` WHERE principal = 'frank'`, ` WHERE principal LIKE 'carol%'`, ` WHERE principal = 'dave'`
	for _, f := range []struct{ name, where, says, sql string }{
		{"bob never signed", "j5.1", "bob does not verify", insert("5", "bob", "operational", c.bob, "x")},
		{"bob with alice's", "j5.1", "bob does not verify", `INSERT INTO signatures SELECT job, idx, 'bob', role, 'SHA256:x', armor, at, ca, flags, counter, batch, leaf, path, origin, reason
			FROM signatures WHERE job = 5`},
		{"bob by mallory", "j5.1", "not those that count", insert("5", "bob", "operational", mallory, c.by(mallory, waiting))},
		{"bob's own signature, which was not counted", "j5.1", "not those that count", insert("5", "bob", "operational", c.bob, c.by(c.bob, waiting))},
		{"bob where he signed nothing", "j7.1", "bob does not verify", insert("7", "bob", "operational", c.bob, c.by(c.bob, waiting))},
		{"of what ended", "j9.1", "frank does not verify", insert("9", "frank", "operational", c.frank, "x")},
		{"counted no more", "j5.1", "not those that count", `DELETE FROM signatures WHERE job = 5`},
		{"under another name", "j5.1", "not those that count", `UPDATE signatures SET principal = 'bob' WHERE job = 5`},
		{"two in one row", "j5.1", "not those that count", `UPDATE signatures SET principal = principal || char(10) || 'bob' WHERE job = 5`},
		{"in another role", "j5.1", "alice does not verify", `UPDATE signatures SET role = 'recovery' WHERE job = 5`},
		{"by another key", "j5.1", "alice does not verify", `UPDATE signatures SET key = 'SHA256:x' WHERE job = 5`},
		{"in a certificate that is none", "j5.1", "alice does not verify", `UPDATE signatures SET ca = 'SHA256:x' WHERE job = 5`},
		{"flags of a software key", "j5.1", "alice does not verify", `UPDATE signatures SET flags = 5 WHERE job = 5`},

		{"armor cut off", "j6.1", "carol@example.com does not verify", `UPDATE signatures SET armor = substr(armor, 1, 100)` + carol},
		{"armor with one character changed", "j6.1", "frank does not verify", `UPDATE signatures SET armor = substr(armor, 1, 250) ||
			iif(substr(armor, 251, 1) = 'A', 'B', 'A') || substr(armor, 252)` + frank},
		{"another person's certificate", "j6.1", "does not verify", `UPDATE signatures SET principal = 'bob@example.com'` + carol},
		{"a certificate of another CA", "j6.1", "does not verify", `UPDATE signatures SET ca = 'SHA256:x'` + carol},
		{"a certificate kept as a plain key", "j6.1", "does not verify", `UPDATE signatures SET ca = ''` + carol},
		{"touched and verified", "j6.1", "attested something else", `UPDATE signatures SET flags = 5` + frank},
		{"another counter", "j6.1", "attested something else", `UPDATE signatures SET counter = 7` + frank},
		{"touched on a page", "j6.1", "attested something else", `UPDATE signatures SET origin = 'https://console.example.com'` + frank},
		{"a page that had a software key sign", "j5.1", "do not decode", `UPDATE signatures SET origin = 'https://console.example.com' WHERE job = 5`},
		{"flags forgotten", "j6.1", "not those that the log names", `UPDATE signatures SET flags = -1, counter = 0` + frank},
		{"flags out of range", "j6.1", "do not decode", `UPDATE signatures SET flags = 257` + frank},
		{"payload changed under its signatures", "j6.1", "does not verify", `UPDATE requests SET payload = CAST(replace(CAST(payload AS TEXT), '"test"', '"best"') AS BLOB) WHERE job = 6`},

		{"a proof that is none", "j7.1", "proof by the key", `UPDATE proofs SET armor = 'x'` + proof},
		{"a proof in another role", "j7.1", "proof by the key", `UPDATE proofs SET role = 'recovery'` + proof},
		{"a proof by another key", "j7.1", "proof by the key", `UPDATE proofs SET key = 'SHA256:x'` + proof},
		{"a proof of another person's", "j7.1", "not those that count", `UPDATE proofs SET principal = 'mallory'` + proof},
		{"a proof removed", "j7.1", "not those that count", `DELETE FROM proofs` + proof},
		{"a proof for a signature", "j7.1", "not those that count", `INSERT INTO signatures SELECT job, idx, principal, role, key, armor, at, '', -1, 0, x'', 0, x'', '', '' FROM proofs` + proof},
		{"a signature for a proof", "j5.1", "not those that count", `INSERT INTO proofs SELECT job, idx, principal, role, key, armor, at FROM signatures WHERE job = 5;
			DELETE FROM signatures WHERE job = 5`},
		{"a proof where nothing rotates", "j5.1", "not those that count", `INSERT INTO proofs SELECT job, idx, principal, role, key, armor, at FROM signatures WHERE job = 5`},

		{"labels that are none", "j5.1", "labels do not decode", `UPDATE requests SET labels = '[]' WHERE job = 5`},
		{"fewer facts", "j5.1", "facts or labels are not", `UPDATE requests SET facts = '[{"label":"x","value":"y"}]' WHERE job = 5`},
		{"other labels", "j5.1", "facts or labels are not", `UPDATE requests SET labels = '{"a":"b"}' WHERE job = 5`},
		{"a payload of today", "j5.1", "not the one that the log says was issued", `UPDATE requests SET payload = CAST(replace(CAST(payload AS TEXT), '"test"', '"best"') AS BLOB) WHERE job = 5`},
		{"no operator's own payload", "j5.1", "whether an operator's own payload", `UPDATE requests SET offline = 1 WHERE job = 5`},
		{"an operator's own payload", "j8.1", "whether an operator's own payload", `UPDATE requests SET offline = 0 WHERE job = 8`},
		{"brought by another requester", "j8.1", "whether an operator's own payload", `UPDATE requesters SET source = 'api' WHERE job = 8`},
	} {
		t.Run(f.name, func(t *testing.T) {
			r := check(t, byHand(t, c.path, f.sql))
			require.False(t, r.Sound)
			said := false
			for _, p := range r.Problems {
				require.Equal(t, f.where, p.Where, "%+v", r.Problems)
				said = said || p.Rule == "signed-step" && strings.Contains(p.Detail, f.says)
			}
			require.True(t, said, "%+v", r.Problems)
			require.LessOrEqual(t, len(r.Problems), 4, "%+v", r.Problems)
		})
	}
}

// TestForgedRowThatWasCounted: a row was forged while its request waited. fsck finds
// it before the next signature and, if the gate counted it, afterwards too.
func TestForgedRowThatWasCounted(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	id := c.destroy("a")
	c.approve(id)
	r := c.send(id, c.by(c.bob, c.request(id).Payload))
	require.Equal(t, op.StateAuthorized, r.Step.State)
	require.NoError(t, c.store.Close())
	// The log names both, as it would if the gate had counted the row.
	report := check(t, byHand(t, c.path, `UPDATE signatures SET armor = 'x' WHERE principal = 'bob'`))
	require.Len(t, report.Problems, 1)
	require.Contains(t, report.Problems[0].Detail, "the signature of bob does not verify")
}
