package signers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/driver/trust"
	"gated/internal/host/state"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
)

// toldTrust refuses, as Conflict, a list that is not the one of which the audit
// log told last: somebody wrote it into the database. Without that check a start
// would take it into force, and write the file from it.
func toldTrust(ctx context.Context, s *store.Store, v journal.TrustVersion) error {
	var last audit.Entry
	err := s.View(ctx, func(tx *store.Tx) (err error) {
		// The oldest entries do not say.
		last, _, err = lastTold(tx, func(e audit.Entry) bool { return e.SignersFile.Epoch != 0 })
		return err
	})
	told := last.SignersFile
	if err != nil || told.Epoch == v.Epoch && told.SHA256 == op.SHA256(v.Text) {
		return err
	}
	what := "the audit log tells of none"
	switch {
	case told.Epoch == v.Epoch:
		what = "the audit log tells of another text for it"
	case told.Epoch != 0:
		what = fmt.Sprintf("the audit log told last of epoch %d", told.Epoch)
	}
	return tampered(filepath.Dir(s.Path()), v.Epoch, what)
}

// Agrees refuses, as Conflict, a database whose newest list is not the one in
// force, of that epoch and digest.
func Agrees(s *store.Store, v journal.TrustVersion, epoch int64, digest string) error {
	if v.Epoch == epoch && op.SHA256(v.Text) != digest {
		return tampered(filepath.Dir(s.Path()), v.Epoch, "another list is in force")
	}
	return nil
}

// tampered is the refusal of a list that only the database knows.
func tampered(dir string, epoch int64, what string) error {
	return refusal.New(refusal.Conflict,
		"the list of signers in the database (epoch %d) is not the one that was decided: %s", epoch, what).
		WithHint("somebody changed the database: nothing of it was put in force, and the file %s was left as it is. Run gated fsck "+
			"--state %s, and go on with \"Suspected tampering\" in gated docs runbook", filepath.Join(dir, state.SignersName), dir)
}

// RevokedBefore reports whether keys were revoked, or may have been, when the
// log told of it last. Each start tells of it, and each change of the file. If the
// newest entry that may tell of it does not decode, keys may have been revoked.
func RevokedBefore(tx *store.Tx) (bool, error) {
	last, damaged, err := lastTold(tx, func(e audit.Entry) bool { return e.Kind != audit.Rotated && e.Revokes != nil })
	return damaged || last.Revokes != nil && *last.Revokes, err
}

// lastTold returns the newest entry about signers that fits, the zero entry if
// there is none. If an entry comes first that does not decode, that is damaged.
func lastTold(tx *store.Tx, fits func(audit.Entry) bool) (e audit.Entry, damaged bool, err error) {
	const page = 1000
	head, err := audit.ReadHead(tx)
	if err != nil {
		return audit.Entry{}, false, err
	}
	bound, err := audit.Bound(tx)
	for end := head.Seq; err == nil && end > bound.Seq; end -= page {
		after := max(end-page, bound.Seq)
		var bodies [][]byte
		if bodies, err = audit.Bodies(tx, after, int(end-after)); err != nil {
			break
		}
		for i := len(bodies) - 1; i >= 0; i-- {
			e, about := aboutSigners(bodies[i])
			if damaged := about && e.Seq == 0; damaged || about && fits(e) {
				return e, damaged, nil
			}
		}
	}
	if err != nil {
		return audit.Entry{}, false, err
	}
	return lastKept(tx, fits)
}

// lastKept is lastTold among entries in segments, of which the database keeps those about signers. One that is not in the tree as it
// is kept counts as damaged.
func lastKept(tx *store.Tx, fits func(audit.Entry) bool) (audit.Entry, bool, error) {
	kept, err := audit.KeptEntries(tx)
	var broken *audit.BrokenError
	if errors.As(err, &broken) {
		return audit.Entry{}, true, nil
	}
	for _, e := range slices.Backward(kept) {
		if (e.Kind == audit.Started || e.Kind == audit.Trusted || e.Kind == audit.Rotated) && fits(e) {
			return e, false, nil
		}
	}
	return audit.Entry{}, false, err
}

// aboutSigners decodes an entry if it is of a kind that tells of signers. One that
// does not decode is the zero entry.
func aboutSigners(body []byte) (e audit.Entry, about bool) {
	if !mayBe(body, audit.Started) && !mayBe(body, audit.Trusted) && !mayBe(body, audit.Rotated) {
		return e, false
	}
	e, err := audit.Decode(body)
	if err != nil {
		return audit.Entry{}, true
	}
	return e, e.Kind == audit.Started || e.Kind == audit.Trusted || e.Kind == audit.Rotated
}

// mayBe reports whether an entry may be of a kind; a label may look like it.
func mayBe(body []byte, k audit.Kind) bool { return bytes.Contains(body, []byte(`"kind":"`+k+`"`)) }

// Change is what differs between two lists of signers.
type Change struct{ Added, Removed []authz.Listed }

// Compare goes by everything that a line says but for where it stands. A nil
// list has no lines.
func Compare(before, next *authz.Trust) Change {
	left := map[string]int{}
	for _, l := range before.Signers() {
		left[trust.Describe(l)]++
	}
	var c Change
	kept := map[string]int{}
	for _, l := range next.Signers() {
		if d := trust.Describe(l); left[d] > 0 {
			left[d]--
			kept[d]++
		} else {
			c.Added = append(c.Added, l)
		}
	}
	for _, l := range before.Signers() {
		if d := trust.Describe(l); kept[d] > 0 {
			kept[d]--
		} else {
			c.Removed = append(c.Removed, l)
		}
	}
	return c
}

// Lines shows a change to people: + or -, and what a line says without its key.
func (c Change) Lines() []string {
	var out []string
	for _, l := range c.Added {
		out = append(out, "+ "+trust.Describe(l))
	}
	for _, l := range c.Removed {
		out = append(out, "- "+trust.Describe(l))
	}
	if out == nil {
		out = []string{"comments, other namespaces or the order of lines, and no signer"}
	}
	return out
}

// MayDestroy reports whether a line lists a key for what may lose data or change
// who may sign: as operational, for break-glass, or for recovery, which alone can list others.
func MayDestroy(l authz.Listed) bool {
	return slices.Contains(l.Roles, op.Operational) || slices.ContainsFunc(l.Roles, op.Role.Reserved)
}

// SoftwareSigners returns the principals of keys that MayDestroy and need no
// touch, each once, in the list's order.
func SoftwareSigners(listed []authz.Listed) []string {
	var out []string
	for _, l := range listed {
		if l.Software && MayDestroy(l) && !slices.Contains(out, op.ShownName(l.Principal)) {
			out = append(out, op.ShownName(l.Principal))
		}
	}
	return out
}
