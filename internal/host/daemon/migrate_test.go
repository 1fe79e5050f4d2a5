package daemon_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hiddeco/sshsig"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/gate"
	"gated/internal/host/life"
	"gated/internal/host/signers"
	"gated/internal/host/state"
	"gated/internal/nonce"
	"gated/internal/people/policy"
	"gated/internal/test/must"
)

// firstStored is the oldest schema that any release had: the identity came
// before the first one.
const firstStored = 2

// firstSigned is the first of them of which the gate signs the head of its log.
const firstSigned = 7

// between are the schemas that no release had: their migrations came together
// with a later one.
var between = map[int]bool{5: true, 6: true, 9: true}

// stored is the directory of a database that the programs of then left:
// testdata/stored.sh makes them.
func stored(schema int) string { return filepath.Join("testdata", fmt.Sprintf("schema-%d", schema)) }

// What stored.sh did, in its order.
const (
	storedRan      = "j5.1" // signed and run
	storedRejected = "j6.1"
	storedWaits    = "j7.1"
)

// storedEpochs is the epoch of the list of signers by schema; from before there
// were any, the first start takes the file over.
func storedEpochs(schema int) int64 {
	if schema < 3 {
		return 1
	}
	return 3
}

// place puts the stored state of a schema into the world's directory, bound to
// this machine and file as if it had always been here.
func (w *world) place(schema int) op.GateID {
	w.t.Helper()
	require.NoError(w.t, os.Mkdir(w.state, 0o700))
	names := []string{"allowed_signers", "gated.yaml"}
	if schema >= firstSigned {
		names = append(names, "gate.key")
	}
	for _, name := range names {
		text := read(w.t, filepath.Join(stored(schema), name))
		require.NoError(w.t, os.WriteFile(filepath.Join(w.state, name), []byte(text), 0o600))
	}
	packed := must.Get(os.Open(filepath.Join(stored(schema), "gated.db.gz")))(w.t)
	defer packed.Close()
	z := must.Get(gzip.NewReader(packed))(w.t)
	text := must.Get(io.ReadAll(z))(w.t)
	require.NoError(w.t, os.WriteFile(w.database(), text, 0o600))
	require.Equal(w.t, schema, w.schema(w.database()))
	key := must.Get(os.ReadFile(filepath.Join(stored(schema), "alice")))(w.t)
	w.signer = must.Get(ssh.ParsePrivateKey(key))(w.t)
	return w.bind(schema)
}

// bind binds the database of a schema anew under the id that it has.
func (w *world) bind(schema int) (id op.GateID) {
	w.t.Helper()
	dir := must.Get(state.Open(w.state, state.Options{}))(w.t)
	//fsck:none it is brought to today's schema, and checked then
	s := must.Get(store.Open(w.t.Context(), w.database(), store.Options{Migrations: life.Migrations()[:schema]}))(w.t)
	require.NoError(w.t, s.View(w.t.Context(), func(tx *store.Tx) error { return tx.QueryRow(`SELECT gate FROM gate_identity`).Scan(&id) }))
	require.NoError(w.t, dir.Bind(w.t.Context(), s, state.Identity{Gate: id, Host: testHost}))
	require.NoError(w.t, s.Close())
	require.NoError(w.t, dir.Close())
	return id
}

func (w *world) schema(path string) (version int) {
	w.t.Helper()
	require.NoError(w.t, store.Peek(w.t.Context(), path, func(schema int, _ *store.Tx) error {
		version = schema
		return nil
	}))
	return version
}

// eachStored runs a test with a world in which the state of each released schema
// is. A migration that is added makes what was the newest schema one of those.
func eachStored(t *testing.T, fn func(t *testing.T, w *world, schema int, id op.GateID)) {
	for schema := firstStored; schema < len(life.Migrations()); schema++ {
		if between[schema] {
			require.NoDirExists(t, stored(schema))
			continue
		}
		t.Run(fmt.Sprint("schema ", schema), func(t *testing.T) {
			require.DirExists(t, stored(schema), "make it: testdata/stored.sh COMMIT, with the last commit that had this schema")
			w := newWorld(t)
			fn(t, w, schema, w.place(schema))
		})
	}
}

