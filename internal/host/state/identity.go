package state

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"gated/internal/base/hostgate"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
)

// Schema is the SQL of this package's table.
const Schema = `
-- The gate that this database is the state of, and the machine and file that
-- it was bound to: a database that is not where it was bound does not start.
CREATE TABLE gate_identity (
  one     INTEGER PRIMARY KEY CHECK (one = 1),
  gate    TEXT NOT NULL CHECK (length(gate) = 32),
  host    TEXT NOT NULL,
  machine TEXT NOT NULL,     -- digest of the machine id, '' if the machine has none
  inode   TEXT NOT NULL,     -- of the database's file; text, since it may exceed an int64
  birth   INTEGER NOT NULL   -- of the database's file, ns since 1970, 0 if not recorded
) STRICT;
`

// Identity names the gate whose state a directory has.
type Identity struct {
	Gate op.GateID
	Host string
}

// NewGateID returns a random gate id. Every init, every restore and every
// accepted jump of the clock begins a new life of a gate, with a new id.
func NewGateID() op.GateID {
	var b [16]byte
	rand.Read(b[:]) // never fails: it ends the program instead
	return op.GateID(hex.EncodeToString(b[:]))
}

// binding identifies the machine and file of an identity.
type binding struct {
	machine string
	file    File
}

func (d *Dir) actual() (binding, error) {
	machine, err := machineDigest(d.options.MachineID)
	if err != nil {
		return binding{}, err
	}
	file, err := d.options.Stat(d.Database())
	return binding{machine: machine, file: file}, err
}

// Bind writes the identity into the database and binds it to this machine and this file. It replaces an earlier
// binding. Init and restore use it.
func (d *Dir) Bind(ctx context.Context, s *store.Store, id Identity) error {
	return s.Update(ctx, func(tx *store.Tx) error { return d.BindIn(tx, id) })
}

// BindIn is Bind in a transaction that also needs the new identity.
func (d *Dir) BindIn(tx *store.Tx, id Identity) error {
	if !id.Gate.Valid() {
		return refusal.New(refusal.BadParams, "%q is not a gate id of 32 hex digits", string(id.Gate))
	}
	if id.Host == "" {
		return refusal.New(refusal.BadParams, "a gate needs a host name").WithHint("give one with --host")
	}
	have, err := d.actual()
	if err != nil {
		return err
	}
	_, err = tx.Exec(`INSERT OR REPLACE INTO gate_identity (one, gate, host, machine, inode, birth) VALUES (1, ?, ?, ?, ?, ?)`,
		id.Gate, id.Host, have.machine, fmt.Sprint(have.file.Inode), have.file.Birth)
	return err
}

// Unbind removes the identity from a database that will be moved to a place where Bind writes it. Until then it belongs
// to no gate, and Check refuses it in every file.
func Unbind(tx *store.Tx) error {
	_, err := tx.Exec(`DELETE FROM gate_identity`)
	return err
}

// Check returns the identity. If the database is not the one that was bound, it refuses as TargetMismatch, and says
// what differs and what to do.
func (d *Dir) Check(ctx context.Context, s *store.Store) (Identity, error) {
	var id Identity
	var bound binding
	var inode string
	err := s.View(ctx, func(tx *store.Tx) error {
		return tx.QueryRow(`SELECT gate, host, machine, inode, birth FROM gate_identity`).
			Scan(&id.Gate, &id.Host, &bound.machine, &inode, &bound.file.Birth)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return Identity{}, refusal.New(refusal.Conflict,
			"the database in %s belongs to no gate: an init or a restore did not finish", d.path).
			WithHint("%s; else restore a backup:\n%s", NeverRan, hostgate.Host{}.Restore(d.path))
	}
	if err != nil {
		return Identity{}, fmt.Errorf("read the gate's identity: %w", err)
	}
	if _, err := fmt.Sscan(inode, &bound.file.Inode); err != nil || !id.Gate.Valid() {
		return Identity{}, refusal.New(refusal.Conflict, "the gate's identity in %s is damaged", d.path).
			WithHint("restore a backup:\n%s", hostgate.Host{}.Restore(d.path))
	}
	have, err := d.actual()
	if err != nil {
		return Identity{}, err
	}
	if what := differences(bound, have); len(what) > 0 {
		return Identity{}, refusal.New(refusal.TargetMismatch,
			"the database in %s is not the one that gate %s was bound to: %s",
			d.path, id.Gate, strings.Join(what, "; ")).
			WithHint("a copy does not know what the original has decided since. Start the original; or, if this copy shall go on as "+
				"the gate, move it away and restore it, which gives it a new gate id:\n%s", hostgate.Host{}.Restore(d.path))
	}
	return id, nil
}

// differences says in words what differs. It does not compare facts that were unknown at the binding.
func differences(bound, have binding) []string {
	var out []string
	switch {
	case bound.machine == "" || bound.machine == have.machine:
	case have.machine == "":
		out = append(out, "this machine has no machine id")
	default:
		out = append(out, "this is another machine")
	}
	if bound.file.Inode != have.file.Inode {
		out = append(out, fmt.Sprintf("the file is another one (inode %d, not %d)", have.file.Inode, bound.file.Inode))
	}
	if bound.file.Birth != 0 && bound.file.Birth != have.file.Birth {
		out = append(out, "the file was made at another time")
	}
	return out
}

// machinePurpose makes the digest specific to this use, so that comparing it with other programs' digests does not
// identify the machine.
const machinePurpose = "gated state directory v1"

// machineDigest returns an application-specific digest of the machine's id, as machine-id(5) asks: the id itself is
// confidential and is not stored. It is empty on a machine without an id.
func machineDigest(files []string) (string, error) {
	for _, name := range files {
		b, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("read the machine id: %w", err)
		}
		// An image holds "uninitialized" before its first boot.
		id := strings.TrimSpace(string(b))
		if len(id) != 32 || strings.Trim(id, "0123456789abcdef") != "" {
			continue
		}
		mac := hmac.New(sha256.New, []byte(machinePurpose))
		mac.Write([]byte(id))
		return hex.EncodeToString(mac.Sum(nil)), nil
	}
	return "", nil
}
