package loss

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gated/internal/base/op"
	"gated/internal/driver"
	"gated/internal/driver/libvirt"
	"gated/internal/driver/libvirt/libvirttest"
	"gated/internal/driver/libvirt/libvirtworld"
)

// slot is how many bytes of a disk a mark takes: all of them one byte.
const slot = 4096

// libvirtBed is virtual machines of a real libvirtd, which all sequences of a test
// share, one after the other. A mark is a pattern on a disk, at a place of its own.
type libvirtBed struct {
	*libvirttest.Libvirtd
	telling
	proxy *libvirttest.Proxy
	t     testing.TB
	marks map[int]mark      // by their number, which says where on a disk one is
	owner map[string]string // of a disk by its path: whose it is, or was last
	seen  map[string]image  // by path

	reading sync.Mutex
}

// image is what was found on a disk, and when the disk was changed last.
type image struct {
	changed time.Time
	size    int64
	parts   map[string][]int // numbers of marks, by "data" or "snapshot NAME"
}

var (
	libvirtds = map[testing.TB]*libvirttest.Libvirtd{}
	proxies   = map[testing.TB]*libvirttest.Proxy{}
)

func newLibvirtBed(t testing.TB) bed {
	if libvirtds[t] == nil {
		libvirtds[t] = libvirttest.Start(t)
		proxies[t] = libvirtds[t].Proxy()
	}
	l := libvirtds[t].For(t)
	l.Clear()
	b := &libvirtBed{Libvirtd: l, proxy: proxies[t], t: t, marks: map[int]mark{}, owner: map[string]string{}, seen: map[string]image{}}
	b.proxy.Tell(b.called)
	return b
}

func (*libvirtBed) at(string, asked) {}

func (b *libvirtBed) open(func() time.Time) (driver.Driver, func() error, error) {
	d, err := libvirt.New(libvirtworld.Config(b.proxy.Socket))
	if err != nil {
		return nil, nil, err
	}
	return d, d.Close, nil
}

func (*libvirtBed) sweep() error  { return nil } // it has no trash
func (*libvirtBed) settle() error { return nil } // programs in its guests are the actors of the sequence
func (b *libvirtBed) close()      { b.Clear() }

func (b *libvirtBed) holder(name string) string { return b.Defined()[name] }

func number(m mark) int {
	n, _ := strconv.Atoi(string(m[strings.LastIndexByte(string(m), '-')+1:]))
	return n
}

// io has QEMU write a byte all over the place of a mark: through the machine that
// runs, or on the image of one that stands still.
func (b *libvirtBed) io(name string, m mark, value byte) bool {
	command := fmt.Sprintf("write -P %d %d %d", value, number(m)*slot, slot)
	disks := b.Disks(name)
	if b.Defined()[name] == "" || len(disks) == 0 {
		return false
	}
	if b.Virsh("domstate", name) != "running" {
		return exec.Command("qemu-io", "-f", format(disks[0]), "-c", command, disks[0]).Run() == nil
	}
	out, err := exec.Command("virsh", "-q", "-c", b.URI, "qemu-monitor-command", name, "--hmp",
		fmt.Sprintf(`qemu-io libvirt-1-format "%s"`, command)).CombinedOutput()
	return err == nil && strings.Contains(string(out), "wrote ")
}

// format is that of a disk's file.
func format(path string) string {
	if strings.HasSuffix(path, ".qcow2") {
		return "qcow2"
	}
	return "raw"
}

func (b *libvirtBed) write(name string, m mark) bool {
	b.marks[number(m)] = m
	return b.io(name, m, pattern(number(m)))
}

func pattern(n int) byte { return byte(1 + n%255) }

func (b *libvirtBed) erase(name string, m mark) bool { return b.io(name, m, 0) }
func (*libvirtBed) rename(string, mark) bool         { return true } // a disk has no names

