package daemon

import (
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
	// saysNever begins why a file that is named, and was never there, cannot be
	// read, and saysUnread what that becomes: nothing was revoked before it.
	saysNever  = "no key was revoked, and there is no "
	saysUnread = "the revocation file cannot be read, so no signature counts: "
)

// startedDetail is the detail of the entry of a start.
func startedDetail(revoked string) string { return "gated " + Version() + saysRevoked + revoked }

// missedAtStart reports whether the revocation file is not there,
// although the log says that keys were revoked: a gate that began with none
// then would take a lost file, or one that is being saved, for pardon.
func (d *daemon) missedAtStart(ctx context.Context) (missed bool, err error) {
	if d.revoked.look() != (stamp{}) {
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
func revokedBefore(tx *store.Tx) (revoked bool, err error) {
	err = backThrough(tx, func(body []byte) (known bool) {
		known, revoked = tellsRevoked(body)
		return known
	})
	return revoked, err
}

// tellsRevoked reports whether an entry says what was revoked, and whether that
// was anything: words that it does not know are something.
func tellsRevoked(body []byte) (known, revoked bool) {
	if !ofKind(body, audit.Started) && !ofKind(body, audit.Trusted) {
		return false, false
	}
	e, err := api.ParseEntry(body)
	if err != nil {
		return true, true
	}
	switch audit.Kind(e.Kind) {
	case audit.Started:
		_, says, told := strings.Cut(e.Detail, saysRevoked)
		return true, told && !strings.HasPrefix(says, saysNone) && !tellsNothing(says)
	case audit.Trusted:
		return !strings.HasPrefix(e.Detail, saysOlder), !tellsNothing(e.Detail)
	default:
		return false, false // it was in a label
	}
}

// tellsNothing reports whether what is said of revoked keys is that there are
// none, or that a file which was just named is not there yet.
func tellsNothing(says string) bool {
	return strings.HasPrefix(says, "0 ") || strings.HasPrefix(says, saysUnread+saysNever)
}
