package matrix_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/audit"
	"gated/internal/nonce"
	"gated/internal/test/must"
)

// snapshot is everything that a refused attack must leave as it was.
type snapshot struct {
	tree    map[string]string // path → what is there
	nonces  map[string]nonceRow
	pending map[op.RequestID]string // → digest of the payload
	seq     int64                   // of the audit log's newest entry
	signers string                  // the epoch and digest of the trust file
	held    []string                // who is registered and who holds what

	signed map[op.RequestID][]string // who signed what waits
}

type nonceRow struct {
	request op.RequestID
	fate    nonce.Fate
}

// ending is what an attack's refusal rightly does to a request.
type ending struct {
	state op.State
	fate  nonce.Fate
}

// expectations are a case's exceptions from "nothing changed".
type expectations struct {
	ends     map[op.RequestID]ending
	runs     bool          // an authorized step is left that rightly runs in the finale
	unlogged string        // why the audit log has no entry: there was no gate yet
	loggedAs refusal.Code  // the log's code, where the state that the case names is none
	finale   []string      // guests whose trees the finale rightly changes; nil is victim
	silent   bool          // no finale: nothing is left to approve
	trash    bool          // what the case's own job made may have gone to the trash
	tree     []string      // guests that a race may leave one way or the other; the case checks them
	anyFate  bool          // of nonces that the case checks itself
	takes    bool          // operators rightly take reservations from agents in the case, which checks them
	rotates  bool          // a rotation that was approved rightly runs in the case
	counted  bool          // a signature of the case rightly counts, and is not enough
	wait     time.Duration // between the approval and the run of the finale
	repair   func()        // takes back, before the finale, what an intruder did to the host
}

// ends says that the attack rightly ends a request, and what its nonce was
// spent on.
func (w *world) ends(id op.RequestID, s op.State, f nonce.Fate) {
	if w.allow.ends == nil {
		w.allow.ends = map[op.RequestID]ending{}
	}
	w.allow.ends[id] = ending{s, f}
}

// arm takes the snapshot: all before it is set-up, all after it the attack.
func (w *world) arm() {
	w.t.Helper()
	w.before = w.snap()
}

// armUnlogged is arm for an attack whose refusal is not in the log, and why.
func (w *world) armUnlogged(why string) {
	w.t.Helper()
	w.arm()
	w.allow.unlogged = why
}

// failure is the error of a call.
func failure[T any](_ T, err error) error { return err }

func (w *world) snap() *snapshot {
	w.t.Helper()
	s := &snapshot{tree: hashTree(w.t, w.root), nonces: w.nonceRows(), pending: map[op.RequestID]string{},
		signers: fmt.Sprintf("epoch %d, %s", w.gate.Epoch(), w.gate.Trust().Digest()), signed: map[op.RequestID][]string{},
		held: w.holdings()}
	rs := must.Get(w.gate.Requests(w.ctx, op.StatePending))(w.t)
	for _, r := range rs {
		s.pending[r.ID] = op.SHA256(r.Payload)
		for _, by := range slices.Concat(r.Signatures, r.Proofs) {
			s.signed[r.ID] = append(s.signed[r.ID], by.String())
		}
	}
	head := must.Get(w.gate.AuditHead(w.ctx))(w.t)
	s.seq = head.Seq
	return s
}

func (w *world) nonceRows() map[string]nonceRow {
	w.t.Helper()
	var out map[string]nonceRow
	require.NoError(w.t, w.store.View(w.ctx, func(tx *store.Tx) (err error) { out, err = readNonces(tx); return err }))
	return out
}

func readNonces(tx *store.Tx) (map[string]nonceRow, error) {
	out := map[string]nonceRow{}
	rows, err := tx.Query(`SELECT nonce, job, idx, fate FROM nonces`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var n string
		var r nonceRow
		if err := rows.Scan(&n, &r.request.Job, &r.request.Index, &r.fate); err != nil {
			return nil, err
		}
		out[n] = r
	}
	return out, rows.Err()
}

// keptOfProcess is what the driver keeps of a guest's process, beside its data.
var keptOfProcess = map[string]bool{".uids": true, "run.json": true, "log": true}

