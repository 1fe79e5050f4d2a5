package reconcile

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"gated/internal/base/inotify"
	"gated/internal/base/op"
	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/wire/desired"
)

// sourceState is the result of the last read of a source.
type sourceState struct {
	docs   []*SetDoc
	err    error
	readAt time.Time
}

// read reads every source. It queues targets whose wish changed, and remembers which wishes ended and must be
// withdrawn.
func (r *Reconciler) read(ctx context.Context) {
	r.reading.Lock() // read alone sets r.sources, so below it reads them without r.mu
	defer r.reading.Unlock()
	states, changes := make([]sourceState, len(r.Sources)), make([]change, len(r.Sources))
	whole := true
	for i := range r.Sources {
		states[i], changes[i] = r.readSource(ctx, i)
		if states[i].err != nil && ctx.Err() != nil {
			return // a read that was cut off proves nothing
		}
		whole = whole && states[i].err == nil
	}
	next := r.wishes.plan(changes) // it may take long, and decisions wait for r.mu
	r.mu.Lock()
	r.logErrors(states)
	r.sources = states
	due := r.take(changes, next, whole)
	r.mu.Unlock()
	for _, t := range due {
		r.queue.add(t)
	}
}

// readSource reads one source, and compares its documents with those of the last read. A source with an error has none.
func (r *Reconciler) readSource(ctx context.Context, i int) (sourceState, change) {
	s, before := r.Sources[i], r.sources[i].docs
	var docs []*SetDoc
	err := driver.Safely(r.Logger, "the source "+s.Name(), func() (err error) {
		docs, err = s.Read(ctx)
		return err
	})
	c := change{source: i}
	if err == nil {
		c.gone, c.added = differences(before, docs)
		err = r.checkHost(c.added) // the other documents were checked when they were new
	}
	if err != nil {
		docs, c.gone, c.added = nil, before, nil
	}
	return sourceState{docs: docs, err: err, readAt: r.Now()}, c
}

// checkHost refuses documents that are for another host (P10).
func (r *Reconciler) checkHost(docs []*SetDoc) error {
	for _, d := range docs {
		if d.Doc.Host != r.Host {
			return refusal.New(refusal.TargetMismatch, "%s is for the host %q, and this one is %q", d.Set, d.Doc.Host, r.Host).
				WithHint("nothing of this source is taken until it is moved or corrected")
		}
	}
	return nil
}

// take changes the index as planned, and returns the targets whose wishes changed. The caller holds r.mu.
func (r *Reconciler) take(changes []change, next map[op.Target]*wish, whole bool) (due []op.Target) {
	ix := r.wishes
	ix.whole = whole
	for t, before := range ix.apply(changes, next) {
		now := ix.wishes[t]
		if now != nil && now.same(before) {
			now.found = before.found
			continue
		}
		due = append(due, t)
		if now != nil {
			m := r.target(t)
			m.retry = nil
			if before != nil {
				m.stopped = nil // the wish is another now
			}
		}
		r.forget(ix, t, before)
		if m := r.targets[t]; now == nil && m != nil {
			m.adopted, m.unknown = nil, ""
		}
	}
	return due
}

// forget remembers which sets must withdraw their wishes for a target. If a set could not be read, nothing of it is
// withdrawn: its wish only rests. The caller holds r.mu.
func (r *Reconciler) forget(ix *index, t op.Target, before *wish) {
	if before == nil {
		return
	}
	for _, set := range before.sets {
		if !ix.knows(set) || ix.wants(set, t) {
			continue
		}
		m := r.target(t)
		if m.withdraw == nil {
			m.withdraw = map[string]bool{}
		}
		m.withdraw[set] = true
		m.stopped = nil
	}
}

// logErrors logs each source's error that is new.
func (r *Reconciler) logErrors(states []sourceState) {
	for i, s := range states {
		before, now := r.sources[i].err, s.err
		switch {
		case now != nil && (before == nil || before.Error() != now.Error()):
			r.Logger.Warn("desired state cannot be read", "source", r.Sources[i].Name(), "error", now)
		case now == nil && before != nil:
			r.Logger.Info("desired state can be read again", "source", r.Sources[i].Name())
		}
	}
}

// file is one document as it was last read.
type file struct {
	stat      stat
	doc       *SetDoc // nil if there is an error
	err       error
	unsettled bool // err says only that a writer may still have it open
}

// stat has everything that changes if a file's content does, as far as the file system tells.
type stat struct {
	dev, ino     uint64
	size         int64
	mtime, ctime unix.Timespec
}

func statOf(st *unix.Stat_t) stat {
	return stat{dev: st.Dev, ino: st.Ino, size: st.Size, mtime: st.Mtim, ctime: st.Ctim}
}

// touched returns the time of the file's last change.
func (s stat) touched() time.Time {
	m, c := time.Unix(s.mtime.Unix()), time.Unix(s.ctime.Unix())
	if m.After(c) {
		return m
	}
	return c
}

// scan is one pass over a directory or some of its files.
type scan struct {
	dir    *os.File
	fd     int // of dir
	now    time.Time
	events map[string]bool // files that were closed, moved or deleted since the last pass
	watch  *inotify.Watch
}

