package command

import (
	"os"
	"sync"
	"syscall"
	"time"

	"gated/internal/base/refusal"
)

// digests remembers the digests of files by path, for looks without a step. A list shows them;
// nothing is signed or run by them. It has as many entries as the catalogue names programs.
type digests struct {
	now func() time.Time // if nil, it remembers nothing

	mu    sync.Mutex
	known map[string]digest
}

// digest is the digest of one file, with the identity of that file.
type digest struct {
	of     identity
	digest string
	head   []byte
}

// identity changes if a file's content changes, except for a second write within one tick of
// the kernel's clock.
type identity struct {
	dev, ino   uint64
	size       int64
	mtim, ctim syscall.Timespec
}

// settled is how long a file must be unchanged before its identity is enough to know its
// content.
const settled = 2 * time.Second

func identityOf(f *os.File) (identity, error) {
	var st syscall.Stat_t
	if err := syscall.Fstat(int(f.Fd()), &st); err != nil {
		return identity{}, err
	}
	return identity{st.Dev, st.Ino, st.Size, st.Mtim, st.Ctim}, nil
}

// hashed is a readFile that makes no copy.
func (d *digests) hashed(path string) (*program, []byte, error) {
	f, real, err := openProgram(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	p := &program{path: path, real: real}
	is, err := identityOf(f)
	if err == nil {
		if k, ok := d.recall(path, is); ok {
			p.digest = k.digest
			return p, k.head, nil
		}
		var head []byte
		if p.digest, head, err = digestOf(f); err == nil {
			d.remember(path, digest{is, p.digest, head})
			return p, head, nil
		}
	}
	return nil, nil, refusal.New(refusal.Unavailable, "%s cannot be read: %v", path, err)
}

func (d *digests) recall(path string, is identity) (digest, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	k, ok := d.known[path]
	return k, ok && k.of == is
}

// remember stores the digest of a file, if the file was unchanged for a while when it was read.
func (d *digests) remember(path string, k digest) {
	if d.now == nil {
		return
	}
	if age := d.now().Sub(time.Unix(k.of.ctim.Unix())); age < settled {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known == nil {
		d.known = map[string]digest{}
	}
	d.known[path] = k
}
