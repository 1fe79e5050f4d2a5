package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gated/internal/audit"
	"gated/internal/authz"
	"gated/internal/journal"
	"gated/internal/op"
	"gated/internal/store"
)

// How versions of the trust file came to be that a restore wrote.
const (
	howKept  = "kept by a restore (%s)"
	howTaken = "the backup's, at a restore that asked for it (%s)"
)

// known is what a restore must not forget of the database that it replaces.
type known struct {
	there   bool                   // there is one
	err     error                  // why it cannot be read, or is not believed
	trusts  []journal.TrustVersion // every version of the list of signers, oldest first
	revoked bool                   // keys were revoked, or may have been
	entries int64                  // in its audit log

	file     []byte // what the file of signers says
	fileless bool   // there is none
}

// lookBack reads the database at path, of whatever schema; and if there is none,
// the one that was put aside last: a restore was cut off between taking it away
// and putting another in its place, or the database is lost, and then that one
// still knows of some who were removed. What such a restore had made ready is
// not asked: it may be the backup as it was copied.
func lookBack(ctx context.Context, path string) (known, error) {
	if exists(path) {
		return readKnown(ctx, path), nil
	}
	aside, err := newestKept(path, func(string) bool { return true })
	if err != nil || aside == "" {
		return known{}, err
	}
	return readKnown(ctx, aside), nil
}

func readKnown(ctx context.Context, path string) known {
	k := known{there: true}
	k.err = store.Peek(ctx, path, func(schema int, tx *store.Tx) (err error) {
		if schema == 0 {
			return errors.New("it is empty")
		}
		if schema < trustSchema {
			return nil // the list of signers was a file
		}
		if k.trusts, err = journal.Trusts(tx); err != nil {
			return err
		}
		if k.revoked, err = revokedBefore(tx); err != nil {
			return err
		}
		k.entries, err = vouch(tx, schema, k.trusts)
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
func vouch(tx *store.Tx, schema int, trusts []journal.TrustVersion) (entries int64, err error) {
	told := map[int64]string{}
	if schema == len(Migrations()) {
		_, err = audit.Verify(tx, func(e audit.Entry) error {
			if entries++; e.Kind == audit.Rotated {
				told[e.Epoch] = e.Digest
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
	for after := int64(0); ; {
		all, err := audit.After(tx, after, page)
		if err != nil || len(all) == 0 {
			return entries, err
		}
		for _, e := range all {
			after = e.Seq
			if entries++; e.Kind == audit.Rotated {
				told[e.Epoch] = e.Digest
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
func (k known) choose(backup []journal.TrustVersion, asked bool) SignersOf {
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

// carry writes into a restored database what the one that was there knew, and
// says what is in force: versions of the list of signers that the backup does
// not have, each under its epoch, so that an epoch never comes twice; and that
// keys were revoked.
func (k known) carry(tx *store.Tx, id op.GateID, at time.Time, asked bool) (RestoredTrust, error) {
	backup, err := journal.Trusts(tx)
	if err != nil {
		return RestoredTrust{}, err
	}
	old, was := newest(backup), newest(k.trusts)
	if asked && old.Epoch == 0 {
		return RestoredTrust{}, op.Refuse(op.BadParams, "the backup has no list of signers: it is from before there were versions").
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
		w.err = held{trust: next, v: v}.record(w.tx, stateOwner, w.id, compare(before, next))
	} else if w.err = journal.AddTrust(w.tx, v); w.err == nil {
		_, w.err = audit.Append(w.tx, audit.Entry{Kind: audit.Rotated, By: stateOwner, Gate: w.id, Time: w.at, Epoch: v.Epoch,
			Digest: op.SHA256(v.Text), Target: op.Signers.String(), Detail: v.How})
	}
	w.last = v
}

// readable refuses a list in force that this program cannot read.
func (w *trustWriter) readable() {
	if w.err != nil {
		return
	}
	if _, err := authz.LoadTrust(w.last.Text); err != nil {
		w.err = op.Refuse(op.Conflict, "the list of signers that is in force cannot be read by this gated: %v", err).
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
	b, err := loadTrust("the list of signers", force.Text)
	if err != nil {
		return nil, err
	}
	return compare(a, b).lines(), nil
}

// stillRevoked has the log say that keys were revoked where the backup's does
// not: a revocation file that is missing is no pardon.
func (k known) stillRevoked(tx *store.Tx, id op.GateID, v journal.TrustVersion, at time.Time) (bool, error) {
	revoked, err := revokedBefore(tx)
	if err != nil || revoked || !k.revoked {
		return revoked, err
	}
	_, err = audit.Append(tx, audit.Entry{Kind: audit.Trusted, By: stateOwner, Gate: id, Time: at, Epoch: v.Epoch, Digest: op.SHA256(v.Text),
		Detail: "keys were revoked before the restore, which the backup does not know"})
	return true, err
}
