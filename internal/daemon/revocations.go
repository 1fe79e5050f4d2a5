package daemon

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"gated/internal/authz"
	"gated/internal/inotify"
	"gated/internal/op"
	"gated/internal/ownfile"
)

// revokedPatience is how long the list in force stays while a file lies there of
// which nobody has said that it is whole; how long such a file has to stay as it
// is to be read all the same; and how long one that is empty, where keys are
// revoked, if nobody can say that it is whole.
const revokedPatience = 5 * time.Second

// revocations is the file of keys that count no more. One goroutine uses it.
type revocations struct {
	path     string
	required bool // the configuration names it: then it has to be there
	watch    *inotify.Watch
	now      func() time.Time

	list   *authz.Revoked // in force
	taken  stamp          // of the file as it was when it was made the list
	begun  bool           // there is one in force
	needed bool           // it revokes something, or may: a file that is not there is not an empty one

	seen    stamp     // of the file as it was looked at last
	since   time.Time // when it was first seen like that
	unsure  time.Time // when it was first seen as one that may be half; zero if it is not
	refused bool      // for being that for too long
}

// verdict is what becomes of a look at the revocation file.
type verdict int

const (
	leave  verdict = iota // what is in force stays
	reread                // it is whole, as far as anybody can say
	insist                // it is read as it is: somebody says so, or it has been like that for long
	refuse                // it may have been half of one for too long: no signature counts
)

// newRevocations watches the directory of a revocation file. Without inotify,
// looking at the file every second is enough.
func newRevocations(path string, required bool) *revocations {
	r := &revocations{path: path, required: required, now: now}
	name := filepath.Base(path)
	if w, err := inotify.New(func(n string) bool { return n == name }); err == nil {
		r.watch = w
	}
	r.happened()
	return r
}

func (r *revocations) close() error {
	if r.watch == nil {
		return nil
	}
	return r.watch.Close()
}

// changed receives when the file may have changed.
func (r *revocations) changed() <-chan struct{} {
	if r.watch == nil {
		return nil
	}
	return r.watch.Changed()
}

// happened reports whether the file was closed by a writer, moved or deleted
// since the last call, as far as inotify says.
func (r *revocations) happened() bool {
	if r.watch == nil {
		return false
	}
	dir, err := os.Open(filepath.Dir(r.path))
	if err != nil {
		return false
	}
	defer dir.Close()
	events, _ := r.watch.Take(filepath.Dir(r.path), dir)
	return events[filepath.Base(r.path)]
}

// due says what to do about the file, after inotify told of it or, where an
// interval has passed, anyway: nobody says of a file behind a symbolic link that
// it was closed, and it is whole when it looks as it did an interval ago.
func (r *revocations) due(passed bool) verdict {
	event, at := r.happened(), r.now()
	settled := passed && r.settled(at)
	switch half := r.half(); {
	case half && event && r.missed():
		return reread // as one that is not there
	case half && passed:
		return r.waitFor(at)
	case !half:
		r.unsure = time.Time{}
		if event || settled {
			return reread
		}
	}
	return leave
}

// settled looks at the file and reports whether it is another one than the list
// in force was made of, and looks as it did before. An empty one may be waiting
// for its first line.
func (r *revocations) settled(at time.Time) bool {
	now := r.look()
	if now != r.seen {
		r.seen, r.since = now, at
		return false
	}
	return now != r.taken && (!r.needed || !now.empty() || at.Sub(r.since) >= revokedPatience)
}

// waitFor bounds the time for which a file that may be half keeps what is in
// force.
func (r *revocations) waitFor(at time.Time) verdict {
	if r.seen == r.taken {
		r.unsure = time.Time{} // it is in force as it is
		return leave
	}
	if r.unsure.IsZero() {
		r.unsure = at
	}
	switch {
	case at.Sub(r.since) >= revokedPatience:
		return insist
	case at.Sub(r.unsure) >= revokedPatience && !r.refused:
		return refuse
	default:
		return leave
	}
}

