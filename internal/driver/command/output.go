package command

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"gated/internal/base/refusal"
)

// capture keeps the beginning and the end of its input, at most limit bytes together. It counts
// the rest.
type capture struct {
	limit   int
	head    []byte
	tail    []byte // the newest bytes last; at most half of limit
	dropped int64
}

// Write never fails.
func (c *capture) Write(b []byte) (int, error) {
	n := len(b)
	if room := c.limit - c.limit/2 - len(c.head); room > 0 {
		take := min(room, len(b))
		c.head = append(c.head, b[:take]...)
		b = b[take:]
	}
	c.tail = append(c.tail, b...)
	if over := len(c.tail) - c.limit/2; over > 0 {
		c.dropped += int64(over)
		c.tail = append(c.tail[:0], c.tail[over:]...)
	}
	return n, nil
}

// bytes is the stored input. It is whole if nothing was dropped.
func (c *capture) bytes() []byte { return append(append([]byte{}, c.head...), c.tail...) }

// shown turns a program's output into text that displays as it is. It writes an escape for each
// byte that is no UTF-8, and for each control or format character except line feed and tab. It
// drops a carriage return before a line feed.
func shown(b []byte) string {
	s := strings.ReplaceAll(string(b), "\r\n", "\n")
	var out strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&out, `\x%02x`, s[i])
		case r == '\n' || r == '\t':
			out.WriteRune(r)
		case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp):
			if r < 0x80 {
				fmt.Fprintf(&out, `\x%02x`, r)
			} else {
				fmt.Fprintf(&out, `\u{%x}`, r)
			}
		default:
			out.WriteString(s[i : i+n])
		}
		i += n
	}
	return out.String()
}

// text is the stored input as text, in at most limit bytes. Escapes take more bytes than the
// characters that they replace.
func (c *capture) text() string {
	head, tail := shown(c.head), shown(c.tail)
	dropped := c.dropped
	if dropped == 0 {
		head, tail = shown(c.bytes()), "" // the border may cut a character
	}
	if dropped == 0 && len(head) <= c.limit {
		return head
	}
	const room = 64 // for the note in the middle
	half := max(c.limit-room, 0) / 2
	if tail == "" {
		tail = head[min(half, len(head)):]
	}
	head = cutAfter(head, half)
	return head + fmt.Sprintf("\n[... more was printed; %d bytes are left out ...]\n", dropped+int64(max(len(tail)-half, 0))) + cutBefore(tail, half)
}

// cutAfter keeps at most n bytes of the beginning, in whole characters.
func cutAfter(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// cutBefore keeps at most n bytes of the end, in whole characters.
func cutBefore(s string, n int) string {
	if len(s) <= n {
		return s
	}
	i := len(s) - n
	for i < len(s) && !utf8.RuneStart(s[i]) {
		i++
	}
	return s[i:]
}

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