var errUnsettled = errors.New("it may still be written to")

// unchanged reports whether a file is as it was when it was read.
func (s scan) unchanged(name string, f *file) bool {
	var st unix.Stat_t
	err := unix.Fstatat(s.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && !f.unsettled && f.stat == statOf(&st)
}

// load looks at one file and reads it if it changed. If there is no file, it returns none. If there is nothing new, it
// returns old, and changed is false. It also does so while a writer has the file open, because half a document must not
// be read: the old document counts until the writer closes.
func (s scan) load(name string, old *file) (f *file, changed bool) {
	var st unix.Stat_t
	err := unix.Fstatat(s.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return nil, old != nil
	}
	if err == nil && old != nil && old.stat == statOf(&st) && !old.unsettled {
		return old, false
	}
	if s.watch.Writing(name) {
		return old, false
	}
	f = &file{stat: statOf(&st), err: err}
	if f.err == nil {
		f.err = s.read(f, name, &st, old)
	}
	if s.watch.Writing(name) || errors.Is(f.err, unix.ENOENT) {
		return old, false // it changed during the read; an event follows when the writer closes it
	}
	var r *refusal.Refusal
	switch {
	case errors.Is(f.err, errUnsettled):
		f.unsettled = true
		f.err = refusal.New(refusal.Unavailable, "%s: %v", name, f.err).WithHint("it is read when its writer closes it")
	case f.err != nil && !errors.As(f.err, &r):
		f.err = refusal.New(refusal.Unavailable, "%s: %v", name, f.err)
	}
	return f, true
}

// read reads and parses a file into f. If the bytes are the same, it takes the parsed document from old.
func (s scan) read(f *file, name string, st *unix.Stat_t, old *file) error {
	switch {
	case op.CheckName(name) != nil:
		return refusal.New(refusal.Malformed, "%s: %q is not a name for a set", filepath.Base(s.dir.Name()), name).
			WithHint("rename the file: letters and digits, then also . _ and -")
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		// The daemon must not follow a link: it could show lines of a file that the directory's owner may not read. A
		// FIFO would block for ever.
		return refusal.New(refusal.Malformed, "%s: not a regular file", name)
	case st.Size > desired.MaxBytes:
		return refusal.New(refusal.Oversized, "%s: %d bytes, more than %d", name, st.Size, desired.MaxBytes)
	}
	if age := s.now.Sub(f.stat.touched()); !s.events[name] && age >= 0 && age < settle {
		return errUnsettled
	}
	fd, err := unix.Openat(s.fd, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	h := os.NewFile(uintptr(fd), filepath.Join(s.dir.Name(), name))
	defer func() { _ = h.Close() }()
	err = ownfile.Own().CheckOpen(h)
	if refused := (*refusal.Refusal)(nil); errors.As(err, &refused) {
		return mendable(name, refused)
	}
	if err != nil {
		return err
	}
	b, err := io.ReadAll(io.LimitReader(h, desired.MaxBytes+1))
	if err != nil {
		return err
	}
	var after unix.Stat_t
	if err := unix.Fstat(fd, &after); err != nil {
		return err
	}
	if statOf(&after) != f.stat || int64(len(b)) != after.Size {
		return errUnsettled
	}
	digest := op.SHA256(b)
	if old != nil && old.doc != nil && old.doc.Digest == digest {
		f.doc = old.doc
		return nil
	}
	doc, err := desired.Parse(name, b)
	if err != nil {
		return err
	}
	f.doc = &SetDoc{Set: name, Doc: doc, Digest: digest}
	return nil
}

// fields has the names of all fields that a document can set. A loop over these is faster than over a map of the fields
// that are set.
var fields = func() []string {
	spec, err := op.Lookup("guest.set-config")
	if err != nil {
		panic("reconcile: " + err.Error())
	}
	var names []string
	for _, p := range spec.Params {
		names = append(names, p.Name)
	}
	return names
}()

// mergeLabels returns all labels that a guest will have: those it has, and those that are wished for. takes says that a
// wish changes the value of a label that it has. A label without a wish stays, as does every field without a wish.
func mergeLabels(want op.Params, have map[string]string) (all map[string]any, takes bool) {
	all = make(map[string]any, len(have))
	for k, v := range have {
		all[k] = v
	}
	for k, v := range want.Labels("labels") {
		if old, ok := have[k]; ok && old != v {
			takes = true
		}
		all[k] = v
	}
	return all, takes
}

// SetDoc is one named document of a source. It is never changed.
type SetDoc struct {
	Set    string
	Doc    desired.Document
	Digest string // SHA-256 of the document's bytes, lower-case hex
}

// Source is where desired state comes from.
type Source interface {
	// Name is what status calls the source.
	Name() string

	// Read returns every document, sorted by set, and each set once. The caller must not change the result, and a source
	// may return the same slice, or the same documents, again. An error means that the source could not be read completely. Then reconcile plans nothing from
	// it, and withdraws nothing that it wished for.
	Read(ctx context.Context) ([]*SetDoc, error)
}

// Notifier is a source that knows when it changed.
type Notifier interface {
	// Changed receives after the source changed. Several changes may send one signal.
	Changed() <-chan struct{}
}
