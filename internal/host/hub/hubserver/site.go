package hubserver

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/hub"
	"gated/internal/host/hub/hubstate"
)

// settle is how long a host's files and directories must rest before they are served. A file may be half written, and a
// missing file may come back under its name.
const settle = time.Second

// maxHosts is the most hosts of one directory.
const maxHosts = 20_000

// site is a directory with one directory for each host. It reads it and writes
// nothing. It is safe for concurrent use.
type site struct {
	root *os.Root
	now  func() time.Time

	mu    sync.Mutex
	hosts map[string]*served // by host and what is served
}

// served is the last reading of one host.
type served struct {
	files []seen
	body  []byte // the answer
	tag   string // hex, of the body
	name  string // the revision; empty for operations
}

// seen is the state of a file when it was read.
type seen struct {
	name    string
	size    int64
	inode   uint64
	touched time.Time // when its content or its name changed last
}

// hostNames lists the hosts, sorted.
func (s *site) hostNames() ([]string, error) {
	_, all, err := s.list(".")
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range all {
		if e.IsDir() && hostName(e.Name()) {
			out = append(out, e.Name())
		}
	}
	if len(out) > maxHosts {
		return nil, refusal.New(refusal.Oversized, "there are %d hosts, more than %d", len(out), maxHosts)
	}
	return out, nil
}

// hostName reports whether a name can be that of a host's directory.
func hostName(name string) bool {
	return name != "" && len(name) <= 253 && name[0] != '.' && !strings.ContainsAny(name, "/\x00")
}

// Document implements hubstate.Documents.
func (s *site) Document(_ context.Context, host, what, tag string) (hubstate.Document, error) {
	of := s.desired
	if what == hub.PathOperations {
		of = s.operations
	}
	d, err := of(host)
	if err != nil {
		return hubstate.Document{}, err
	}
	out := hubstate.Document{Tag: d.tag, Revision: d.name}
	if tag != d.tag {
		out.Body = d.body
	}
	return out, nil
}

// Has implements hubstate.Documents.
func (s *site) Has(_ context.Context, host string) error { return s.has(host) }

// Hosts implements hubstate.Documents.
func (s *site) Hosts(_ context.Context, after string, limit int) ([]string, error) {
	names, err := s.hostNames()
	if err != nil {
		return nil, err
	}
	at, found := slices.BinarySearch(names, after)
	if found {
		at++
	}
	names = names[at:]
	return names[:min(len(names), limit)], nil
}

// has refuses a host without a directory, as UnknownTarget.
func (s *site) has(host string) error {
	if hostName(host) {
		if info, err := s.root.Lstat(host); err == nil && info.IsDir() {
			return nil
		}
	}
	return refusal.New(refusal.UnknownTarget, "there is no directory for the host %q", op.Shown(host))
}

// desired returns the wishes for a host: each *.yaml and *.yml is a set, named like the file without its ending.
func (s *site) desired(host string) (*served, error) {
	return s.serve(host, hub.PathDesired, host, isDocument, hub.MaxSets, func(files map[string][]byte) (any, string, error) {
		sets, sum := map[string]string{}, sha256.New()
		for _, file := range slices.Sorted(maps.Keys(files)) {
			name := strings.TrimSuffix(file, path.Ext(file))
			if _, twice := sets[name]; twice {
				return nil, "", refusal.New(refusal.Conflict, "two files have the set %s", op.Shown(name))
			}
			sets[name] = string(files[file])
			_, _ = fmt.Fprintf(sum, "%q %q\n", name, files[file]) // a hash never fails
		}
		revision := hex.EncodeToString(sum.Sum(nil))[:16]
		return hub.Desired{Revision: revision, Host: host, Sets: sets}, revision, nil
	})
}

func isDocument(name string) bool {
	return !strings.HasPrefix(name, ".") && (strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml"))
}

// operations returns the operations for a host: NAME.json has what operators signed. NAME.json.sig and NAME.json.*.sig
// have the signatures, as opsign sign and ssh-keygen -Y sign write them. A file without signatures is left out.
func (s *site) operations(host string) (*served, error) {
	dir := path.Join(host, "operations")
	if _, err := s.root.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		dir = "" // the host has no operations
	}
	most := hub.MaxOperations * (1 + op.MaxSignatures)
	return s.serve(host, hub.PathOperations, dir, isSigned, most, func(files map[string][]byte) (any, string, error) {
		out := hub.Operations{Host: host, Operations: []api.Envelope{}}
		names := slices.Sorted(maps.Keys(files))
		for _, name := range names {
			if !strings.HasSuffix(name, ".json") {
				continue
			}
			var signatures []string
			for _, sig := range names {
				if strings.HasPrefix(sig, name+".") {
					signatures = append(signatures, string(files[sig]))
				}
			}
			if len(signatures) > 0 {
				out.Operations = append(out.Operations, api.EnvelopeOf(files[name], signatures...))
			}
		}
		return out, "", nil
	})
}

