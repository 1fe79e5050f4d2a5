package daemon

import (
	"bytes"
	"context"
	"strings"

	"gated/internal/api"
	"gated/internal/audit"
	"gated/internal/store"
)

// What the log says of revoked keys: an entry started after saysRevoked, an
// entry trusted in all of its detail, unless that begins with saysOlder.
const (
	saysRevoked = "; revoked keys: "
	saysNone    = "none, "
	saysOlder   = "the file of signers "
)

// startedDetail is the detail of the entry of a start.
func startedDetail(revoked string) string { return "gated " + Version() + saysRevoked + revoked }

// missedAtStart reports whether the default revocation file is not there,
// although the log says that keys were revoked: a gate that began with none
// then would take a lost file, or one that is being saved, for pardon.
func (d *daemon) missedAtStart(ctx context.Context) (missed bool, err error) {
	if d.revoked.required || d.revoked.look() != (stamp{}) {
		return false, nil
	}
	err = d.opened.store.View(ctx, func(tx *store.Tx) error {
		missed, err = revokedBefore(tx)
		return err
	})
	return missed, err
}

// revokedBefore reports whether keys were revoked, or may have been, when the
// log was last told. Every start tells it, so that it looks back no further
// than to the last one.
func revokedBefore(tx *store.Tx) (bool, error) {
	const page = 1000
	head, err := audit.ReadHead(tx)
	for end := head.Seq; err == nil && end > 0; end -= page {
		after := max(end-page, 0)
		var bodies [][]byte
		if bodies, err = audit.Bodies(tx, after, int(end-after)); err != nil {
			break
		}
		for i := len(bodies) - 1; i >= 0; i-- {
			if known, revoked := tellsRevoked(bodies[i]); known {
				return revoked, nil
			}
		}
	}
	return false, err
}

// tellsRevoked reports whether an entry says what was revoked, and whether that
// was anything: words that it does not know are something.
func tellsRevoked(body []byte) (known, revoked bool) {
	started, trusted := []byte(`"kind":"`+audit.Started+`"`), []byte(`"kind":"`+audit.Trusted+`"`)
	if !bytes.Contains(body, started) && !bytes.Contains(body, trusted) {
		return false, false
	}
	e, err := api.ParseEntry(body)
	if err != nil {
		return true, true
	}
	switch audit.Kind(e.Kind) {
	case audit.Started:
		_, says, told := strings.Cut(e.Detail, saysRevoked)
		return true, told && !strings.HasPrefix(says, saysNone) && !strings.HasPrefix(says, "0 ")
	case audit.Trusted:
		return !strings.HasPrefix(e.Detail, saysOlder), !strings.HasPrefix(e.Detail, "0 ")
	default:
		return false, false // it was in a label
	}
}
