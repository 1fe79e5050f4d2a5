package authz

import "encoding/binary"

// wire reads the SSH encoding of RFC 4251, section 5. After a read beyond the end,
// bad is set and all reads return nil or 0.
type wire struct {
	rest []byte
	bad  bool
}

func (w *wire) take(n uint64) []byte {
	if w.bad || n > uint64(len(w.rest)) {
		w.bad = true
		return nil
	}
	b := w.rest[:n]
	w.rest = w.rest[n:]
	return b
}

func (w *wire) number() uint32 {
	b := w.take(4)
	if w.bad {
		return 0
	}
	return binary.BigEndian.Uint32(b)
}

func (w *wire) long() uint64 {
	b := w.take(8)
	if w.bad {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

// next reads a string, or an mpint's bytes.
func (w *wire) next() []byte { return w.take(uint64(w.number())) }

// ended reports whether all bytes were read without an error.
func (w *wire) ended() bool { return !w.bad && len(w.rest) == 0 }

// appendString writes a string as next reads it.
func appendString(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
}

// positive reports whether b is the shortest mpint of a number above zero.
func positive(b []byte) bool {
	switch {
	case len(b) == 0 || b[0] >= 0x80:
		return false
	case b[0] == 0:
		return len(b) > 1 && b[1] >= 0x80
	default:
		return true
	}
}
