package matrix_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/host/life"
	"gated/internal/log/audit"
	"gated/internal/log/checkpoint"
	"gated/internal/log/witness"
	"gated/internal/test/must"
)

// witnessed has a log with a signed head, a request that waits, and an operator's directory that remembers the head.
func (w *world) witnessed() witness.Dir {
	w.t.Helper()
	w.keyed()
	w.destroyRequest()
	d := w.operators()
	w.sees(d)
	return d
}

// rewritten is a row in which the whole log is made anew while the daemon is
// stopped, so that it agrees with itself, by somebody who has gate.key. The
// operator who saw a head of it is asked to sign next.
func rewritten(id, what string, edit func(texts []string) []string, more bool) attack {
	return attack{id: id, what: "the log is made anew and signed with the stolen key: " + what, want: refusal.BindingMismatch, run: func(w *world) error {
		d := w.witnessed()
		w.armUnlogged("it is the operator's opsign that refuses")
		putBack := w.whileStopped(func() { w.byHand(w.resigned(edit)) })
		w.open()
		w.wholeAgain()
		if more {
			w.works()
			w.wholeAgain()
		}
		err := w.asks(d, gateLog{w})
		require.ErrorIs(w.t, w.asks(d, gateLog{w}), refusal.BindingMismatch, "and again: nothing was learnt from it")
		putBack()
		require.NoError(w.t, w.asks(d, gateLog{w}), "the log that is the gate's goes on")
		return err
	}}
}

// unstarted is a row in which the files of the gate's key are not what they were
// while the daemon is stopped.
func unstarted(id, what string, change func(w *world)) attack {
	return attack{id: id, what: "while the daemon is stopped, " + what, want: refusal.Unavailable, run: func(w *world) error {
		w.keyed()
		w.settle()
		w.destroyRequest()
		w.armUnlogged("it does not start")
		putBack := w.whileStopped(func() { change(w) })
		w.free()
		err := serveAt(w)
		require.ErrorContains(w.t, err, "the gate's own key cannot be used")
		putBack()
		return err
	}}
}

// another is a key that is not the gate's, for any gate.
func another(t testing.TB, id op.GateID) checkpoint.Key { return must.Get(checkpoint.NewKey(id))(t) }

const strangeGate = op.GateID("00112233445566778899aabbccddeeff")

// headOf makes a signed head of any log.
func headOf(t testing.TB, k checkpoint.Key, gate op.GateID, size int64) string {
	c := checkpoint.Checkpoint{Gate: gate, Size: size}
	c.Root[7] = 9
	return must.Get(c.Sign(k))(t)
}

