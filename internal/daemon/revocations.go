package daemon

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"gated/internal/authz"
	"gated/internal/inotify"
	"gated/internal/op"
)

// revocations is the file of keys that count no more. One goroutine uses it.
type revocations struct {
	path     string
	required bool // the configuration names it: then it has to be there
	watch    *inotify.Watch

	taken stamp          // of the file as it was read last
	list  *authz.Revoked // that was in it
	begun bool           // it was read at all
	seen  stamp          // of the file as it was looked at last
}

// stamp tells two contents of a file apart, as far as the file system does. The
// zero one is that of no file.
type stamp struct {
	dev, ino     uint64
	size         int64
	mtime, ctime syscall.Timespec
}

// newRevocations watches the directory of a revocation file. Without inotify,
// looking at the file every second is enough.
func newRevocations(path string, required bool) *revocations {
	r := &revocations{path: path, required: required}
	name := filepath.Base(path)
	if w, err := inotify.New(func(n string) bool { return n == name }); err == nil {
		r.watch = w
	}
	r.closed()
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

// closed reports whether the file was closed by a writer, moved or deleted since
// the last call, as far as inotify says.
func (r *revocations) closed() bool {
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

// due reports whether the file is to be read again: its writer closed it; or,
// where an interval has passed, it is another one and looks as it did an
// interval ago, since it may be half written where nobody said that it was
// closed.
func (r *revocations) due(passed bool) bool {
	closed, settled := r.closed(), false
	if passed {
		now := r.look()
		settled = now == r.seen && now != r.taken
		r.seen = now
	}
	return (closed || settled) && !r.writing()
}

// writing reports whether somebody has written to the file and not closed it.
func (r *revocations) writing() bool { return r.watch != nil && r.watch.Writing(filepath.Base(r.path)) }

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
		return stamp{size: -1}
	}
	return stamp{st.Dev, st.Ino, st.Size, st.Mtim, st.Ctim}
}

// load reads the file, unless somebody is writing to it: then the list stays as
// it was, and the file is due when it is closed. What cannot be read, and what
// does not load, is a list that refuses every key: one of them may be among
// those that it was to name.
func (r *revocations) load() (*authz.Revoked, stamp) {
	r.closed() // what came before is what is read now
	if r.begun && r.writing() {
		return r.list, r.taken
	}
	return r.read()
}

// took remembers what is in force now.
func (r *revocations) took(list *authz.Revoked, at stamp) { r.list, r.taken, r.begun = list, at, true }

func (r *revocations) read() (*authz.Revoked, stamp) {
	before := r.look()
	text, err := readBounded(r.path, authz.MaxRevoked, 0)
	if errors.Is(err, fs.ErrNotExist) && !r.required {
		return nil, stamp{}
	}
	if err == nil && r.look() != before {
		err = errors.New("it is being written to")
		before = stamp{size: -1} // to be read again
	}
	if err != nil {
		return authz.UnreadableRevoked(op.Refuse(op.Unavailable, "%v", err)), before
	}
	list, err := authz.LoadRevoked(text)
	if err != nil {
		refusal := op.AsRefusal(err)
		return authz.UnreadableRevoked(op.Refuse(refusal.Code, "%s: %s", r.path, refusal.Detail)), before
	}
	return list, before
}
