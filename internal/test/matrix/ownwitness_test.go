package matrix_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/stretchr/testify/require"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/refusal"
	"gated/internal/host/life"
	"gated/internal/log/witness"
	"gated/internal/test/must"
)

// relayed is a row in which something between opsign and the gate answers for
// the gate. earlier is what the gate showed before the operator saw it last.
func relayed(id, what string, want refusal.Code, between func(w *world, earlier witness.Shown) relay) attack {
	return attack{id: id, what: "a relay between opsign and the gate " + what, want: want, run: func(w *world) error {
		w.keyed()
		w.destroyRequest()
		earlier := must.Get(gateLog{w}.Head(w.ctx))(w.t)
		w.works()
		d := w.operators()
		seen := w.sees(d)
		w.works()
		w.armUnlogged("it is the operator's opsign that refuses")
		r := between(w, earlier)
		r.log = gateLog{w}
		err := w.asks(d, r)
		kept := must.Get(d.Remembered(w.gate.ID()))(w.t)
		require.Equal(w.t, seen.Note, kept.Head.Note, "what is remembered is what it was")
		require.NoError(w.t, w.asks(d, gateLog{w}), "the gate itself is believed")
		return err
	}}
}

// remembering is a row in which the operator's own file, or its directory, is
// not as opsign left it.
func remembering(id, what string, want refusal.Code, change func(w *world, d witness.Dir, file string)) attack {
	return attack{id: id, what: "of what an operator remembers " + what, want: want, run: func(w *world) error {
		w.keyed()
		d := w.operators()
		w.sees(d)
		w.works()
		w.armUnlogged("it is the operator's opsign that refuses")
		file := d.File(w.gate.ID())
		change(w, d, file)
		was := hashTree(w.t, d.Path)
		err := w.asks(d, gateLog{w})
		delete(was, ".")
		now := hashTree(w.t, d.Path)
		require.Equal(w.t, was, outside(now, nil), "it is left as it is, for whoever looks into it")
		return err
	}}
}

// copyOfState is the machine's disk at a moment: the database with its log, and
// the key.
func (w *world) copyOfState() (goBack func()) {
	w.t.Helper()
	w.shut()
	was := map[string][]byte{}
	for _, name := range []string{"gated.db", "gate.key"} {
		was[name] = must.Get(os.ReadFile(filepath.Join(w.dir, name)))(w.t)
	}
	w.open()
	return func() {
		w.shut()
		for name, text := range was {
			w.overwrite(filepath.Join(w.dir, name), text)
		}
		w.open()
	}
}

