package signers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/host/state"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
)

// Former is what a restore must not forget of the database that it replaces.
type Former struct {
	there   bool                   // there is one
	err     error                  // why it cannot be read, or is not believed
	trusts  []journal.TrustVersion // every version of the list of signers, oldest first
	revoked bool                   // keys were revoked, or may have been
	entries int64                  // in its audit log

	file     []byte // what the file of signers says
	fileless bool   // there is none
}

// ReadFormer reads the database at path, of whatever schema; schema is the one of
// this program. Why it cannot be read, or is not believed, Carry says.
func ReadFormer(ctx context.Context, path string, schema int) Former {
	k := Former{there: true}
	k.err = store.Peek(ctx, path, func(have int, tx *store.Tx) (err error) {
		if have == 0 {
			return errors.New("it is empty")
		}
		if have < trustSchema {
			return nil // the list of signers was a file
		}
		if k.trusts, err = journal.Trusts(tx); err != nil {
			return err
		}
		if k.revoked, err = RevokedBefore(tx); err != nil {
			return err
		}
		k.entries, err = vouch(tx, have == schema, k.trusts)
		return err
	})
	if k.err != nil {
		k.trusts, k.entries = nil, 0 // that keys were revoked is believed of anybody
	}
	return k
}

// trustSchema is the first schema with versions of the list of signers.
const trustSchema = 3

// vouch refuses a list of signers that is not the one that the audit log beside
// it tells of: a restore is what follows when somebody tampered with a database,
// and must not carry over whom that person listed. A log of this schema has to
// be whole besides; how another one is to be verified, another program knows.
func vouch(tx *store.Tx, whole bool, trusts []journal.TrustVersion) (entries int64, err error) {
	told := map[int64]string{}
	if whole {
		_, err = audit.Verify(tx, func(e audit.Entry) error {
			if entries++; e.Kind == audit.Rotated {
				told[e.SignersFile.Epoch] = e.SignersFile.SHA256
			}
			return nil
		})
	} else {
		entries, err = rotations(tx, told)
	}
	if err != nil {
		return entries, err
	}
	for _, v := range trusts {
		if told[v.Epoch] != op.SHA256(v.Text) {
			return entries, fmt.Errorf("its list of signers of epoch %d is not the one that its audit log tells of", v.Epoch)
		}
	}
	if len(told) != len(trusts) {
		return entries, errors.New("its audit log tells of another list of signers")
	}
	return entries, nil
}

// rotations reads the digests of the lists that a log of any schema tells of.
func rotations(tx *store.Tx, told map[int64]string) (entries int64, err error) {
	const page = 1000
	kept, err := audit.KeptEntries(tx)
	if err != nil {
		return 0, err
	}
	for _, e := range kept {
		if entries++; e.Kind == audit.Rotated {
			told[e.SignersFile.Epoch] = e.SignersFile.SHA256
		}
	}
	for after := int64(0); ; {
		all, err := audit.After(tx, after, page)
		if err != nil || len(all) == 0 {
			return entries, err
		}
		for _, e := range all {
			after = e.Seq
			if entries++; e.Kind == audit.Rotated {
				told[e.SignersFile.Epoch] = e.SignersFile.SHA256
			}
		}
	}
}

// newest is the version in force, the zero one if there is none.
func newest(all []journal.TrustVersion) journal.TrustVersion {
	if len(all) == 0 {
		return journal.TrustVersion{}
	}
	return all[len(all)-1]
}

// has reports whether a history has that version.
func has(all []journal.TrustVersion, v journal.TrustVersion) bool {
	return slices.ContainsFunc(all, func(x journal.TrustVersion) bool { return x.Epoch == v.Epoch && bytes.Equal(x.Text, v.Text) })
}

// SignersOf says whose list of signers is in force after a restore, and why.
type SignersOf string

// What SignersOf can be.
const (
	SignersSame    SignersOf = "same"        // both have the same
	SignersKept    SignersOf = "kept"        // the one that was there: it is newer, or nothing shows that the backup's is
	SignersNewer   SignersOf = "backup"      // the backup's, which knows the one that was there, or a gate that never ran
	SignersTaken   SignersOf = "asked"       // the backup's, which somebody asked for
	SignersUnknown SignersOf = "backup_only" // the backup's: there is no other, or it is not believed; the file bears it out, or somebody asked
	SignersFile    SignersOf = "file"        // the file's: there is a list in neither
)

