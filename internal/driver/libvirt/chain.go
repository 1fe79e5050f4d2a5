package libvirt

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	golibvirt "github.com/digitalocean/go-libvirt"
	"golang.org/x/sys/unix"

	"gated/internal/base/refusal"
)

// maxChain is the most backing files that the driver follows.
const maxChain = 64

// The head of a qcow2 file, big endian: magic, version, the offset and the length of the
// backing file's name. From version 3 on, features and its own length follow. Then come
// extensions, each a type, a length, and data up to a multiple of eight bytes (QEMU's
// docs/interop/qcow2.txt).
const (
	qcowMagic     = "QFI\xfb"
	qcowHead      = 20
	qcowHead2     = 72   // of version 2
	qcowHead3     = 104  // of version 3, up to its length
	qcowName      = 1023 // the longest name of a file in it, in bytes
	qcowHeads     = 1 << 16
	qcowEnd       = 0
	qcowFormatExt = 0xe2792aca // the format of the backing file
	qcowDataExt   = 0x44415441 // the file that holds the data
	qcowDataBit   = 1 << 2     // of the incompatible features: the file has such a data file
	filePrefix    = "file:"
)

// head is what a qcow2 file says of other files.
type head struct {
	backing string // absolute; "" where it has none
	format  string // of the backing file; "" where it is not said
	data    string // absolute; "" where the data is in the file itself
}

// readHead reads the head of a file that libvirt calls qcow2. What a guest writes on its disk
// never makes it qcow2. If the daemon may not read the file, it asks libvirtd, which only knows
// files in pools. A missing file has an empty head. An error says that the head is not known.
func readHead(ctx context.Context, s *session, path string) (head, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrPermission):
		below, err := backingByPool(ctx, s, path)
		return head{backing: below}, err
	case absentFile(err):
		return head{}, nil
	case err != nil:
		return head{}, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return head{}, err
	}
	if m := info.Mode(); !m.IsRegular() && m.Type() != fs.ModeDevice {
		return head{}, fmt.Errorf("%s is neither a file nor a disk", path)
	}
	return parseHead(f, filepath.Dir(path))
}

// absentFile reports if err says that the path has no file.
func absentFile(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
}

func backingByPool(ctx context.Context, s *session, path string) (string, error) {
	text, err := call(ctx, s, func(lv *golibvirt.Libvirt) (string, error) {
		vol, err := lv.StorageVolLookupByPath(path)
		if err != nil {
			return "", err
		}
		return lv.StorageVolGetXMLDesc(vol, 0)
	})
	if err != nil {
		return "", fmt.Errorf("%s may not be read, and libvirtd does not know it: %w", path, err)
	}
	x, err := parseXML[volumeXML](text)
	if format := x.Target.Format.Type; err == nil && (format == "vmdk" || format == "qed") {
		return "", fmt.Errorf("it is %s, which is not followed", format)
	}
	if err != nil || x.Backing.Path == "" {
		return "", err
	}
	return fileName(x.Backing.Path, filepath.Dir(path))
}

// parseHead reads the head of a file. A file that does not begin as qcow2 has none. It fails for a file of another format
// that can name files of its own: QEMU may take it for a disk if nothing says which format it has.
func parseHead(f io.ReaderAt, dir string) (head, error) {
	var h head
	start := make([]byte, probed)
	got, err := f.ReadAt(start, 0)
	if got < qcowHead || string(start[:4]) != qcowMagic {
		if errors.Is(err, io.EOF) {
			err = nil
		}
		if err == nil && namesOthers(string(start[:got])) {
			err = errors.New("it is a disk in a format that may name files of its own, and is not followed")
		}
		return h, err
	}
	version := binary.BigEndian.Uint32(start[4:])
	at, n := binary.BigEndian.Uint64(start[8:]), binary.BigEndian.Uint32(start[16:])
	if at != 0 && n != 0 {
		if n > qcowName || at > 1<<30 {
			return h, errors.New("the name of its backing file cannot be read")
		}
		name := make([]byte, n)
		if got, err := f.ReadAt(name, int64(at)); got < len(name) {
			return h, fmt.Errorf("the name of its backing file cannot be read: %w", err)
		}
		var err error
		if h.backing, err = fileName(string(name), dir); err != nil {
			return h, err
		}
	}
	if version < 2 {
		return h, nil
	}
	return h, h.extensions(f, version, dir)
}