// TestEveryStoredDatabaseStarts with the daemon of today: it is brought up to
// date, nothing of it is lost, and what it was before can be gone back to.
func TestEveryStoredDatabaseStarts(t *testing.T) {
	eachStored(t, func(t *testing.T, w *world, schema int, id op.GateID) {
		// What only reads says that a start is needed.
		_, err := life.Fsck(t.Context(), w.state)
		refused(t, err, refusal.Unavailable, fmt.Sprintf("schema %d", schema), "gated serve")
		must.Fail(life.TrustHistory(t.Context(), w.state))(t, refusal.Unavailable)
		must.Fail(life.VerifyAudit(t.Context(), w.state))(t, refusal.Unavailable)
		signers, before := read(t, w.signers()), w.bodies(w.database())

		w.serve()
		require.Equal(t, id, w.status().Gate)
		require.EqualValues(t, storedEpochs(schema), w.status().Epoch)
		require.Equal(t, signers, read(t, w.signers()))
		w.states(map[string]op.State{storedRan: op.StateSucceeded, storedRejected: op.StateRejected})
		w.halt()
		w.whole()
		require.Contains(t, w.log.String(), fmt.Sprintf(`from schema"=%d to=%d "copy of before"=%s.pre-%d`,
			schema, len(life.Migrations()), w.database(), schema+1))
		require.Equal(t, len(life.Migrations()), w.schema(w.database()))
		after := w.bodies(w.database())
		require.Equal(t, before, after[:len(before)], "the log goes on, and is as it was")

		pre := fmt.Sprintf("%s.pre-%d", w.database(), schema+1)
		all := must.Get(store.Snapshots(w.database()))(t)
		require.Equal(t, []store.Before{{Path: pre, Version: schema + 1}}, all, "one, of what was there")
		require.Equal(t, schema, w.schema(pre))
		require.Equal(t, before, w.bodies(pre))
		r := must.Get(life.CheckBackup(t.Context(), pre, "", func(int64) {}))(t)
		require.Equal(t, id, r.Gate)

		back := must.Get(life.Restore(t.Context(), pre, w.state))(t)
		require.EqualValues(t, storedEpochs(schema), back.Trust.Epoch)
		w.whole()
		w.serve()
		w.states(map[string]op.State{storedRan: op.StateSucceeded, storedRejected: op.StateRejected})
		require.Equal(t, op.StateSucceeded, w.submit(ask("guest.create", "new")).State)
		w.halt()
		w.whole()
	})
}

// states asserts how requests stand.
func (w *world) states(want map[string]op.State) {
	w.t.Helper()
	for id, state := range want {
		r := must.Get(w.client.Request(w.t.Context(), id))(w.t, id)
		require.Equal(w.t, state, r.State, id)
	}
}

// bodies reads the bodies of a database's audit log.
func (w *world) bodies(path string) (bodies []string) {
	w.t.Helper()
	require.NoError(w.t, store.Peek(w.t.Context(), path, func(_ int, tx *store.Tx) error {
		rows, err := tx.Query(`SELECT body FROM audit ORDER BY seq`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var body []byte
			if err := rows.Scan(&body); err != nil {
				return err
			}
			bodies = append(bodies, string(body))
		}
		return rows.Err()
	}))
	require.NotEmpty(w.t, bodies)
	return bodies
}

// TestWhatAStoredDatabaseKnowsOfSigners is kept by a restore before any start, of
// a backup by today's gated, and of one that is older than the database.
func TestWhatAStoredDatabaseKnowsOfSigners(t *testing.T) {
	eachStored(t, func(t *testing.T, w *world, schema int, id op.GateID) {
		file := w.file("backup", read(t, w.database()))
		r, err := life.Restore(t.Context(), file, w.state)
		require.NoError(t, err)
		require.Empty(t, r.Trust.Why)
		if schema < 3 {
			require.Equal(t, signers.RestoredTrust{Of: signers.SignersFile}, r.Trust)
			w.serve() // which takes the file over
			w.halt()
			r = must.Get(life.Restore(t.Context(), file, w.state))(t)
			require.Equal(t, signers.SignersKept, r.Trust.Of, "the backup has no list")
			require.EqualValues(t, 1, r.Trust.Epoch)
			_, err = life.RestoreWith(t.Context(), w.state, life.Restoring{File: file, Signers: true})
			refused(t, err, refusal.BadParams, "without --signers-of-backup")
		} else {
			require.Equal(t, signers.RestoredTrust{Of: signers.SignersSame, Epoch: 3, Backup: 3, Replaced: 3}, r.Trust)
		}
		w.whole()
	})
}