func (b *libvirtBed) holdings() (map[item]where, error) {
	b.reading.Lock() // a hand looks within a step, and the oracle beside it
	defer b.reading.Unlock()
	out := map[item]where{}
	named, has := map[string]string{}, map[string][]string{}
	for name, uuid := range b.Defined() {
		named[uuid], has[uuid] = name, b.Disks(name)
	}
	for uuid, paths := range has {
		for _, path := range paths {
			if !slices.Contains(has[b.owner[path]], path) { // its owner keeps a disk that another guest has, too
				b.owner[path] = uuid
			}
		}
	}
	files, err := filepath.Glob(filepath.Join(b.Images, "*"))
	for _, path := range files {
		found, err := b.read(path)
		if err != nil {
			return nil, err
		}
		holder := b.owner[path]
		for part, numbers := range found.parts {
			for _, n := range numbers {
				out[item{holder, strings.TrimSpace(part + " " + filepath.Base(path)), b.marks[n]}] = where{name: named[holder]}
			}
		}
	}
	return out, err
}

var snapshotLine = regexp.MustCompile(`(?m)^\d+ +(\S+)`)

// read looks for every mark on a disk and in its snapshots.
func (b *libvirtBed) read(path string) (image, error) {
	info, err := os.Stat(path)
	if err != nil {
		return image{}, nil // it went while we look
	}
	if was, ok := b.seen[path]; ok && was.changed.Equal(info.ModTime()) && was.size == info.Size() {
		return was, nil
	}
	is := image{changed: info.ModTime(), size: info.Size(), parts: map[string][]int{}}
	if is.parts["data"], err = b.raw(path); errors.Is(err, errNoHeader) {
		return is, nil // it keeps nothing, so the oracle asks what became of what it had
	} else if err != nil {
		return is, err
	}
	if format(path) == "qcow2" {
		list, err := exec.Command("qemu-img", "snapshot", "-U", "-l", path).Output()
		if err != nil {
			return is, fmt.Errorf("the snapshots of %s: %w", path, err)
		}
		for _, m := range snapshotLine.FindAllStringSubmatch(string(list), -1) {
			if is.parts["snapshot "+m[1]], err = b.raw(path, "-l", "snapshot.name="+m[1]); err != nil {
				return is, err
			}
		}
	}
	b.seen[path] = is
	return is, nil
}

// errNoHeader is of a file that was overwritten and not made again yet. A wipe does both, and a hand may look between them.
var errNoHeader = errors.New("the file is no disk")

// raw copies a disk out and returns the numbers of the marks that are whole on it.
func (b *libvirtBed) raw(path string, args ...string) (found []int, err error) {
	to := filepath.Join(scratchDir(), "gl-disk-"+strconv.Itoa(os.Getpid())) // one at a time: holdings has the lock
	defer func() { _ = os.Remove(to) }()
	args = append(append([]string{"convert", "-U", "-f", format(path), "-O", "raw"}, args...), path, to)
	if out, err := exec.Command("qemu-img", args...).CombinedOutput(); bytes.Contains(out, []byte("Image is not in qcow2 format")) {
		return nil, errNoHeader
	} else if err != nil {
		return nil, fmt.Errorf("read %s: %w: %s", path, err, out)
	}
	f, err := os.Open(to)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	for n := range b.marks {
		buf := make([]byte, slot)
		if _, err := f.ReadAt(buf, int64(n*slot)); err == nil && bytes.Count(buf, []byte{pattern(n)}) == slot {
			found = append(found, n)
		}
	}
	return found, nil
}

func (*libvirtBed) kind() string        { return op.KindGuest }
func (*libvirtBed) targets() []string   { return nil }
func (*libvirtBed) commands() []string  { return nil }
func (*libvirtBed) templates() []string { return []string{libvirt.DefaultTemplate} }
func (*libvirtBed) newDisk() string     { return "vdc" }
func (*libvirtBed) making() op.Params   { return op.Params{} }

func (*libvirtBed) free(string, [5]uint8) op.Params { return op.Params{} }
