package life

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/host/state"
)

// cannotOpen says what to do about the database at path, or a backup of one,
// that does not open.
func cannotOpen(ctx context.Context, path string, err error) error {
	var tooNew *store.TooNewError
	if errors.As(err, &tooNew) {
		return refusal.New(refusal.SchemaTooNew, "the database %s has schema %d, and this gated knows %d", path,
			tooNew.Have, tooNew.Want).
			WithHint("%s", wayBack(ctx, path, tooNew.Want))
	}
	var refused *refusal.Refusal
	if errors.As(err, &refused) {
		return err
	}
	if store.DiskFull(err) {
		return refusal.New(refusal.Unavailable, "there is no room for the database %s: %v", path, err).
			WithHint("make room on that disk and start again; nothing was changed. What may go is yours to say: gated.db%s files, old backups",
				state.BeforeRestore)
	}
	hint := "gated restore FILE puts a backup in its place, and keeps it beside"
	if !errors.Is(err, store.ErrCorrupt) {
		hint = "see whether its disk works, and start again; if it is lost, " + hint
	}
	return refusal.New(refusal.Unavailable, "the database %s does not open: %v", path, err).WithHint("%s", hint)
}

// usable is a snapshot from before migrations that this program can read.
type usable struct {
	store.Before
	entries int64 // in its audit log
}

// wayBack says how to go on with a program that knows the schemas up to want: by
// the snapshot with the longest log that it can use, of those that are whole
// enough to be read.
func wayBack(ctx context.Context, path string, want int) string {
	const newer = "run the newer gated again"
	dir := filepath.Dir(path)
	best, found := snapshotFor(ctx, path, want)
	if !found {
		return fmt.Sprintf("%s; there is no copy from before its change in %s that this one could use. To go back, restore a backup that "+
			"was made with schema %d or before: gated restore FILE --state %s", newer, dir, want, dir)
	}
	return fmt.Sprintf("%s; or go back to the copy that it made before it changed the database, without %s: gated restore %s --state %s; "+
		"before the start compare gated trust show with what the newer gated showed, and put keys that must not count into the file of revoked keys",
		newer, lost(ctx, path, best.entries), best.Path, dir)
}

// snapshotFor finds the snapshot to go back to.
func snapshotFor(ctx context.Context, path string, want int) (best usable, found bool) {
	all, err := store.Snapshots(path)
	if err != nil {
		return usable{}, false // the hint does without
	}
	for _, b := range all {
		schema, n, err := logLength(ctx, b.Path)
		if err == nil && schema <= want && (!found || n >= best.entries) {
			best, found = usable{b, n}, true
		}
	}
	return best, found
}

// lost says what a copy with that many entries in its log lacks.
func lost(ctx context.Context, path string, have int64) string {
	_, now, err := logLength(ctx, path)
	switch {
	case err != nil || now < have:
		return "what was decided since"
	case now == have:
		return "anything missing (the audit log has no entry since)"
	default:
		return fmt.Sprintf("what was decided since (entries %d to %d of the audit log)", have+1, now)
	}
}

// logLength returns the schema of a database and the number of the newest entry
// of its audit log.
func logLength(ctx context.Context, path string) (schema int, n int64, err error) {
	err = store.Peek(ctx, path, func(have int, tx *store.Tx) error {
		schema = have
		return tx.QueryRow(`SELECT coalesce(max(seq), 0) FROM audit`).Scan(&n)
	})
	return schema, n, err
}