// RestoredTrust says who may sign after a restore.
type RestoredTrust struct {
	Of       SignersOf
	Epoch    int64    // in force
	Backup   int64    // the backup's, 0 if it has none
	Replaced int64    // of the database that was there, 0 if it has none or cannot be read
	Why      string   // of SignersUnknown: why the other cannot be read, "" if there is none
	Changes  []string // from the list that is not in force to the one that is
	Revoked  bool     // keys were revoked: nothing counts without the revocation file
}

// choose says whose list is in force. The one that was there is, unless the
// backup's history has it, so that no restore brings a key back that was removed.
func (k Former) choose(backup []journal.TrustVersion, asked bool) SignersOf {
	old, was := newest(backup), newest(k.trusts)
	switch {
	case old.Epoch == 0 && was.Epoch == 0:
		return SignersFile
	case was.Epoch == 0:
		return SignersUnknown
	case old.Epoch == was.Epoch && bytes.Equal(old.Text, was.Text):
		return SignersSame
	case has(backup, was), old.Epoch > 0 && k.entries <= 1: // init wrote one entry, and nobody ever decided by it
		return SignersNewer
	case asked:
		return SignersTaken
	default:
		return SignersKept
	}
}

// Carry writes into a restored database what the one that was there knew, and
// says what is in force: versions of the list of signers that the backup does
// not have, each under its epoch, so that an epoch never comes twice; and that
// keys were revoked.
func (k Former) Carry(tx *store.Tx, id op.GateID, at time.Time, asked bool) (RestoredTrust, error) {
	backup, err := journal.Trusts(tx)
	if err != nil {
		return RestoredTrust{}, err
	}
	old, was := newest(backup), newest(k.trusts)
	if asked && old.Epoch == 0 {
		return RestoredTrust{}, refusal.New(refusal.BadParams,
			"the backup has no list of signers: it is from before there were versions").
			WithHint("restore it without --signers-of-backup")
	}
	t := RestoredTrust{Of: k.choose(backup, asked), Backup: old.Epoch, Replaced: was.Epoch}
	if t.Of == SignersUnknown && !asked {
		if err := k.contradicted(old); err != nil {
			return t, err
		}
	}
	if k.err != nil {
		t.Why = k.err.Error()
	}
	w := trustWriter{tx: tx, id: id, at: at, last: old}
	if t.Of == SignersKept || t.Of == SignersTaken {
		for _, v := range k.trusts[min(old.Epoch, int64(len(k.trusts))):] {
			w.add(v, howKept)
		}
		switch {
		case t.Of == SignersTaken:
			w.add(old, howTaken)
		case was.Epoch <= old.Epoch:
			w.add(was, howKept)
		}
		w.readable()
	}
	t.Epoch = w.last.Epoch
	if w.err == nil {
		t.Changes, w.err = changes(k.trusts, backup, w.last)
	}
	if w.err == nil {
		t.Revoked, w.err = k.stillRevoked(tx, id, w.last, at)
	}
	return t, w.err
}

// trustWriter appends versions of the list of signers.
type trustWriter struct {
	tx   *store.Tx
	id   op.GateID
	at   time.Time
	last journal.TrustVersion
	err  error
}

// add makes a version the next one. One that this program cannot read is kept as
// history, of which nothing is said.
func (w *trustWriter) add(v journal.TrustVersion, how string) {
	if w.err != nil {
		return
	}
	v.Epoch, v.How, v.At = w.last.Epoch+1, fmt.Sprintf(how, v.How), w.at
	if next, err := authz.LoadTrust(v.Text); err == nil {
		before, _ := authz.LoadTrust(w.last.Text) // nil if it cannot be read: then all of this one is new
		w.err = List{Trust: next, Version: v}.Record(w.tx, StateOwner, w.id, Compare(before, next))
	} else if w.err = journal.AddTrust(w.tx, v); w.err == nil {
		_, w.err = audit.Append(w.tx, audit.Entry{Kind: audit.Rotated, By: StateOwner, Gate: w.id, Time: w.at,
			Parts:  audit.Parts{SignersFile: audit.SignersFile{Epoch: v.Epoch, SHA256: op.SHA256(v.Text), How: v.How}},
			Target: op.Signers.String(), Detail: v.How})
	}
	w.last = v
}