var ownLogRows = []attack{
	rewritten("X49a", "who asked for something is somebody else; as long as it was", otherCaller(4), false),
	rewritten("X49b", "who asked for something is somebody else; and the gate goes on", otherCaller(4), true),
	rewritten("X49c", "the newest entries are gone", func(texts []string) []string { return texts[:len(texts)-2] }, false),
	rewritten("X49d", "the first entry is gone, and others are behind it", func(texts []string) []string { return append(texts[1:], texts[2], texts[3]) }, true),
	{id: "X50", what: "who has no key makes the log anew and takes its tree and its signed head away, so that the gate itself plants and signs it",
		want: refusal.BindingMismatch, run: func(w *world) error {
			d := w.witnessed()
			w.armUnlogged("it is the operator's opsign that refuses")
			putBack := w.whileStopped(func() { w.byHand(remake(otherCaller(4))) })
			w.open()
			require.False(w.t, w.fsck().Sound, "the gate has a key, and signed nothing")
			w.works()
			w.wholeAgain()
			err := w.asks(d, gateLog{w})
			putBack()
			return err
		}},
	unstarted("X51a", "gate.key is exchanged for another one of the same gate id", func(w *world) {
		w.overwrite(w.keyFile(), []byte(another(w.t, w.signsFor()).Text()))
	}),
	unstarted("X51b", "gate.key is exchanged for that of another gate", func(w *world) {
		w.overwrite(w.keyFile(), []byte(another(w.t, strangeGate).Text()))
	}),
	unstarted("X51c", "gate.key is taken away, so that the gate makes itself another", func(w *world) {
		require.NoError(w.t, os.Remove(w.keyFile()))
	}),
	unstarted("X51d", "gate.key is a link to where it was moved", func(w *world) {
		require.NoError(w.t, os.Rename(w.keyFile(), w.keyFile()+".moved"))
		require.NoError(w.t, os.Symlink("gate.key.moved", w.keyFile()))
	}),
	unstarted("X51e", "the row of the key is that of another key", func(w *world) {
		w.byHand(byHand(`UPDATE audit_key SET public = '` + another(w.t, w.signsFor()).Public + `'`))
	}),
	{id: "X51f", what: "gate.key and the row of the key are exchanged together: the gate starts and signs with a key of the intruder's", want: refusal.BindingMismatch,
		run: func(w *world) error {
			d := w.witnessed()
			w.armUnlogged("it is the operator's opsign that refuses")
			was, evil := w.key, another(w.t, w.signsFor())
			putBack := w.whileStopped(func() {
				w.overwrite(w.keyFile(), []byte(evil.Text()))
				w.byHand(byHand(`UPDATE audit_key SET public = '`+evil.Public+`'`, `UPDATE audit_head SET note = ''`))
			})
			w.key = evil
			w.open()
			w.works()
			w.wholeAgain()
			require.False(w.t, w.fsck().Sound, "the log names another key")
			err := w.asks(d, gateLog{w})
			require.ErrorContains(w.t, err, witness.OtherKey.String())
			w.key = was
			putBack()
			return err
		}},
	{id: "X51g", what: "gate.key and its row are gone, as after a restore: the gate makes itself a new key under its old id", want: refusal.BindingMismatch,
		bare: true, run: func(w *world) error {
			w.today()
			d := w.witnessed()
			w.armUnlogged("it is the operator's opsign that refuses")
			putBack := w.whileStopped(func() {
				require.NoError(w.t, os.Remove(w.keyFile()))
				w.byHand(byHand(`DELETE FROM audit_key`, `UPDATE audit_head SET note = ''`))
			})
			log := w.daemon()
			err := w.shows(d, log)
			require.ErrorContains(w.t, err, witness.OtherKey.String())
			log.halt()
			w.open()
			require.False(w.t, w.fsck().Sound, "a gate id has one key for ever")
			putBack()
			return err
		}},
	{id: "X52a", what: "the signed head is one of another gate, whose key is added: audit verify opens it with that", want: reported, run: func(w *world) error {
		d := w.witnessed()
		w.armUnlogged("it is the log that was changed")
		evil := another(w.t, strangeGate)
		putBack := w.whileStopped(func() {
			w.byHand(byHand(`INSERT INTO audit_key(gate, public) VALUES('` + string(strangeGate) + `', '` + evil.Public + `')`))
			w.byHand(func(tx *store.Tx) error {
				if err := remake(otherCaller(4))(tx); err != nil {
					return err
				}
				return audit.Sealer{Gate: strangeGate, Key: evil.Signer}.Seal(tx)
			})
		})
		w.open()
		w.wholeAgain()
		require.ErrorIs(w.t, w.asks(d, gateLog{w}), refusal.TargetMismatch, "nor does it prove anything to an operator")
		report := w.fsck()
		putBack()
		return foundBy(report, "head-foreign", "key-unknown")
	}},
	{id: "X52b", what: "the edge of the tree is that of a shorter log, so that what follows is signed for another past", want: refusal.Conflict,
		run: func(w *world) error {
			d := w.witnessed()
			w.armUnlogged("it is the log that was changed")
			putBack := w.whileStopped(func() { w.byHand(byHand(`UPDATE audit_head SET edge = substr(edge, 33)`)) })
			w.open()
			w.works()
			require.ErrorIs(w.t, w.asks(d, gateLog{w}), refusal.BindingMismatch, "the gate signs for it no more")
			w.shut()
			_, err := life.VerifyAudit(w.ctx, w.dir)
			putBack()
			return err
		}},
	{id: "X52c", what: "the edge has as many hashes as it should, and other ones: the gate signs a root of which there is no log", want: refusal.BindingMismatch,
		run: func(w *world) error {
			d := w.witnessed()
			w.armUnlogged("it is the operator's opsign that refuses")
			putBack := w.whileStopped(func() { w.byHand(byHand(`UPDATE audit_head SET edge = randomblob(length(edge))`)) })
			w.open()
			w.works()
			err := w.asks(d, gateLog{w})
			require.ErrorContains(w.t, err, witness.NoProof.String())
			w.shut()
			must.Fail(life.VerifyAudit(w.ctx, w.dir))(w.t, refusal.Conflict)
			putBack()
			return err
		}},
	{id: "X53", what: "while the daemon runs, another process appends an entry that says that a request was approved", want: refusal.Unavailable,
		run: func(w *world) error {
			w.keyed()
			r := w.destroyRequest()
			w.armUnlogged("it is the log that was changed")
			putBack := w.whileStopped(func() {})
			w.open()
			w.byHand(func(tx *store.Tx) error {
				_, err := audit.Append(tx, audit.Entry{Time: w.now(), Kind: audit.Approved, By: "uid:1000", Gate: w.gate.ID(), Job: r.ID.Job.String(),
					Step: r.ID.String(), Op: r.Step.Op, Target: r.Step.Target.String(), Payload: op.SHA256(r.Payload), Signers: []string{"alice@example.com"}})
				return err
			})
			_, err := w.approve(r)
			require.ErrorIs(w.t, w.gate.Reload(w.ctx, w.revoked, w.rules), refusal.Unavailable, "nothing is signed over it")
			w.restart()
			w.works()
			require.Equal(w.t, op.StatePending, w.stepOf(r.ID).State, "what waits still waits")
			must.Err(w.gate.Permit(w.ctx, r.ID))(w.t)
			require.ErrorIs(w.t, foundBy(w.fsck()), reported)
			putBack()
			return err
		}},
}

// foundBy is what fsck found, where it is at least that.
func foundBy(r life.FsckReport, codes ...string) error {
	if r.Sound {
		return nil
	}
	all := ""
	for _, p := range r.Problems {
		all += string(p.Code) + " "
	}
	for _, c := range codes {
		if !strings.Contains(all, c) {
			return refusal.New(refusal.Internal, "fsck found %s and not %s", all, c)
		}
	}
	return reported
}
