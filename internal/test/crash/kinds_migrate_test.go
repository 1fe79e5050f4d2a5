package crash

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/host/life"
	"gated/internal/host/state"
)

// storedStates is where the states are that released programs left.
const storedStates = "../../host/daemon/testdata"

// migrations are the first starts on databases of older schemas.
func migrations() (all []kind) {
	for schema := 1; schema < len(life.Migrations()); schema++ {
		dir := filepath.Join(storedStates, fmt.Sprintf("schema-%d", schema))
		if _, err := os.Stat(dir); err != nil {
			continue // no release had it; internal/host/daemon knows which are to be there
		}
		all = append(all, kind{name: fmt.Sprintf("migrate from schema %d", schema), launches: true, alone: true, prepare: older(dir, schema),
			do: launch, recover: migrated, check: kept(dir)})
	}
	return all
}

// older puts a stored state in the place of the bench's, and binds it to this
// machine as if it had always been here.
func older(dir string, schema int) func(context.Context, *bench, *cell) error {
	return func(ctx context.Context, b *bench, _ *cell) error {
		if b.m().cmd != nil {
			b.m().finish()
		}
		b.another()
		at := b.m().state
		for _, pattern := range []string{"gated.db*", "gate.key*"} {
			old, err := filepath.Glob(filepath.Join(at, pattern))
			for _, path := range old {
				err = errors.Join(err, os.Remove(path))
			}
			if err != nil {
				return err
			}
		}
		text, err := unpacked(filepath.Join(dir, "gated.db.gz"))
		if err != nil {
			return err
		}
		err = errors.Join(os.WriteFile(filepath.Join(at, "gated.db"), text, 0o600),
			os.WriteFile(filepath.Join(at, "allowed_signers"), read(filepath.Join(dir, "allowed_signers")), 0o600))
		if key, missing := os.ReadFile(filepath.Join(dir, "gate.key")); missing == nil { // since its heads are signed
			err = errors.Join(err, os.WriteFile(filepath.Join(at, "gate.key"), key, 0o600))
		}
		if err != nil {
			return err
		}
		return bind(ctx, at, schema)
	}
}

func unpacked(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

// bind binds the database of a schema to its file, under the id that it has.
func bind(ctx context.Context, at string, schema int) error {
	dir, err := state.Open(at, state.Options{})
	if err != nil {
		return err
	}
	//fsck:none the checker runs fsck after each kill
	s, err := store.Open(ctx, dir.Database(), store.Options{Migrations: life.Migrations()[:schema]})
	if err != nil {
		return errors.Join(err, dir.Close())
	}
	var id op.GateID
	err = s.View(ctx, func(tx *store.Tx) error { return tx.QueryRow(`SELECT gate FROM gate_identity`).Scan(&id) })
	if err == nil {
		err = dir.Bind(ctx, s, state.Identity{Gate: id, Host: "pve1"})
	}
	return errors.Join(err, s.Close(), dir.Close())
}

// migrated looks at the database, which may be of an older schema yet, and starts
// the daemon.
func migrated(ctx context.Context, b *bench, _ *cell) error {
	r, err := life.Fsck(ctx, b.m().state)
	if err != nil && !errors.Is(err, refusal.Unavailable) {
		return err
	}
	if len(r.Problems) > 0 {
		return fmt.Errorf("not sound: %v", r.Problems)
	}
	return b.m().begin()
}

// kept says what of a stored state is not as its programs left it, or what they
// spent can be spent again.
func kept(dir string) func(context.Context, *bench, *cell) []string {
	return func(ctx context.Context, b *bench, _ *cell) (wrong []string) {
		// What waited is about a guest that is not here.
		for id, want := range map[string]op.State{"j5": op.StateSucceeded, "j6": op.StateRejected, "j7": op.StateSuperseded} {
			j, err := b.client().Job(ctx, id)
			if err != nil || j.State != want && (id != "j7" || j.State != op.StatePending) {
				wrong = append(wrong, fmt.Sprintf("%s is %s, not %s: %v", id, j.State, want, err))
			}
		}
		e := api.EnvelopeOf(read(filepath.Join(dir, "spent.json")), string(read(filepath.Join(dir, "spent.json.sig"))))
		_, err := b.client().SubmitSigned(ctx, e)
		wrong = append(wrong, checkReplay("j5.1", err)...)
		if _, err := life.VerifyAudit(ctx, b.m().state); err != nil {
			wrong = append(wrong, "the audit log does not verify: "+err.Error())
		}
		left, err := filepath.Glob(filepath.Join(b.m().state, "gated.db.pre-*"))
		if err != nil || len(left) == 0 {
			wrong = append(wrong, "there is no copy from before the migration")
		}
		for _, path := range left {
			if !strings.HasSuffix(path, ".tmp") {
				wrong = append(wrong, intact(ctx, path)...)
			}
		}
		return wrong
	}
}