// readable refuses a list in force that this program cannot read.
func (w *trustWriter) readable() {
	if w.err != nil {
		return
	}
	if _, err := authz.LoadTrust(w.last.Text); err != nil {
		w.err = refusal.New(refusal.Conflict, "the list of signers that is in force cannot be read by this gated: %v", err).
			WithHint("nothing was changed; restore with the gated that wrote it, or take the backup's list: --signers-of-backup")
	}
}

// changes says what the list in force has that the other one has not, and the
// reverse. Without another one there is nothing to say.
func changes(trusts, backup []journal.TrustVersion, force journal.TrustVersion) ([]string, error) {
	other := newest(backup)
	if bytes.Equal(other.Text, force.Text) {
		other = newest(trusts)
	}
	if other.Epoch == 0 || bytes.Equal(other.Text, force.Text) {
		return nil, nil
	}
	a, err := authz.LoadTrust(other.Text)
	if err != nil {
		return nil, nil // a newer gated's; what is in force is listed
	}
	b, err := Load("the list of signers", force.Text)
	if err != nil {
		return nil, err
	}
	return Compare(a, b).Lines(), nil
}

// stillRevoked has the log say that keys were revoked where the backup's does
// not: a revocation file that is missing is no pardon.
func (k Former) stillRevoked(tx *store.Tx, id op.GateID, v journal.TrustVersion, at time.Time) (bool, error) {
	revoked, err := RevokedBefore(tx)
	if err != nil || revoked || !k.revoked {
		return revoked, err
	}
	_, err = audit.Append(tx, audit.Entry{Kind: audit.Trusted, By: StateOwner, Gate: id, Time: at, Revokes: &k.revoked,
		Parts:  audit.Parts{SignersFile: audit.SignersFile{Epoch: v.Epoch, SHA256: op.SHA256(v.Text)}},
		Detail: "keys were revoked before the restore, which the backup does not know"})
	return true, err
}

// ReadFile reads the file of signers, which may bear a backup out.
func (k *Former) ReadFile(f *File) (err error) {
	k.file, err = f.Read()
	if k.fileless = errors.Is(err, fs.ErrNotExist); k.fileless {
		return nil
	}
	return err
}

// contradicted refuses to take a backup's list of signers because no database
// knows a better one, where the file of signers does not bear it out: it does not
// list what the backup lists, which may have been removed since, or it is gone
// although there was a database. Whoever damages the database shall not bring a
// key back by that alone. No database and no file is a new machine.
func (k Former) contradicted(backup journal.TrustVersion) error {
	if k.fileless && !k.there {
		return nil
	}
	why := "there is no database here"
	switch {
	case k.err != nil:
		says, _, _ := strings.Cut(k.err.Error(), "\n")
		why = fmt.Sprintf("the database that was here is not believed (%s)", says)
	case k.there:
		why = "the database that was here has no list of signers"
	}
	what, err := k.missingInFile(backup)
	if err != nil || what == "" {
		return err
	}
	return refusal.New(refusal.Conflict, "who may sign now is not known: %s, and %s", why, what).
		WithHint("nothing was changed. A key that was removed since the backup would count again. To take the backup's list all the same: " +
			"--signers-of-backup; then compare it with gated trust show, and put keys that must not count into the file revoked before the start")
}

// missingInFile says what the backup lists and the file of signers does not, ""
// if that is nothing.
func (k Former) missingInFile(backup journal.TrustVersion) (string, error) {
	if k.fileless {
		return "the file " + state.SignersName + " is missing", nil
	}
	found, err := authz.LoadTrust(k.file)
	if err != nil {
		return fmt.Sprintf("the file %s cannot be read: %s", state.SignersName, refusal.As(err).Detail), nil
	}
	listed, err := Load("the backup's list of signers", backup.Text)
	if err != nil {
		return "", err
	}
	lacks := Change{Added: Compare(found, listed).Added}
	if len(lacks.Added) == 0 {
		return "", nil
	}
	return fmt.Sprintf("the file %s does not list what the backup lists: %s", state.SignersName, strings.Join(lacks.Lines(), "; ")), nil
}