// hashTree describes every entry below root: type and mode, identity, content.
func hashTree(t testing.TB, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		if keptOfProcess[e.Name()] {
			return nil
		}
		st := info.Sys().(*syscall.Stat_t)
		what := ""
		switch {
		case info.Mode().IsRegular():
			what, err = hashFile(path)
		case info.Mode()&fs.ModeSymlink != 0:
			what, err = os.Readlink(path)
		}
		name, relErr := filepath.Rel(root, path)
		uid := st.Uid
		if uid >= 1<<30 {
			uid = uint32(os.Getuid()) // a guest's own (spareuids), since its first start
		}
		out[name] = fmt.Sprintf("%v uid %d inode %d %s", info.Mode(), uid, st.Ino, what)
		return errors.Join(err, relErr)
	}))
	return out
}

func hashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func (w *world) kept(tree map[string]string) map[string]string {
	if w.allow.trash {
		return outside(tree, w.allow.tree)
	}
	return tree
}

// uidRecord is the local driver's record of the uids that guests have. It grows
// with each guest that a row makes.
const uidRecord = ".uids"

// outside keeps the entries outside the named guests, the trash and the record of
// the guests' uids.
func outside(tree map[string]string, guests []string) map[string]string {
	out := map[string]string{}
	for path, what := range tree {
		first, _, _ := strings.Cut(path, "/")
		keep := first != ".trash" && first != uidRecord && first != "."
		for _, g := range guests {
			keep = keep && first != g
		}
		if keep {
			out[path] = what
		}
	}
	return out
}

// unchanged asserts that nothing but what the case allows is another than at arm.
func (w *world) unchanged() {
	w.t.Helper()
	after := w.snap()
	require.Equal(w.t, w.kept(w.before.tree), w.kept(after.tree), "the guests' files changed")
	if !w.allow.rotates {
		require.Equal(w.t, w.before.signers, after.signers, "the signers changed")
	}
	if !w.allow.takes {
		require.Equal(w.t, w.before.held, after.held, "agents or reservations changed")
	}
	for n, row := range w.before.nonces {
		want := row.fate
		if e, ok := w.allow.ends[row.request]; ok && row.fate == nonce.Unspent {
			want = e.fate
		}
		now, known := after.nonces[n]
		require.True(w.t, known, "the nonce of %s was forgotten", row.request)
		require.Equal(w.t, want, now.fate, "the fate of the nonce of %s", row.request)
	}
	for n, row := range after.nonces {
		if w.allow.anyFate {
			continue
		}
		if _, known := w.before.nonces[n]; !known {
			want := nonce.Unspent
			if e, ok := w.allow.ends[row.request]; ok && e.state != op.StatePending {
				want = e.fate
			} else if row.request.Job == 0 && len(w.allow.ends) > 0 {
				want = nonce.Used // a rejection's own
			}
			require.Equal(w.t, want, row.fate, "a nonce of %s was made and spent", row.request)
		}
	}
	for id, digest := range w.before.pending {
		r := w.reread(id)
		if e, ok := w.allow.ends[id]; ok {
			require.Equal(w.t, e.state, r.Step.State, "%s", id)
			continue
		}
		require.Equal(w.t, op.StatePending, r.Step.State, "%s no longer waits", id)
		require.Equal(w.t, digest, op.SHA256(r.Payload), "%s was issued anew", id)
		if !w.allow.counted {
			require.Equal(w.t, w.before.signed[id], after.signed[id], "a signature of %s counted, or counts no more", id)
		}
	}
}

// logged asserts that the audit log tells of the refusal.
func (w *world) logged(code refusal.Code) {
	w.t.Helper()
	if w.allow.unlogged != "" {
		return
	}
	if w.allow.loggedAs != "" {
		code = w.allow.loggedAs
	}
	es := must.Get(w.gate.Events(w.ctx, w.before.seq, 10000))(w.t)
	for _, e := range es {
		asked := e.Kind == audit.Requested || e.Kind == audit.Joined
		if e.Code == code || e.Kind == audit.Kind(code) || code == refusal.PendingSignature && asked {
			return
		}
	}
	require.Fail(w.t, "not in the audit log", "code %s, entries %+v", code, es)
}

// sound asserts what audit verify and fsck say.
func (w *world) sound() {
	w.t.Helper()
	require.NoError(w.t, w.store.View(w.ctx, func(tx *store.Tx) error {
		if _, err := audit.Verify(tx, nil); err != nil {
			return err
		}
		report, err := w.checker().Run(tx)
		if err == nil && !report.Sound {
			err = fmt.Errorf("fsck: %+v", report.Problems)
		}
		return err
	}))
}