// looks is a host on which one guest is as it was when it was stored.
type looks struct{ guest op.Observed }

func (l *looks) Observe(context.Context, op.Look) (op.Observed, error) { return l.guest, nil }

// storedGate is the gate of an opened store at the time at which it was stored.
func (w *world) storedGate(s *store.Store, id op.GateID, epoch int64, host op.Observer) *gate.Gate {
	w.t.Helper()
	trust := must.Get(authz.LoadTrust([]byte(read(w.t, w.signers()))))(w.t)
	c := gate.Config{Store: s, Observer: host, Host: testHost, ID: id, Trust: trust, Epoch: epoch, Policy: policy.Default()}
	require.NoError(w.t, s.View(w.t.Context(), func(tx *store.Tx) error {
		mark, ok, err := nonce.ReadMark(tx)
		require.True(w.t, ok)
		if err == nil {
			c.Clock, err = nonce.LoadClock(tx, func() nonce.Reading {
				return nonce.Reading{Wall: mark.Wall.Add(time.Minute), Elapsed: time.Hour, Boot: "later"}
			})
		}
		return err
	}))
	return must.Get(gate.New(c))(w.t)
}

// signed is an envelope by one key.
func signed(t *testing.T, key ssh.Signer, payload []byte) authz.Envelope {
	t.Helper()
	sig := must.Get(sshsig.Sign(bytes.NewReader(payload), key, sshsig.HashSHA512, op.Operational.Namespace()))(t)
	return authz.Envelope{Payload: payload, Signatures: []string{string(sshsig.Armor(sig))}}
}

// TestWhatWaitsInAStoredDatabase is approved by who may, at the time at which it
// was stored, and what was spent stays spent.
func TestWhatWaitsInAStoredDatabase(t *testing.T) {
	me := op.Requester{Source: op.SourceAPI}
	eachStored(t, func(t *testing.T, w *world, schema int, id op.GateID) {
		//fsck:none init has it watched
		s := must.Get(store.Open(t.Context(), w.database(), store.Options{Migrations: life.Migrations()}))(t)
		host := &looks{}
		g := w.storedGate(s, id, storedEpochs(schema), host)
		step := must.Get(op.ParseStepID(storedWaits))(t)
		waits := must.Get(g.Request(t.Context(), step))(t)
		require.Equal(t, op.StatePending, waits.Step.State)
		host.guest = op.Observed{Target: waits.Step.Target, Present: true, Incarnation: waits.Step.Incarnation,
			Fingerprint: waits.Step.Fingerprint, Running: "running"}

		ran := must.Get(op.ParseStepID(storedRan))(t)
		spent := authz.Envelope{Payload: []byte(read(t, filepath.Join(stored(schema), "spent.json"))),
			Signatures: []string{read(t, filepath.Join(stored(schema), "spent.json.sig"))}}
		must.Fail(g.Approve(t.Context(), me, ran, spent))(t, refusal.Replayed)
		must.Fail(g.ApproveOffline(t.Context(), me, spent))(t, refusal.Replayed)
		must.Err(g.Approve(t.Context(), me, step, spent))(t)

		_, err := g.Approve(t.Context(), me, step, signed(t, w.person("mallory").signer, waits.Payload))
		require.ErrorIs(t, err, refusal.UnknownSigner)
		approved := must.Get(g.Approve(t.Context(), me, step, signed(t, w.signer, waits.Payload)))(t)
		require.Equal(t, op.StateAuthorized, approved.Step.State)
		permit := must.Get(g.Permit(t.Context(), step))(t)
		require.NoError(t, permit.Use(t.Context(), host.guest))
		require.Error(t, permit.Use(t.Context(), host.guest), "once")
		require.NoError(t, s.Close())
	})
}