// half reports whether the file may be half of one: somebody has written to it
// and not closed it, or it was put where another one went away from, and nobody
// has closed it since.
func (r *revocations) half() bool {
	if r.watch == nil {
		return false
	}
	name := filepath.Base(r.path)
	return r.watch.Writing(name) || r.watch.Gone(name) && r.look() != stamp{}
}

// missed reports whether the file that revoked keys went away, and there is no
// whole one since. Editors that rename do that for a moment.
func (r *revocations) missed() bool {
	return r.needed && r.watch != nil && r.watch.Gone(filepath.Base(r.path))
}

// load makes a list of the file; false if what is in force stays, since somebody
// writes to it. What cannot be read, and what does not load, is a list that
// refuses every key: one of them may be among those that it was to name.
func (r *revocations) load(v verdict) (list *authz.Revoked, at stamp, ok bool) {
	if v == refuse {
		return unreadable("%s is being written to, and was not closed within %s: close it", r.path, revokedPatience), unknown, true
	}
	r.happened() // what came before is what is read now
	list, at = r.read()
	switch {
	case !r.begun || !r.half():
	case v == insist && at.empty() && r.needed:
		return unreadable("%s was emptied, and nobody has closed it: close it", r.path), at, true
	case v == insist:
	case r.missed():
		return r.absent(), stamp{}, true
	default:
		return nil, stamp{}, false
	}
	return list, at, true
}

// took remembers what is in force now.
func (r *revocations) took(list *authz.Revoked, at stamp, v verdict) {
	var nobody *authz.Trust
	r.list, r.taken, r.begun, r.refused = list, at, true, v == refuse
	never := r.required && !r.needed && at == stamp{} // it was named and never there, and nothing was revoked before
	r.needed = list.Count() > 0 || !never && nobody.WithRevoked(list).Blocked() != nil
}

func (r *revocations) read() (*authz.Revoked, stamp) {
	before := r.look()
	text, err := ownfile.Own().Read(r.path, authz.MaxRevoked)
	if errors.Is(err, fs.ErrNotExist) {
		switch {
		case r.needed:
			return r.absent(), stamp{}
		case r.required:
			return unreadable(saysNever+"%s, which revocation_file in gated.yaml names: make it, be it empty", r.path), stamp{}
		}
		return nil, stamp{}
	}
	if err == nil && r.look() != before {
		err = errors.New("it is being written to")
		before = unknown // to be read again
	}
	if refused := (*op.Refusal)(nil); errors.As(err, &refused) {
		return unreadable("%s", withHint(refused)), before // others could have taken a key out of it
	}
	if err != nil {
		return unreadable("%v", err), before
	}
	list, err := authz.LoadRevoked(text)
	if err != nil {
		refusal := op.AsRefusal(err)
		return authz.UnreadableRevoked(op.Refuse(refusal.Code, "%s: %s", r.path, refusal.Detail)), before
	}
	return list, before
}

// absent is the list that stands for a file which is not there and was. It is
// not an empty one: an editor may be about to put it back.
func (r *revocations) absent() *authz.Revoked {
	return unreadable("there is no %s any more, and keys were revoked: put it back, or an empty file to revoke nothing", r.path)
}

func unreadable(format string, args ...any) *authz.Revoked {
	return authz.UnreadableRevoked(op.Refuse(op.Unavailable, format, args...))
}

// stamp tells two contents of a file apart, as far as the file system does. The
// zero one is that of no file.
type stamp struct {
	dev, ino     uint64
	size         int64
	mtime, ctime syscall.Timespec
}

// unknown differs from the stamp of every file, and from that of none.
var unknown = stamp{size: -1}

func (s stamp) empty() bool { return s != stamp{} && s.size == 0 }

// look returns the file's stamp. One that cannot be looked at has a stamp of its
// own, so that it differs from none.
func (r *revocations) look() stamp {
	info, err := os.Stat(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		return stamp{}
	}
	st, ok := (*syscall.Stat_t)(nil), false
	if err == nil {
		st, ok = info.Sys().(*syscall.Stat_t)
	}
	if !ok {
		return unknown
	}
	return stamp{st.Dev, st.Ino, st.Size, st.Mtim, st.Ctim}
}
