package authz

// Major types of CBOR (RFC 8949, section 3.1).
const (
	cborUnsigned = iota
	cborNegative
	cborBytes
	cborText
	cborArray
	cborMap
	cborTag
	cborSimple
)

// maxNesting bounds how deep maps and arrays nest in extension data, as CTAP 2.1 does (section 8).
const maxNesting = 4

// isExtensionData reports whether b is one map of CBOR (RFC 8949) and nothing after it. Each length is written out, and
// there are no tags, as CTAP 2.1 wants it of authenticators (section 8). What is in the map is not read.
func isExtensionData(b []byte) bool {
	w := wire{rest: b}
	if len(b) == 0 || b[0]>>5 != cborMap {
		return false
	}
	w.skipItem(maxNesting)
	return w.ended()
}

// skipItem reads one data item of CBOR, in which maps and arrays nest at most so many levels.
func (w *wire) skipItem(levels int) {
	head := w.take(1)
	if w.bad {
		return
	}
	major, info := head[0]>>5, head[0]&0x1f
	n := w.argument(info)
	switch major {
	case cborBytes, cborText:
		w.take(n)
	case cborArray, cborMap:
		if levels == 0 || n > uint64(len(w.rest)) { // each element has a byte at the least
			w.bad = true
			return
		}
		if major == cborMap {
			n *= 2
		}
		for ; n > 0 && !w.bad; n-- {
			w.skipItem(levels - 1)
		}
	case cborTag:
		w.bad = true
	case cborSimple:
		// Values below 32 have one byte (section 3.3).
		w.bad = w.bad || info == 24 && n < 32
	}
}

// argument reads what follows an item's first byte: a number, a length, a simple value or the bits of a float (section 3).
func (w *wire) argument(info byte) (n uint64) {
	switch {
	case info < 24:
		return uint64(info)
	case info < 28:
		for _, b := range w.take(1 << (info - 24)) {
			n = n<<8 | uint64(b)
		}
		return n
	}
	w.bad = true // reserved, or a length that is not written out
	return 0
}