func isSigned(name string) bool {
	return !strings.HasPrefix(name, ".") && (strings.HasSuffix(name, ".json") || strings.HasSuffix(name, ".sig"))
}

// serve returns the answer for the files of a directory. It returns the answer before if nothing changed or the files
// did not rest long enough.
func (s *site) serve(host, what, dir string, takes func(string) bool, most int, build func(map[string][]byte) (any, string, error)) (*served, error) {
	if err := s.has(host); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.hosts[what+" "+host]
	files, settled, err := s.look(host, dir, takes, most)
	switch {
	case err != nil:
		return nil, err
	case before != nil && (!settled || slices.Equal(files, before.files)):
		return before, nil
	case !settled:
		return nil, refusal.New(refusal.Unavailable, "the files of %s are being written", op.Shown(host)).
			WithHint("ask again in %s", settle)
	}
	texts, err := s.read(dir, files)
	if err != nil {
		return nil, err
	}
	again, settled, err := s.look(host, dir, takes, most)
	if err != nil {
		return nil, err
	}
	if !settled || !slices.Equal(files, again) {
		return nil, refusal.New(refusal.Unavailable, "the files of %s changed while they were read", op.Shown(host))
	}
	v, name, err := build(texts)
	if err != nil {
		return nil, err
	}
	body, err := api.Encode(v)
	if err != nil {
		return nil, err
	}
	if len(body) > hub.MaxAnswer {
		return nil, refusal.New(refusal.Oversized, "what is served to %s has %d bytes, more than %d", op.Shown(host),
			len(body), hub.MaxAnswer)
	}
	next := &served{files: files, body: body, tag: op.SHA256(body), name: name}
	s.hosts[what+" "+host] = next
	return next, nil
}

// look lists the files of a directory, sorted, and says whether they, the directory and the host's directory have
// rested long enough. The files' ages alone do not show that a file just disappeared: serving without it would withdraw
// a set during a rename.
func (s *site) look(host, dir string, takes func(string) bool, most int) (files []seen, settled bool, err error) {
	settled, total := true, int64(0)
	for _, d := range slices.Compact([]string{host, dir}) {
		if d == "" {
			break
		}
		self, entries, err := s.list(d)
		if err != nil {
			return nil, false, err
		}
		settled = settled && s.alone(self)
		for _, e := range entries {
			if d != dir || !takes(e.Name()) {
				continue
			}
			info, err := e.Info()
			if err != nil {
				return nil, false, refusal.New(refusal.Unavailable, "%v", err)
			}
			if !info.Mode().IsRegular() {
				return nil, false, refusal.New(refusal.NotAllowed, "%s is no regular file", op.Shown(path.Join(dir, e.Name())))
			}
			f := seenOf(info)
			settled = settled && s.alone(f)
			if total += f.size; total > hub.MaxAnswer {
				return nil, false, refusal.New(refusal.Oversized, "the files of %s have more than %d bytes",
					op.Shown(dir), hub.MaxAnswer)
			}
			files = append(files, f)
		}
	}
	if len(files) > most {
		return nil, false, refusal.New(refusal.Oversized, "%s has %d files, more than %d", op.Shown(dir), len(files), most)
	}
	return files, settled, nil
}

// alone reports whether a file has rested long enough. A time far in the future means that a clock was set back, and
// does not count as recent.
func (s *site) alone(f seen) bool { return s.now().Sub(f.touched).Abs() >= settle }

// list reads a directory, sorted by name. It reads the directory's times after the entries, so that a change during the
// reading shows.
func (s *site) list(dir string) (self seen, entries []fs.DirEntry, err error) {
	f, err := s.root.Open(dir)
	if err == nil {
		defer f.Close()
		entries, err = f.ReadDir(-1)
	}
	var info fs.FileInfo
	if err == nil {
		info, err = f.Stat()
	}
	if err != nil {
		return seen{}, nil, refusal.New(refusal.Unavailable, "%v", err)
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return seenOf(info), entries, nil
}

func seenOf(info fs.FileInfo) seen {
	f := seen{name: info.Name(), size: info.Size(), touched: info.ModTime()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		f.inode = st.Ino
		if c := time.Unix(st.Ctim.Unix()); c.After(f.touched) {
			f.touched = c
		}
	}
	return f
}

// read reads files that look listed.
func (s *site) read(dir string, files []seen) (map[string][]byte, error) {
	out := make(map[string][]byte, len(files))
	for _, want := range files {
		var b []byte
		f, err := s.root.OpenFile(path.Join(dir, want.name), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
		if err == nil {
			b, err = io.ReadAll(io.LimitReader(f, want.size+1))
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			return nil, refusal.New(refusal.Unavailable, "%v", err)
		}
		if int64(len(b)) != want.size {
			return nil, refusal.New(refusal.Unavailable, "%s changed while it was read", op.Shown(want.name))
		}
		out[want.name] = b
	}
	return out, nil
}
