package libvirt

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	golibvirt "github.com/digitalocean/go-libvirt"
	"golang.org/x/sys/unix"
)

// maxChain is how many backing files are followed.
const maxChain = 64

// The head of a qcow2 file: magic, version, the offset and the length of the
// backing file's name, big endian (QEMU's docs/interop/qcow2.txt).
const (
	qcowMagic  = "QFI\xfb"
	qcowHead   = 20
	qcowName   = 1023 // the longest backing file name, in bytes
	jsonPrefix = "json:"
)

// backing returns the backing file of a qcow2 file, or "" where it has none. What
// a guest can write never says so of its own disk: only files that are qcow2 to
// libvirt, and what they name, are looked at. A file that may not be read here is
// one that libvirtd is asked about, as far as it is in a pool.
func backing(ctx context.Context, s *session, path string) string {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrPermission) {
		return backingByPool(ctx, s, path)
	}
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return backingName(f, filepath.Dir(path))
}

func backingByPool(ctx context.Context, s *session, path string) string {
	text, err := call(ctx, s, func(lv *golibvirt.Libvirt) (string, error) {
		vol, err := lv.StorageVolLookupByPath(path)
		if err != nil {
			return "", err
		}
		return lv.StorageVolGetXMLDesc(vol, 0)
	})
	if err != nil {
		return "" // in no pool; a connection that broke ends the whole look
	}
	x, err := parseXML[volumeXML](text)
	if err != nil || !filepath.IsAbs(x.Backing.Path) {
		return ""
	}
	return filepath.Clean(x.Backing.Path)
}

func backingName(f io.ReaderAt, dir string) string {
	var head [qcowHead]byte
	if _, err := f.ReadAt(head[:], 0); err != nil || string(head[:4]) != qcowMagic {
		return ""
	}
	at, n := binary.BigEndian.Uint64(head[8:]), binary.BigEndian.Uint32(head[16:])
	if at == 0 || n == 0 || n > qcowName || at > 1<<30 {
		return ""
	}
	name := make([]byte, n)
	if _, err := f.ReadAt(name, int64(at)); err != nil {
		return ""
	}
	text := strings.TrimPrefix(string(name), "file:")
	if text == "" || strings.ContainsRune(text, 0) || strings.HasPrefix(text, jsonPrefix) || strings.Contains(text, "://") {
		return ""
	}
	if !filepath.IsAbs(text) {
		text = filepath.Join(dir, text)
	}
	return filepath.Clean(text)
}

// uses are the paths that a domain's disks are on: of what it is configured
// with, of what it runs with, and every backing file below.
func (dom *domain) uses(ctx context.Context, s *session) (map[string]bool, error) {
	out := map[string]bool{}
	for _, x := range append(dom.xml.Disks, dom.live.Disks...) {
		path, err := sourcePath(ctx, s, x)
		if err != nil && s.broken {
			return nil, err
		}
		if err != nil || path == "" {
			continue
		}
		for n := 0; path != "" && n < maxChain && !out[filepath.Clean(path)]; n++ {
			out[filepath.Clean(path)] = true
			if x.Driver.Type != formatQCOW2 && n == 0 {
				break
			}
			path = backing(ctx, s, path)
		}
		if s.broken {
			return nil, errAway
		}
	}
	return out, nil
}

// files indexes, by path, the domains that use it.
type files map[string][]*domain

func filesOf(ctx context.Context, s *session, all []*domain) (files, error) {
	out := files{}
	for _, dom := range all {
		if dom.broken != nil {
			continue
		}
		used, err := dom.uses(ctx, s)
		if err != nil {
			return nil, err
		}
		for path := range used {
			out[path] = append(out[path], dom)
		}
	}
	return out, nil
}

// others returns who else uses the disk: what is done to it would happen to them.
func (f files) others(dom *domain, k disk) []*domain {
	var out []*domain
	if k.path == "" {
		return nil
	}
	for _, other := range f[filepath.Clean(k.path)] {
		if other.UUID != dom.UUID {
			out = append(out, other)
		}
	}
	return out
}