// probed is how many bytes QEMU reads to find a format (BLOCK_PROBE_BUF_SIZE).
const probed = 512

// namesOthers reports whether a file begins as QED or as VMDK, which can be text after comments.
func namesOthers(start string) bool {
	for _, magic := range []string{"QED\x00", "KDMV", "COWD"} {
		if strings.HasPrefix(start, magic) {
			return true
		}
	}
	for line := range strings.Lines(start) {
		if !strings.HasPrefix(line, "#") && strings.TrimSpace(line) != "" {
			return strings.HasPrefix(line, "version=")
		}
	}
	return false
}

// extensions reads what comes after the fields of the head.
func (h *head) extensions(f io.ReaderAt, version uint32, dir string) error {
	all := make([]byte, qcowHeads)
	got, err := f.ReadAt(all, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	all = all[:got]
	at, outside := qcowHead2, false
	if version > 2 && len(all) >= qcowHead3 {
		outside = binary.BigEndian.Uint64(all[72:])&qcowDataBit != 0
		at = int(min(binary.BigEndian.Uint32(all[100:]), qcowHeads))
	}
	for at+8 <= len(all) {
		kind, n := binary.BigEndian.Uint32(all[at:]), int(min(binary.BigEndian.Uint32(all[at+4:]), qcowHeads))
		at += 8
		if kind == qcowEnd || at+n > len(all) {
			break
		}
		switch text := string(all[at : at+n]); kind {
		case qcowFormatExt:
			h.format = text
		case qcowDataExt:
			if h.data, err = fileName(text, dir); err != nil {
				return err
			}
		}
		at += (n + 7) &^ 7
	}
	if outside && h.data == "" {
		return errors.New("its data is in another file, which it does not name")
	}
	return nil
}

// fileName is the absolute path of a name in a head. It fails for a name that QEMU does not
// read as a file name, because the driver does not follow it.
func fileName(text, dir string) (string, error) {
	text = strings.TrimPrefix(text, filePrefix)
	before, _, _ := strings.Cut(text, "/")
	if text == "" || strings.ContainsRune(text, 0) || strings.Contains(before, ":") {
		return "", fmt.Errorf("%q below it is not the name of a file, and is not followed", text)
	}
	if !filepath.IsAbs(text) {
		text = filepath.Join(dir, text)
	}
	return filepath.Clean(text), nil
}

// newDiskName is the form of a new disk's name, because the driver puts new disks on the virtio
// bus.
var newDiskName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^vd[a-z]{1,2}$`)
})

func (w *work) diskCreate(ctx context.Context) (action, error) {
	name := w.step.Params.Str("disk")
	for _, x := range append(w.guest.xml.Disks, w.guest.live.Disks...) {
		if x.Target.Dev == name {
			return nil, refusal.New(refusal.Conflict, "%s has a disk %s already", w.step.Target, name)
		}
	}
	if err := w.defined(); err != nil {
		return nil, err
	}
	where, format := w.cfg.Pool, formatQCOW2
	for _, k := range w.guest.disks {
		if k.deletable() {
			where, format = k.volume.Pool, choose(k.format == formatRaw, formatRaw, formatQCOW2)
			break
		}
	}
	pool, err := w.pool(ctx, where)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		volume := volumeName(orElse(w.guest.mark.birth, w.guest.xml.UUID), name, format)
		vol, path, err := w.newVolume(ctx, pool, volume, format, w.step.Params.Int("size")<<20, "")
		if err != nil {
			return err
		}
		err = w.do(ctx, func(lv *golibvirt.Libvirt) error {
			return lv.DomainAttachDeviceFlags(w.guest.Domain, diskText(name, path, format), w.reach())
		})
		if err != nil {
			w.discard(ctx, vol, false)
		}
		return err
	}, nil
}

// reach is the target of a change of devices: the definition, and the guest that runs.
func (w *work) reach() uint32 {
	if w.guest.active {
		return uint32(golibvirt.DomainDeviceModifyConfig | golibvirt.DomainDeviceModifyLive)
	}
	return uint32(golibvirt.DomainDeviceModifyConfig)
}

// own finds the step's disk. It refuses a disk that another guest uses too.
func (w *work) own(name string) (disk, error) {
	k, _ := w.guest.diskNamed(name) // a step on a disk that is missing came no further than driver.Fits
	return k, w.mine(k)
}

func (w *work) mine(k disk) error {
	switch {
	case k.shared:
		return refusal.New(refusal.Conflict, "the disk %s of %s is read only, or shared", k.target, w.step.Target)
	case k.volume == nil:
		return refusal.New(refusal.Conflict, "the disk %s of %s is in no active pool of this libvirtd",
			k.target, w.step.Target).
			WithHint("virsh pool-refresh, pool-start or pool-define-as make it one that gated can act on")
	}
	if err := w.guest.used.alone(w.guest.domain, k, nil); err != nil {
		return refusal.New(refusal.Conflict, "the disk %s of %s: %v", k.target, w.step.Target, err)
	}
	return w.defined()
}

// still refuses a step that only works on a stopped guest. A guest without an operating system
// never releases a disk.
func (w *work) still() error {
	if !w.guest.active {
		return nil
	}
	return refusal.New(refusal.Conflict, "%s runs", w.step.Target).
		WithHint("stop it first: gated submit guest.stop %s", w.step.Target.Name)
}

func (w *work) diskDetach(context.Context) (action, error) {
	k, _ := w.guest.diskNamed(w.step.Params.Str("disk"))
	if err := w.defined(); err != nil {
		return nil, err
	}
	if err := w.noSnapshots(); err != nil {
		return nil, err
	}
	if err := w.still(); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		_, now, err := w.untouched(ctx)
		if err == nil && !sameDisks(now.xml.Disks, w.guest.xml.Disks) {
			err = stale("%s was given another disk meanwhile", w.step.Target)
		}
		if err != nil {
			return err
		}
		w.detail = "it is kept: " + orElse(k.path, string(k.id))
		return w.detach(ctx, k)
	}, nil
}

// detach removes a disk from the definition.
func (w *work) detach(ctx context.Context, k disk) error {
	text := fmt.Sprintf(`<disk type='file' device='disk'><target dev='%s'/></disk>`, escape(k.target)) // found by its name
	return w.do(ctx, func(lv *golibvirt.Libvirt) error {
		return lv.DomainDetachDeviceFlags(w.guest.Domain, text, uint32(golibvirt.DomainDeviceModifyConfig))
	})
}

func (w *work) diskDelete(context.Context) (action, error) {
	k, err := w.own(w.step.Params.Str("disk"))
	if err == nil {
		err = w.guest.used.clear(nil)
	}
	if err == nil {
		err = w.noSnapshots()
	}
	if err == nil {
		err = w.still()
	}
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		if err := w.unused(ctx, k, nil); err != nil {
			return err
		}
		if err := w.detach(ctx, k); err != nil {
			return err
		}
		return w.deleteVolume(ctx, k, nil)
	}, nil
}

// noSnapshots refuses a change of disks if the guest has snapshots. The change would delete
// them with the disk, or leave them without a disk.
func (w *work) noSnapshots() error {
	if len(w.guest.snapshots) == 0 {
		return nil
	}
	return refusal.New(refusal.Conflict, "%s has snapshots, which are in its disks", w.step.Target).
		WithHint("delete them first, each by its own step: gated submit guest.snapshot-delete %s -p snapshot=%s", w.step.Target.Name, w.guest.snapshots[0].Name)
}
