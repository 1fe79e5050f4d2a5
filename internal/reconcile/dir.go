package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gated/internal/base/inotify"
	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
)

const (
	// MaxFiles is the most documents of one directory.
	MaxFiles = 100_000
	// settle is how long a file must rest before it is read, unless inotify said that its writer closed it.
	settle = time.Second
)

// Dir is the source of the YAML files in one directory: regular files *.yaml and *.yml, not hidden. Each is a set with
// the file's name. It is safe for concurrent use.
type Dir struct {
	path   string
	rescan time.Duration
	now    func() time.Time
	after  func(time.Duration, func()) func()
	watch  *inotify.Watch

	mu      sync.Mutex
	files   map[string]*file
	bad     map[string]bool // files with an error
	names   []string        // of the documents, from the last listing
	listed  stat            // the directory at that listing
	scanned time.Time       // time of the last pass over all files; zero: one is due
	docs    []*SetDoc       // of all files, sorted; replaced, never changed
	stale   map[string]bool // files that changed since docs was made
}

// NewDir returns the source. A scan reads the whole directory each rescan. Between two scans, Dir looks only at the
// files that inotify names. Close ends it.
func NewDir(path string, rescan time.Duration, now func() time.Time) (*Dir, error) {
	w, err := inotify.New(document)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", path, err)
	}
	return &Dir{path: path, rescan: rescan, now: now, watch: w, files: map[string]*file{}, bad: map[string]bool{},
		stale: map[string]bool{},
		after: func(d time.Duration, f func()) func() { t := time.AfterFunc(d, f); return func() { t.Stop() } }}, nil
}

// Name returns "dir".
func (*Dir) Name() string { return "dir" }

// Changed receives after files were closed, moved or deleted.
func (d *Dir) Changed() <-chan struct{} { return d.watch.Changed() }

// Close ends the watch. Read still works: it looks at every file.
func (d *Dir) Close() error { return d.watch.Close() }

// Read returns the documents. One bad file makes the whole directory unreadable: a file that cannot be read, that
// others could have written (NotAllowed), or that is not valid. Its content could contradict the rest. A directory
// without any file is unreadable too, because a directory that is not mounted looks like that.
func (d *Dir) Read(ctx context.Context) ([]*SetDoc, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	dir, err := ownfile.Own().OpenDir(d.path)
	if err != nil {
		d.scanned = time.Time{}
		if refused := (*refusal.Refusal)(nil); errors.As(err, &refused) {
			return nil, mendable("desired state", refused)
		}
		return nil, refusal.New(refusal.Unavailable, "desired state: %v", err)
	}
	defer func() { _ = dir.Close() }()
	events, fresh := d.watch.Take(d.path, dir)
	whole := !fresh || d.scanned.IsZero() || len(events) == 0 || d.now().Sub(d.scanned) >= d.rescan || d.scanned.After(d.now())
	s := scan{dir: dir, fd: int(dir.Fd()), now: d.now(), events: events, watch: d.watch}
	if whole {
		err = d.scanAll(ctx, s)
	} else {
		for name := range events {
			d.update(s, name)
		}
	}
	if err != nil {
		d.scanned = time.Time{}
		return nil, err
	}
	if whole {
		d.scanned = s.now
	}
	return d.result()
}

// mendable adds the remedy to a refusal's sentence, because status shows only that sentence.
func mendable(what string, r *refusal.Refusal) error {
	return refusal.New(r.Code, "%s: %s: %s", what, r.Detail, r.Hint).WithHint("%s", r.Hint)
}

// scanAll looks at every file. An unchanged file costs one stat.
func (d *Dir) scanAll(ctx context.Context, s scan) error {
	changed, err := d.list(s)
	if err != nil {
		return err
	}
	same := make([]bool, len(d.names))
	inParallel(len(d.names), func(from, to int) {
		for i := from; i < to; i++ {
			f := d.files[d.names[i]]
			same[i] = f != nil && s.unchanged(d.names[i], f)
		}
	})
	if err := ctx.Err(); err != nil {
		return err
	}
	for i, name := range d.names {
		if !same[i] {
			d.update(s, name)
		}
	}
	if !changed {
		return nil
	}
	here := make(map[string]bool, len(d.names))
	for _, name := range d.names {
		here[name] = true
	}
	for name := range d.files {
		if !here[name] {
			d.put(name, nil)
		}
	}
	return nil
}

// list reads the names of the documents if the directory changed since the last listing. A directory that changed just
// now may change again within the same tick of the file system's clock. Then its times prove nothing.
func (d *Dir) list(s scan) (changed bool, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(s.fd, &st); err != nil {
		return false, refusal.New(refusal.Unavailable, "desired state: %v", err)
	}
	if now := statOf(&st); now != d.listed || s.now.Sub(now.touched()) < settle {
		names, err := s.dir.Readdirnames(-1)
		if err != nil {
			return false, refusal.New(refusal.Unavailable, "desired state: %v", err)
		}
		d.names = slices.DeleteFunc(names, func(name string) bool { return !document(name) })
		d.listed = now
		return true, nil
	}
	return false, nil
}

// update reads one file again if it changed and no writer has it open.
func (d *Dir) update(s scan, name string) {
	if !document(name) {
		return
	}
	f, changed := s.load(name, d.files[name])
	if !changed {
		return
	}
	d.put(name, f)
	if f != nil && f.unsettled {
		d.after(settle, d.watch.Announce)
	}
}

// put keeps what was read of a file; nil says that there is no file any more.
func (d *Dir) put(name string, f *file) {
	d.stale[name] = true
	delete(d.files, name)
	delete(d.bad, name)
	if f == nil {
		return
	}
	d.files[name] = f
	if f.err != nil {
		d.bad[name] = true
	}
}

// result returns the documents, or the error of the first file that has one.
func (d *Dir) result() ([]*SetDoc, error) {
	if len(d.files) == 0 {
		return nil, refusal.New(refusal.Unavailable, "desired state: %s has no *.yaml file", d.path).
			WithHint("to wish for nothing, say so: guests: []")
	}
	if len(d.files) > MaxFiles {
		return nil, refusal.New(refusal.Oversized, "desired state: %s has %d files, more than %d", d.path, len(d.files),
			MaxFiles)
	}
	if len(d.bad) > 0 {
		return nil, d.files[slices.Min(slices.Collect(maps.Keys(d.bad)))].err
	}
	if len(d.stale) > 0 {
		d.docs, d.stale = d.merged(), map[string]bool{}
	}
	return d.docs, nil
}

// merged returns the documents with those of the stale files put in. A reader may still have the old list, so it makes
// a new one.
func (d *Dir) merged() []*SetDoc {
	rest := d.docs
	docs := make([]*SetDoc, 0, len(d.files))
	for _, name := range slices.Sorted(maps.Keys(d.stale)) {
		at, old := slices.BinarySearchFunc(rest, name, func(s *SetDoc, name string) int { return strings.Compare(s.Set, name) })
		docs, rest = append(docs, rest[:at]...), rest[at:]
		if old {
			rest = rest[1:]
		}
		if f := d.files[name]; f != nil {
			docs = append(docs, f.doc)
		}
	}
	return append(docs, rest...)
}

// document reports whether a file of that name is a document.
func document(name string) bool {
	return !strings.HasPrefix(name, ".") && (strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml"))
}
