package life

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/host/state"
	"gated/internal/log/journal"
)

// BackupReport is what a backup that is whole holds.
type BackupReport struct {
	Bytes   int64     `json:"bytes"`
	Host    string    `json:"host"`
	Gate    op.GateID `json:"gate"`
	Schema  int       `json:"schema"`
	Entries int64     `json:"entries"` // of the audit log
	Epoch   int64     `json:"epoch"`   // of the list of signers, 0 if it has none
	Checked []string  `json:"checked"` // what was checked, in words
}

// CheckBackup opens a file read-only and checks that it is a backup from which a
// gate can be restored: pages, indexes and constraints; whose it is; everything
// that gated fsck checks, the whole audit log among it. A backup of an older
// schema, or one beside which there is a log of its newest entries, is checked
// in a copy in the directory for temporary files. long is told how many entries
// will be read. Refusals: BadParams if it is no ordinary file, SchemaTooNew,
// Conflict if anything is wrong with it.
func CheckBackup(ctx context.Context, file string, long func(entries int64)) (BackupReport, error) {
	r, inPlace, err := lookAtBackup(file)
	if err != nil {
		return r, err
	}
	if r.Schema > len(Migrations()) {
		return r, newerBackup(file, r.Schema)
	}
	path := file
	if !inPlace {
		tmp, err := os.MkdirTemp("", "gated-backup-") // 0700
		if err != nil {
			return r, err
		}
		defer os.RemoveAll(tmp)
		path = filepath.Join(tmp, state.DatabaseName)
		if err := copyDatabase(file, path); err != nil {
			return r, err
		}
	}
	return checkCopy(ctx, file, path, r, long)
}

// newerBackup refuses a backup that a newer program made.
func newerBackup(file string, schema int) error {
	return refusal.New(refusal.SchemaTooNew, "the backup %s has schema %d, and this gated knows %d", file, schema,
		len(Migrations())).
		WithHint("use the gated that made it, or a newer one")
}

// lookAtBackup reads what a file is without leaving anything beside it, and
// whether SQLite can read it in that way. SQLite reads what is missing at a
// file's end as zeros, so the length is compared here.
func lookAtBackup(file string) (r BackupReport, inPlace bool, err error) {
	f, err := openOrdinary(file)
	if err != nil {
		return r, false, refusal.New(refusal.BadParams, "the backup %s cannot be read: %v", file, err)
	}
	info, err := f.Stat()
	head := make(sqliteHead, 100)
	if err == nil {
		_, err = io.ReadFull(f, head)
	}
	if closeErr := f.Close(); err != nil || closeErr != nil || string(head[:len(sqliteMagic)]) != sqliteMagic {
		return r, false, refusal.New(refusal.Conflict, "%s is damaged, or no backup of a gate", file)
	}
	r.Bytes, r.Schema = info.Size(), int(head.number(60))
	logged := store.HasLog(file)
	if want := head.size(); !logged && want > 0 && want != r.Bytes {
		return r, false, refusal.New(refusal.Conflict, "%s is not whole: it has %d bytes, and says itself that they are %d",
			file, r.Bytes, want)
	}
	return r, head[19] == 1 && r.Schema == len(Migrations()) && !logged, nil
}

// sqliteHead is how a database begins (https://www.sqlite.org/fileformat.html,
// 1.3): its byte 19 is 1 if it is read without files beside it, the number at 60
// is the user version.
type sqliteHead []byte

func (h sqliteHead) number(at int) uint32 { return binary.BigEndian.Uint32(h[at:]) }

// size is how long the file has to be, 0 if a program wrote it last that does
// not say.
func (h sqliteHead) size() int64 {
	page := int64(binary.BigEndian.Uint16(h[16:]))
	if page == 1 {
		page = 65536
	}
	if h.number(24) != h.number(92) {
		return 0
	}
	return page * int64(h.number(28))
}

// sqliteMagic begins every database.
const sqliteMagic = "SQLite format 3\x00"

// checkCopy checks the database at path, which is file or a copy of it.
func checkCopy(ctx context.Context, file, path string, r BackupReport, long func(entries int64)) (BackupReport, error) {
	open := store.OpenReadOnly
	if path != file {
		open = store.Open // to bring it to this schema
	}
	s, err := open(ctx, path, store.Options{Migrations: Migrations(), Leaves: true})
	if err == nil {
		err = s.Check(ctx)
		if err == nil {
			err = s.View(ctx, func(tx *store.Tx) error { return checkContent(tx, &r, long) })
		}
		err = errors.Join(err, s.Close())
	}
	if err != nil {
		return r, cannotRead(file, path, err)
	}
	r.Checked = []string{"every page, index and constraint", "whose it is", "the audit log", "everything that gated fsck checks"}
	return r, nil
}

// cannotRead says why a backup does not open, or a copy of it at path.
func cannotRead(file, path string, err error) error {
	var refused *refusal.Refusal
	var tooNew *store.TooNewError
	switch {
	case errors.As(err, &refused):
		return err
	case errors.As(err, &tooNew):
		return newerBackup(file, tooNew.Have)
	case errors.Is(err, store.ErrCorrupt):
		return refusal.New(refusal.Conflict, "%s is damaged, or no backup of a gate: %v", file, err)
	case store.DiskFull(err):
		return refusal.New(refusal.Unavailable, "there is no room to open the backup %s: %v", file, err).
			WithHint("make room in %s (df -h)", op.Shown(filepath.Dir(path)))
	}
	return refusal.New(refusal.Unavailable, "the backup %s does not open: %v", file, err).
		WithHint("see whether its disk works, or take another backup")
}

func checkContent(tx *store.Tx, r *BackupReport, long func(entries int64)) error {
	if err := tx.QueryRow(`SELECT count(*) FROM audit`).Scan(&r.Entries); err != nil {
		return err
	}
	long(r.Entries)
	if err := soundCopy(tx); err != nil {
		return err
	}
	var err error
	if r.Gate, r.Host, err = whose(tx); err != nil {
		return err
	}
	v, err := journal.ReadTrust(tx)
	r.Epoch = v.Epoch
	return err
}

// soundCopy refuses a database in which fsck finds anything.
func soundCopy(tx *store.Tx) error {
	report, err := checkAll(tx, nil)
	if err != nil || report.Sound {
		return err
	}
	p := report.Problems[0]
	return refusal.New(refusal.Conflict, "the backup is not sound: %s: %s: %s", p.Rule, p.Where, p.Detail)
}

// whose reads the gate's id and its host's name.
func whose(tx *store.Tx) (id op.GateID, host string, err error) {
	err = tx.QueryRow(`SELECT gate, host FROM gate_identity`).Scan(&id, &host)
	if errors.Is(err, sql.ErrNoRows) {
		return "", "", refusal.New(refusal.Conflict,
			"the backup does not say whose it is: an init or a restore that made it did not finish")
	}
	if err != nil {
		return "", "", refusal.New(refusal.Conflict, "the backup does not say whose it is: %v", err)
	}
	return id, host, nil
}
