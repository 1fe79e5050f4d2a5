package signers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"gated/internal/authz"
	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
)

// RevokedInterval is how often the daemon looks whether the revocation file
// changed.
const RevokedInterval = time.Second

// revokedPatience is how long a file that takes keys back has to stay as it is
// before it counts alone. An editor may empty a file, and write it a moment later.
const revokedPatience = 5 * time.Second

// youth is how long after a change of the file another change may leave the same
// stamp. Clocks of file systems tick every few milliseconds; of some, every second.
const youth = 2 * time.Second

// Revocations is the file of keys that count no more. A key that is in the file
// is refused at once. A key that was taken out of it counts again only when the
// file has stayed the same for some seconds, because the file may be half
// written. One goroutine uses it.
type Revocations struct {
	path     string
	required bool // the configuration names it: then it has to be there
	now      func() time.Time

	needed   bool           // keys are revoked, or may be: then the file has to be there
	other    Other          // what another member had in force, until the file here is in order with that
	readable *authz.Revoked // the keys in force, of the last time that the file could be read
	taken    stamp          // of the file when it was read last
	since    time.Time      // when it was read first with that stamp
	waits    bool           // keys that it lacks are refused until it has stayed as it is
	young    bool           // it changed so shortly before it was read that its stamp may hide another change
	blocked  bool           // it could not be read, perhaps for a reason outside the file
	says     string         // what the last Read found, as Says and the digest tell it
}

// NewRevocations returns the file at path. If the configuration names it, it is
// required. needed says that keys were revoked before, so that a file that is not
// there is no empty one. now is the wall clock.
func NewRevocations(path string, required, needed bool, now func() time.Time) *Revocations {
	return &Revocations{path: path, required: required, needed: needed, now: now, taken: unknown}
}

// Is reports whether r is the file of that path and demand.
func (r *Revocations) Is(path string, required bool) bool {
	return r.path == path && r.required == required
}

// InOrderWith has the file count only when it is in order with what another member had in force. It makes the file due.
func (r *Revocations) InOrderWith(o Other) { r.other, r.taken = o, unknown }

// At returns the file at another path. A key in force that it lacks is refused
// until it has stayed as it is, too.
func (r *Revocations) At(path string, required bool) *Revocations {
	next := NewRevocations(path, required, r.needed, r.now)
	next.readable, next.other = r.readable, r.other
	return next
}

// Path returns where the file is.
func (r *Revocations) Path() string { return r.path }

// Due reports whether the file is to be read again.
func (r *Revocations) Due() bool {
	return r.young || r.blocked || r.taken == unknown || r.look() != r.taken || r.waits && r.now().Sub(r.since) >= revokedPatience
}

// Again makes the file due: what it said could not be put in force.
func (r *Revocations) Again() { r.taken, r.says = unknown, "" }

// Read returns the list to put in force, and whether it differs from that of the
// last Read. A file that cannot be read, or does not load, is a list that refuses
// every key: any of them may be one of its keys.
func (r *Revocations) Read() (list *authz.Revoked, differs bool) {
	list, at := r.read()
	now := r.now()
	r.young = at != stamp{} && now.Sub(time.Unix(at.ctime.Unix())) < youth
	if at != r.taken || at == unknown {
		r.taken, r.since = at, now
	}
	r.waits = !list.Covers(r.readable) && now.Sub(r.since) < revokedPatience
	if r.waits {
		list = list.With(r.readable)
	}
	if r.blocked = list.Blocked() != nil; !r.blocked {
		r.readable = list
	}
	r.needed = list.Revokes()
	says := list.Digest() + r.Says(list)
	differs, r.says = says != r.says, says
	return list, differs
}

// Says tells people what the list of the last Read is.
func (r *Revocations) Says(list *authz.Revoked) string {
	switch err := list.Blocked(); {
	case err != nil:
		return refusal.As(err).Detail
	case list == nil:
		return "none, there is no " + r.path
	case r.waits:
		return fmt.Sprintf("%d, with those that %s does not list any more: they count again when it has stayed as it is for %s",
			list.Count(), r.path, revokedPatience)
	default:
		return fmt.Sprintf("%d in %s", list.Count(), r.path)
	}
}

func (r *Revocations) read() (*authz.Revoked, stamp) {
	before := r.look()
	text, err := ownfile.Own().Read(r.path, authz.MaxRevoked)
	if errors.Is(err, fs.ErrNotExist) {
		return r.absent(), stamp{}
	}
	if err == nil && r.look() != before {
		err, before = errors.New("it is being written to"), unknown
	}
	if refused := (*refusal.Refusal)(nil); errors.As(err, &refused) {
		return unreadable("%s", refused.Sentence()), before // others could have taken a key out of it
	}
	if err != nil {
		return unreadable("%v", err), before
	}
	list, err := authz.LoadRevoked(text)
	if err != nil {
		refused := refusal.As(err)
		return authz.UnreadableRevoked(refusal.New(refused.Code, "%s: %s", r.path, refused.Detail)), before
	}
	if !r.other.inOrder(list, text) {
		return r.other.refused(r.path), before
	}
	r.other = Other{}
	return list, before
}

// absent is the list of a file that is not there. If keys were revoked that is no
// empty list: an editor may be about to put the file back.
func (r *Revocations) absent() *authz.Revoked {
	switch {
	case r.other.Digest != "":
		return r.other.refused(r.path)
	case r.needed:
		return unreadable("there is no %s any more, and keys were revoked: put it back, or an empty file to revoke nothing", r.path)
	case r.required:
		return authz.MissingRevoked(refusal.New(refusal.Unavailable,
			"no key was revoked, and there is no %s, which revocation_file in gated.yaml names: make it, be it empty", r.path))
	default:
		return nil
	}
}

func unreadable(format string, args ...any) *authz.Revoked {
	return authz.UnreadableRevoked(refusal.New(refusal.Unavailable, format, args...))
}

// stamp tells two contents of a file apart, as far as the file system does. The
// zero stamp is that of no file.
type stamp struct {
	dev, ino     uint64
	size         int64
	mtime, ctime syscall.Timespec
}

// unknown differs from the stamp of every file, and from that of none.
var unknown = stamp{size: -1}

// look returns the file's stamp, unknown if it cannot be looked at.
func (r *Revocations) look() stamp {
	info, err := os.Stat(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		return stamp{}
	}
	if err != nil {
		return unknown
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return unknown
	}
	return stamp{st.Dev, st.Ino, st.Size, st.Mtim, st.Ctim}
}