var ownWitnessRows = []attack{
	{id: "X54", what: "proofs are asked for at sizes that there are not, to have the gate fail or prove what is not so", want: refusal.BadParams,
		bare: true, run: func(w *world) error {
			w.today()
			w.keyed()
			w.destroyRequest()
			w.armUnlogged("what is only read is not logged")
			log := w.daemon()
			head := must.Get(log.Head(w.ctx))(w.t).Seq
			var last error
			for _, c := range [][2]int64{{0, head}, {0, 0}, {head + 1, head + 2}, {head, head + 1000}, {2, 1}, {1, 1 << 62}, {1, 1<<63 - 1}} {
				_, last = log.Consistency(w.ctx, c[0], c[1])
				require.ErrorIs(w.t, last, refusal.BadParams, "%v", c)
			}
			for _, seq := range []int64{0, head + 1, 1 << 62} {
				must.Fail(log.Inclusion(w.ctx, seq))(w.t, refusal.UnknownTarget, "%d", seq)
			}
			for _, n := range []int64{-1, -1 << 63} {
				must.Fail(log.Inclusion(w.ctx, n))(w.t, refusal.Malformed)
				must.Fail(log.Consistency(w.ctx, n, head))(w.t, refusal.Malformed)
			}
			require.NoError(w.t, w.shows(w.operators(), log), "and it goes on")
			log.halt()
			w.open()
			return last
		}},
	{id: "X55", what: "two operators are shown two logs, each whole, signed with the stolen key, and each goes on", want: refusal.BindingMismatch, run: func(w *world) error {
		w.keyed()
		w.destroyRequest()
		alices, bobs := w.operators(), w.operators()
		w.armUnlogged("it is the operators' opsign that refuses")
		putBack := w.whileStopped(func() { w.byHand(w.resigned(otherCaller(4))) })
		w.open()
		w.sees(bobs)
		w.works()
		w.sees(bobs)
		export := must.Get(witness.Export(*must.Get(bobs.Remembered(w.gate.ID()))(w.t)))(w.t)
		putBack()
		for range 3 { // so that it is longer than the other
			w.sees(alices)
			w.works()
		}
		records := must.Get(witness.ParseExport(export))(w.t)
		checked := must.Get(alices.Check(w.ctx, witness.Gate{ID: w.gate.ID(), Host: testHost, Address: socketAddress}, gateLog{w}))(w.t)
		found := must.Get(witness.Compare(w.ctx, checked, records, gateLog{w}))(w.t)
		require.Len(w.t, found, 1)
		require.Equal(w.t, witness.NoProof, found[0].Why)
		return w.asks(bobs, gateLog{w})
	}},
	relayed("X56a", "answers with an older head, so that what was done since is not seen", refusal.BindingMismatch, func(_ *world, earlier witness.Shown) relay {
		return relay{head: func(witness.Shown) witness.Shown { return earlier }}
	}),
	relayed("X56b", "answers with the head of more entries than there are", refusal.BadSignature, func(*world, witness.Shown) relay {
		return relay{head: func(s witness.Shown) witness.Shown {
			s.Note, s.Seq = strings.Replace(s.Note, fmt.Sprintf("\n%d\n", s.Seq), fmt.Sprintf("\n%d\n", s.Seq+100), 1), s.Seq+100
			return s
		}}
	}),
	relayed("X56c", "signs the head of a log of its own with a key of its own, as that gate", refusal.BindingMismatch, func(w *world, _ witness.Shown) relay {
		evil := another(w.t, w.gate.ID())
		return relay{head: func(witness.Shown) witness.Shown {
			return witness.Shown{Seq: 1000, Key: evil.Public, Note: headOf(w.t, evil, w.gate.ID(), 1000)}
		}}
	}),
	relayed("X56d", "shows the true key beside a head that another key signed", refusal.BadSignature, func(w *world, _ witness.Shown) relay {
		evil := another(w.t, w.gate.ID())
		return relay{head: func(s witness.Shown) witness.Shown { s.Note = headOf(w.t, evil, w.gate.ID(), s.Seq); return s }}
	}),
	relayed("X56e", "shows the true head of another gate under this one's id", refusal.TargetMismatch, func(w *world, _ witness.Shown) relay {
		evil := another(w.t, strangeGate)
		return relay{head: func(s witness.Shown) witness.Shown {
			return witness.Shown{Seq: s.Seq, Key: evil.Public, Note: headOf(w.t, evil, strangeGate, s.Seq)}
		}}
	}),
	relayed("X56f", "replays a proof between two other sizes", refusal.BindingMismatch, func(w *world, earlier witness.Shown) relay {
		old := must.Get(gateLog{w}.Consistency(w.ctx, 2, earlier.Seq))(w.t)
		return relay{proof: func([]string) []string { return old }}
	}),
	relayed("X56g", "answers with no proof, with half of one, with one of a thousand hashes", refusal.BindingMismatch, func(w *world, _ witness.Shown) relay {
		return relay{proof: func(p []string) []string { return append(p, strings.Split(strings.Repeat(p[0]+" ", 1000), " ")...) }}
	}),
	relayed("X56h", "leaves the signed head out, as an older gate would", refusal.BindingMismatch, func(*world, witness.Shown) relay {
		return relay{head: func(s witness.Shown) witness.Shown { s.Note, s.Key = "", ""; return s }}
	}),
	relayed("X56i", "says that there are entries beyond what is signed for, to have them believed", refusal.BindingMismatch, func(*world, witness.Shown) relay {
		return relay{head: func(s witness.Shown) witness.Shown { s.Seq += 3; return s }}
	}),
	{id: "X57", what: "the machine goes back between the operator's look and the approval, to before a request was issued anew", want: refusal.BindingMismatch,
		run: func(w *world) error {
			w.keyed()
			r := w.destroyRequest()
			d := w.operators()
			w.sees(d)
			goBack := w.copyOfState()
			guarded(w)
			w.again()
			w.sees(d)
			e := w.envelopeOf(w.reread(r.ID)) // of what is there now, which is protected
			goBack()
			w.edit(`"protected":true`, `"protected":false`, "victim", "guest.json")
			w.arm()
			require.ErrorContains(w.t, w.asks(d, gateLog{w}), witness.Shorter.String(), "nothing more is signed")
			return w.send(r.ID, e)
		}},
	{id: "X58", what: "the machine goes back to before an approval was spent, guest and all; then it is restored under a new id, as opsign says", want: refusal.TargetMismatch,
		bare: true, run: func(w *world) error {
			w.today()
			w.keyed()
			d := w.operators()
			r := w.destroyRequest()
			w.sees(d)
			goBack := w.copyOfState()
			e := w.envelopeOf(r)
			require.NoError(w.t, w.send(r.ID, e))
			require.NoError(w.t, w.runAll())
			w.sees(d)
			w.do("guest.undelete", "victim")
			goBack()
			require.ErrorContains(w.t, w.asks(d, gateLog{w}), witness.Shorter.String())
			file := filepath.Join(w.t.TempDir(), "backup")
			require.NoError(w.t, w.store.Snapshot(w.ctx, file))
			w.shut()
			must.Get(life.Restore(w.ctx, file, w.dir))(w.t)
			w.open()
			w.arm()
			require.ErrorIs(w.t, w.sendOffline(e), refusal.TargetMismatch)
			return w.send(r.ID, e)
		}},
	remembering("X59a", "the file is cut off in the middle of a line", refusal.Malformed, func(w *world, _ witness.Dir, file string) {
		require.NoError(w.t, os.Truncate(file, 100))
	}),
	remembering("X59b", "the file is empty, as if nothing had ever been seen", refusal.Malformed, func(w *world, _ witness.Dir, file string) {
		require.NoError(w.t, os.Truncate(file, 0))
	}),
	remembering("X59c", "the head's number of entries is made smaller", refusal.Malformed, func(w *world, _ witness.Dir, file string) {
		seq := must.Get(gateLog{w}.Head(w.ctx))(w.t).Seq - 1
		text := strings.Replace(string(must.Get(os.ReadFile(file))(w.t)), fmt.Sprintf(`\n%d\n`, seq), `\n1\n`, 1)
		require.Contains(w.t, text, `\n1\n`)
		require.NoError(w.t, os.WriteFile(file, []byte(text), 0o600))
	}),
	remembering("X59d", "the file is a link to another that says less", refusal.NotAllowed, func(w *world, _ witness.Dir, file string) {
		require.NoError(w.t, os.Rename(file, file+".moved"))
		require.NoError(w.t, os.Symlink(file+".moved", file))
	}),
	remembering("X59e", "the file is a pipe, so that opsign waits for ever", refusal.NotAllowed, func(w *world, _ witness.Dir, file string) {
		require.NoError(w.t, os.Remove(file))
		require.NoError(w.t, syscall.Mkfifo(file, 0o600))
	}),
	remembering("X59f", "the file may be written by others", refusal.NotAllowed, func(w *world, _ witness.Dir, file string) {
		require.NoError(w.t, os.Chmod(file, 0o662))
	}),
	remembering("X59g", "the directory is everybody's, so that anybody could have put the file there", refusal.NotAllowed, func(w *world, d witness.Dir, _ string) {
		require.NoError(w.t, os.Chmod(d.Path, 0o777))
	}),
	remembering("X59h", "the file is that of another gate, renamed", refusal.Malformed, func(w *world, d witness.Dir, file string) {
		text := strings.ReplaceAll(string(must.Get(os.ReadFile(file))(w.t)), string(w.gate.ID()), string(strangeGate))
		require.NoError(w.t, os.WriteFile(file, []byte(text), 0o600))
	}),
	{id: "X60", what: "the operator is told that the gate was restored, forgets it, meets the new id, and then the old one comes back, cut", want: refusal.BindingMismatch,
		run: func(w *world) error {
			w.keyed()
			w.destroyRequest()
			goBack := w.copyOfState()
			w.works()
			d := w.operators()
			w.sees(d)
			known := client.KnownGates{Path: filepath.Join(w.t.TempDir(), "config", "known_gates")}
			at := must.Get(client.ParseAddress(socketAddress))(w.t)
			must.Get(known.Check(at, api.Status{Gate: w.gate.ID(), Host: testHost}))(w.t)
			impostor := api.Status{Gate: strangeGate, Host: testHost}
			must.Fail(known.Check(at, impostor))(w.t, refusal.TargetMismatch, "it is not met by itself")
			must.Get(known.Forget(at))(w.t)
			require.True(w.t, must.Get(known.Check(at, impostor))(w.t))
			_, err := known.Check(at, api.Status{Gate: w.gate.ID(), Host: testHost})
			require.ErrorIs(w.t, err, refusal.TargetMismatch, "nor is the way back")
			must.Get(known.Forget(at))(w.t)
			require.True(w.t, must.Get(known.Check(at, api.Status{Gate: w.gate.ID(), Host: testHost}))(w.t))
			goBack()
			w.armUnlogged("it is the operator's opsign that refuses")
			return w.asks(d, gateLog{w})
		}},
	{id: "X61", what: "sixteen opsign of one operator at once, every other one through a relay that shows an older head, to have that remembered", want: refusal.BindingMismatch,
		run: func(w *world) error {
			w.keyed()
			earlier := must.Get(gateLog{w}.Head(w.ctx))(w.t)
			w.destroyRequest()
			d := w.operators()
			seen := w.sees(d)
			w.armUnlogged("it is the operator's opsign that refuses")
			stale := relay{log: gateLog{w}, head: func(witness.Shown) witness.Shown { return earlier }}
			errs := make([]error, 16)
			var all sync.WaitGroup
			for i := range errs {
				all.Go(func() {
					if i%2 == 0 {
						errs[i] = w.asks(d, stale)
					} else {
						errs[i] = w.asks(d, gateLog{w})
					}
				})
			}
			all.Wait()
			for i, err := range errs {
				if i%2 == 0 {
					require.ErrorIs(w.t, err, refusal.BindingMismatch)
				} else {
					require.NoError(w.t, err)
				}
			}
			kept := must.Get(d.Remembered(w.gate.ID()))(w.t)
			require.Equal(w.t, seen.Note, kept.Head.Note)
			require.Len(w.t, kept.Contradictions, 1, "one evidence, not eight")
			return errs[0]
		}},
	{id: "X61b", what: "the log is rewritten by hand while an opsign that saw it asks: head of one, proof of the other", want: refusal.BindingMismatch, run: func(w *world) error {
		d := w.witnessed()
		w.works()
		w.armUnlogged("it is the operator's opsign that refuses")
		var putBack func()
		err := w.asks(d, swapping{gateLog{w}, func() {
			putBack = w.whileStopped(func() { w.byHand(w.resigned(otherCaller(4))) })
			w.open()
		}})
		putBack()
		return err
	}},
}

// swapping exchanges the log after its head was shown and before it is proved.
type swapping struct {
	gateLog
	swap func()
}

// Consistency implements witness.Log.
func (s swapping) Consistency(ctx context.Context, old, size int64) ([]string, error) {
	s.swap()
	return s.gateLog.Consistency(ctx, old, size)
}
