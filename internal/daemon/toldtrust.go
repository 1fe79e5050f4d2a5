package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"gated/internal/api"
	"gated/internal/audit"
	"gated/internal/journal"
	"gated/internal/op"
	"gated/internal/store"
)

// toldTrust refuses, as Conflict, a list of signers that is not the one which the
// audit log told of last: somebody wrote it into the database. Without that, a
// start would take it into force, and write the file from it.
//
// Each start and each change of the list tells its epoch and digest, so that it
// looks back no further than to the last one.
func toldTrust(ctx context.Context, s *store.Store, v journal.TrustVersion) error {
	var epoch int64
	var digest string
	err := s.View(ctx, func(tx *store.Tx) (err error) {
		walked := backThrough(tx, func(body []byte) (found bool) {
			epoch, digest, found, err = tellsTrust(tx, body)
			return found || err != nil
		})
		return errors.Join(walked, err)
	})
	if err != nil || epoch == v.Epoch && digest == op.SHA256(v.Text) {
		return err
	}
	what := "the audit log tells of none"
	switch {
	case epoch == v.Epoch:
		what = "the audit log tells of another text for it"
	case epoch != 0:
		what = fmt.Sprintf("the audit log told last of epoch %d", epoch)
	}
	return tampered(filepath.Dir(s.Path()), v.Epoch, what)
}

// tellsTrust returns which list of signers an entry says is in force. One that
// does not decode is somebody's, and tells of none.
func tellsTrust(tx *store.Tx, body []byte) (epoch int64, digest string, told bool, err error) {
	if !ofKind(body, audit.Started) && !ofKind(body, audit.Trusted) && !ofKind(body, audit.Rotated) {
		return 0, "", false, nil
	}
	brief, err := api.ParseEntry(body)
	if err != nil {
		return 0, "", true, nil
	}
	whole, err := audit.After(tx, brief.Seq-1, 1)
	if err != nil || len(whole) == 0 {
		return 0, "", true, err
	}
	switch e := whole[0]; e.Kind {
	case audit.Started, audit.Trusted, audit.Rotated:
		return e.Epoch, e.Digest, e.Epoch != 0, nil // older ones do not say
	default:
		return 0, "", false, nil // it was in a label
	}
}

// ofKind reports whether an entry may be of a kind; a label may look like it.
func ofKind(body []byte, k audit.Kind) bool { return bytes.Contains(body, []byte(`"kind":"`+k+`"`)) }

// backThrough calls fn with the entries of the log, the newest first, until it
// returns true.
func backThrough(tx *store.Tx, fn func(body []byte) bool) error {
	const page = 1000
	head, err := audit.ReadHead(tx)
	for end := head.Seq; err == nil && end > 0; end -= page {
		after := max(end-page, 0)
		var bodies [][]byte
		if bodies, err = audit.Bodies(tx, after, int(end-after)); err != nil {
			break
		}
		for i := len(bodies) - 1; i >= 0; i-- {
			if fn(bodies[i]) {
				return nil
			}
		}
	}
	return err
}

// tampered is the refusal of a list that only the database knows.
func tampered(dir string, epoch int64, what string) error {
	return op.Refuse(op.Conflict, "the list of signers in the database (epoch %d) is not the one that was decided: %s", epoch, what).
		WithHint("somebody changed the database: nothing of it was put in force, and the file %s was left as it is. Run gated fsck "+
			"--state %s, and go on with \"Suspected tampering\" in docs/guides/runbook.md", filepath.Join(dir, signersName), dir)
}
