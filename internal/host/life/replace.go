package life

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gated/internal/authz"
	"gated/internal/base/crashpoint"
	"gated/internal/base/hostgate"
	"gated/internal/base/op"
	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/host/signers"
	"gated/internal/host/state"
	"gated/internal/log/journal"
)

// replaceDatabase keeps the database under a name of its own and puts fresh in
// its place, and returns that name, "" if there was none. Cut off in between, it
// leaves no database, which nothing starts on; Restore looks then at the one
// that was put aside.
func replaceDatabase(path, fresh string) (kept string, err error) {
	old, err := keptName(path)
	if err != nil {
		return "", err
	}
	if exists(path) || store.HasLog(path) {
		kept = old
	}
	if err := moveAside(path, old); err != nil {
		return "", err
	}
	crashpoint.Here(crashpoint.RestoreEmpty)
	if err := os.Rename(fresh, path); err != nil {
		return "", fmt.Errorf("put the backup in place (the old database is %s): %w", old, err)
	}
	crashpoint.Here(crashpoint.RestorePlaced)
	return kept, ownfile.SyncDir(filepath.Dir(path))
}

// moveAside renames a database, its log and the log's index, where they are. The
// database goes before its log, without which it would start as if the newest
// decisions had never been; and the log before the new database, to which SQLite
// would apply it.
func moveAside(path, kept string) error {
	for _, suffix := range []string{"", "-wal", "-shm"} {
		err := os.Rename(path+suffix, kept+suffix)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("keep the old database: %w", err)
		}
		crashpoint.Here(crashpoint.RestoreAside)
	}
	return nil
}

// unused returns path, or path with the first number that makes it a name that
// neither a database nor a log of one has.
func unused(path string) (string, error) {
	for i, name := 2, path; ; i++ {
		taken := false
		for _, suffix := range []string{"", "-wal", "-shm"} {
			_, err := os.Lstat(name + suffix)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return "", err
			}
			taken = taken || err == nil
		}
		if !taken {
			return name, nil
		}
		name = path + "-" + strconv.Itoa(i)
	}
}

// keptName returns the name under which a database is put aside: a new one, or
// that of the database whose log is still here, since a restore was cut off
// between the two.
func keptName(path string) (string, error) {
	free, err := unused(path + state.BeforeRestore)
	if err != nil || exists(path) || !store.HasLog(path) {
		return free, err
	}
	last, err := newestKept(path, func(name string) bool { return !store.HasLog(name) })
	if err != nil || last == "" {
		return free, err
	}
	return last, nil
}

// newestKept returns the name of the database that was put aside last, of those
// that may be it, and "" if there is none. Its number does not say: a name is
// used again when somebody took its file away. When it was renamed does.
func newestKept(path string, may func(name string) bool) (last string, err error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	at := time.Time{}
	for _, e := range entries {
		number, kept := strings.CutPrefix(e.Name(), filepath.Base(path)+state.BeforeRestore)
		if !kept || number != "" && (number[0] != '-' || strings.Trim(number[1:], "0123456789") != "") {
			continue
		}
		name := filepath.Join(filepath.Dir(path), e.Name())
		info, err := os.Lstat(name)
		if err != nil {
			return "", err
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok || !may(name) {
			continue
		}
		if renamed := time.Unix(st.Ctim.Unix()); last == "" || renamed.After(at) {
			last, at = name, renamed
		}
	}
	return last, nil
}

// finishAside has the log of a database that was put aside follow it, where a
// restore was cut off between the two: without it the database lacks its newest
// entries. It returns the database's name, "" if there was nothing to do.
func finishAside(path string) (kept string, err error) {
	if exists(path) || !store.HasLog(path) {
		return "", nil
	}
	kept, err = keptName(path)
	if err != nil || !exists(kept) {
		return "", err // a log alone: its database is lost
	}
	return kept, moveAside(path, kept)
}

// exists reports whether a name is taken, or may be.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// copyDatabase copies a database, with the log beside it that has the newest
// entries of one that was put aside, to a name that nothing has. What is no
// ordinary file is BadParams: beside a symbolic link there would be no log.
func copyDatabase(from, to string) error {
	for _, suffix := range []string{"", "-wal"} {
		err := copyNew(from+suffix, to+suffix)
		if err != nil && (suffix == "" || !errors.Is(err, fs.ErrNotExist)) {
			return refusal.New(refusal.BadParams, "the backup %s cannot be read: %v", from, err)
		}
	}
	return nil
}

// openOrdinary opens an ordinary file to read; a symbolic link, a directory or
// a pipe is an error, and never waited for.
func openOrdinary(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, syscall.ELOOP) {
		return nil, fmt.Errorf("%s is a symbolic link: name the file itself", path)
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not an ordinary file", path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// copyNew copies an ordinary file to one that must not exist, 0600 and on disk.
func copyNew(from, to string) error {
	in, err := openOrdinary(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}

// lookBack reads what the database at path says of signers. If there is none, it
// reads the one that was put aside last: a restore was cut off between taking it
// away and putting another in its place, or the database is lost, and then that
// one still knows of keys that were removed. It does not ask the copy that such a
// restore had made ready: that may be the backup as it was copied.
func lookBack(ctx context.Context, path string) (signers.Former, error) {
	if !exists(path) {
		aside, err := newestKept(path, func(string) bool { return true })
		if err != nil || aside == "" {
			return signers.Former{}, err
		}
		path = aside
	}
	return signers.ReadFormer(ctx, path, len(Migrations())), nil
}

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
	if r := inLedger(path, err); r != nil {
		return r
	}
	if store.DiskFull(err) {
		return refusal.New(refusal.Unavailable, "there is no room for the database %s: %v", path, err).
			WithHint("make room on that disk (df -h) and start again; nothing was changed. What may go is yours to say: gated.db%s files, old backups",
				state.BeforeRestore)
	}
	hint := "a restore puts a backup in its place, and keeps it beside:\n" + hostgate.Host{}.Restore(filepath.Dir(path))
	switch {
	case !errors.Is(err, store.ErrCorrupt):
		hint = "see whether its disk works, and start again; if it is lost, " + hint
	case store.Blank(path):
		hint = state.NeverRan + "; if there was a database, " + hint
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

// TrustVersion is one version of the list of signers.
type TrustVersion struct {
	Epoch  int64
	Digest string // SHA-256 of Text, lower-case hex
	How    string // what made it: init, a step, an adoption
	At     time.Time
	Text   []byte

	// Listed are its lines; nil if this version of gated cannot read them.
	Listed []authz.Listed
}

// TrustHistory returns every version of the list of signers in a state
// directory, oldest first; at least one. It only reads, and works beside a
// running daemon.
func TrustHistory(ctx context.Context, stateDir string) (out []TrustVersion, err error) {
	o, err := look(ctx, stateDir)
	if err != nil {
		return nil, err
	}
	var all []journal.TrustVersion
	err = o.Store.View(ctx, func(tx *store.Tx) error {
		all, err = journal.Trusts(tx)
		return err
	})
	if err = errors.Join(err, o.Close()); err != nil {
		return nil, err
	}
	for _, v := range all {
		t := TrustVersion{Epoch: v.Epoch, Digest: op.SHA256(v.Text), How: v.How, At: v.At, Text: v.Text}
		if loaded, err := authz.LoadTrust(v.Text); err == nil {
			t.Listed = loaded.Signers()
		}
		out = append(out, t)
	}
	if out == nil {
		return nil, refusal.New(refusal.Unavailable, "the gate in %s has not recorded its signers yet", o.Dir.Path()).
			WithHint("gated serve does so when it starts")
	}
	return out, nil
}
