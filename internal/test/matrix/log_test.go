package matrix_test

import (
	"bytes"
	"crypto/sha256"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/host/life"
	"gated/internal/test/must"
)

// tampered is a row in which whoever can write to the database changes the audit
// log with the daemon stopped. gated audit verify names the entry; afterwards
// the database is what it was.
func tampered(id, what, names string, change func(tx *store.Tx) error) attack {
	return attack{id: id, what: "the audit log: " + what, want: refusal.Conflict, run: func(w *world) error {
		w.destroyRequest()
		w.armUnlogged("it is the log that was changed")
		head := must.Get(w.gate.AuditHead(w.ctx))(w.t).Seq
		require.Greater(w.t, head, int64(6))
		w.shut()
		db := filepath.Join(w.dir, "gated.db")
		was := must.Get(os.ReadFile(db))(w.t)
		w.byHand(change)
		_, err := life.VerifyAudit(w.ctx, w.dir)
		require.ErrorContains(w.t, err, strings.ReplaceAll(names, "HEAD", strconv.FormatInt(head, 10)))
		if w.tryOpen() == nil {
			_, _ = w.submit(hub, ask("guest.stop", "bystander")) // the log goes on, or not
			w.shut()
		}
		w.free()
		must.Fail(life.VerifyAudit(w.ctx, w.dir))(w.t, refusal.Conflict, "the next entries cover it up")
		f, openErr := os.OpenFile(db, os.O_WRONLY|os.O_TRUNC, 0) // the same file: it is bound to its inode
		require.NoError(w.t, openErr)
		must.Get(f.Write(was))(w.t)
		require.NoError(w.t, f.Close())
		w.open()
		return err
	}}
}

var logRows = []attack{
	tampered("H07a", "an entry is altered", "audit entry 2: was altered", byHand(
		`UPDATE audit SET body = CAST(replace(CAST(body AS TEXT), 'uid:1000', 'uid:2000') AS BLOB) WHERE seq = 2`)),
	tampered("H07b", "an entry is altered, and its hash is made to fit", "audit entry 3", rewrite(2)),
	tampered("H07c", "an entry is removed", "audit entry 3: is missing", byHand(`DELETE FROM audit WHERE seq = 3`)),
	tampered("H07d", "an entry is removed, and the later ones move up", "audit entry 3", byHand(
		`DELETE FROM audit WHERE seq = 3`, `UPDATE audit SET seq = -seq WHERE seq > 3`, `UPDATE audit SET seq = -seq - 1 WHERE seq < 0`)),
	tampered("H07e", "two entries change places", "audit entry 3", byHand(
		`UPDATE audit SET seq = -3 WHERE seq = 3`, `UPDATE audit SET seq = 3 WHERE seq = 4`, `UPDATE audit SET seq = 4 WHERE seq = -3`)),
	tampered("H07f", "the newest entry is cut off", "audit entry HEAD", byHand(`DELETE FROM audit WHERE seq = (SELECT max(seq) FROM audit)`)),
	tampered("H07g", "an entry is added behind the head", "audit entry", byHand(
		`INSERT INTO audit(seq, body, hash) SELECT (SELECT max(seq) FROM audit) + 1, body, hash FROM audit WHERE seq = 1`)),
	tampered("H07h", "all entries are removed", "audit entry 1", byHand(`DELETE FROM audit`)),
}

// rewrite alters an entry and makes the hash over it fit, as whoever knows the
// format can.
func rewrite(seq int64) func(tx *store.Tx) error {
	return func(tx *store.Tx) error {
		var body []byte
		if err := tx.QueryRow(`SELECT body FROM audit WHERE seq = ?`, seq).Scan(&body); err != nil {
			return err
		}
		body = bytes.Replace(body, []byte("uid:1000"), []byte("uid:2000"), 1)
		sum := sha256.Sum256(body)
		return failure(tx.Exec(`UPDATE audit SET body = ?, hash = ? WHERE seq = ?`, body, sum[:], seq))
	}
}

// byHand runs statements as they are.
func byHand(statements ...string) func(tx *store.Tx) error {
	return func(tx *store.Tx) error {
		for _, s := range statements {
			if _, err := tx.Exec(s); err != nil {
				return err
			}
		}
		return nil
	}
}

// byHand changes the database while nothing else has it.
func (w *world) byHand(change func(tx *store.Tx) error) {
	w.t.Helper()
	//fsck:none each row ends with fsck
	s, err := store.Open(w.ctx, filepath.Join(w.dir, "gated.db"), store.Options{Migrations: life.Migrations(), Rehearse: true})
	require.NoError(w.t, err)
	require.NoError(w.t, s.Update(w.ctx, change))
	require.NoError(w.t, s.Close())
}
