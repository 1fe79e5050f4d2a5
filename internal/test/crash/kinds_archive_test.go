package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gated/internal/base/store"
	"gated/internal/host/life"
	"gated/internal/log/audit"
)

// archivedSchema is a stored state whose history is older than the shortest retention.
const archivedSchema = 10

// archivedEntries is up to which entry its log is archived: the newest 10,000 entries stay.
const archivedEntries = 2 * audit.TileWidth

func archiveKinds() []kind {
	dir := filepath.Join(storedStates, fmt.Sprintf("schema-%d", archivedSchema))
	return []kind{{name: "archive", launches: true, alone: true, prepare: longAgo(dir), do: archive, check: archived}}
}

// longAgo puts a stored state in the bench's place, with as many old entries after its own that two tiles may go, and settings
// that ask for it. By its mark, the gate ran a minute ago.
func longAgo(dir string) func(context.Context, *bench, *cell) error {
	return func(ctx context.Context, b *bench, c *cell) error {
		if err := older(dir, archivedSchema)(ctx, b, c); err != nil {
			return err
		}
		b.checked.log.archives = true
		at := b.m().state
		conf := filepath.Join(at, "gated.yaml")
		if text := string(read(conf)); !strings.Contains(text, "\nretention:") {
			if err := os.WriteFile(conf, []byte(text+"\nretention: {after: 24h}\n"), 0o600); err != nil {
				return err
			}
		}
		if err := os.RemoveAll(filepath.Join(at, life.ArchiveName)); err != nil {
			return err
		}
		return fillLog(ctx, at)
	}
}

// fillLog appends entries with the time of the newest one, signs for them, and moves the time mark to now.
func fillLog(ctx context.Context, at string) error {
	key, err := life.ReadKey(filepath.Join(at, "gate.key"))
	if err != nil {
		return err
	}
	//fsck:none the checker runs fsck after each kill
	s, err := store.Open(ctx, filepath.Join(at, "gated.db"), store.Options{Migrations: life.Migrations()})
	if err != nil {
		return err
	}
	s.OnGroup(audit.Sealer{Gate: key.Gate(), Key: key.Signer}.Seal)
	err = s.Update(ctx, func(tx *store.Tx) error {
		head, err := audit.ReadHead(tx)
		if err != nil {
			return err
		}
		last, err := audit.After(tx, head.Seq-1, 1)
		if err != nil {
			return err
		}
		var more []audit.Entry
		for head.Seq+int64(len(more)) < archivedEntries+10_050 {
			more = append(more, audit.Entry{Kind: audit.Stopped, Time: last[0].Time, Gate: last[0].Gate})
		}
		if _, err = audit.Append(tx, more...); err == nil {
			_, err = tx.Exec(`UPDATE time_mark SET unix = ?, boot = '', elapsed = 0`, time.Now().Add(-time.Minute).Unix())
		}
		return err
	})
	return errors.Join(err, s.Close())
}

// archive starts the daemon and waits until all that may go is archived.
func archive(ctx context.Context, b *bench, _ *cell) error {
	if err := b.m().begin(); err != nil {
		return err
	}
	for {
		r, err := life.Archive(ctx, b.m().state, "", false)
		if err == nil && r.Bound == archivedEntries {
			return nil
		}
		if _, err := b.client().Status(ctx); b.answered(err) != nil {
			return errCut
		}
	}
}

// archived says what a start after a crash did not bring to its end, or lost.
func archived(ctx context.Context, b *bench, _ *cell) (wrong []string) {
	for {
		r, err := life.Archive(ctx, b.m().state, "", true)
		if err != nil || !r.Sound {
			return []string{fmt.Sprintf("the archive is not sound: %v %v", r, err)}
		}
		if r.Bound == archivedEntries {
			break
		}
		if _, err := b.client().Status(ctx); err != nil {
			return []string{fmt.Sprintf("archiving does not go on: %v %v", r, err)}
		}
	}
	if _, err := life.VerifyAudit(ctx, b.m().state); err != nil {
		wrong = append(wrong, "the audit log does not verify: "+err.Error())
	}
	if j, err := life.ShowJob(ctx, b.m().state, "", 1); err != nil || len(j.Rows["jobs"]) != 1 {
		wrong = append(wrong, fmt.Sprintf("the job j1 is not in its segment: %v", err))
	}
	if _, err := b.client().Job(ctx, "j1"); err == nil || !strings.Contains(err.Error(), "archived in segment") {
		wrong = append(wrong, fmt.Sprintf("the gate does not say that j1 is archived: %v", err))
	}
	left, err := filepath.Glob(filepath.Join(b.m().state, life.ArchiveName, "segment-*"))
	if err != nil || len(left) == 0 {
		wrong = append(wrong, "there is no segment file")
	}
	return wrong
}
