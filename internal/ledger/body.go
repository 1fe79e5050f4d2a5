package ledger

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
)

// maxChanges bounds the changes of one group, in bytes, before they are compressed. PostgreSQL takes up to 1 GB in a
// value.
const maxChanges = 256 << 20

// The first byte of a body.
const (
	groupForm = 1
	baseForm  = 2
)

// maxSchema bounds the schema's number.
const maxSchema = 1 << 20

// ErrBody is returned for bytes that are no body of a group or a base.
var ErrBody = errors.New("the body is not readable")

// decompressors are kept, because a new one takes 40 KiB.
var decompressors = sync.Pool{New: func() any { return flate.NewReader(nil) }}

// compressors are kept, because a new one takes a megabyte.
var compressors = sync.Pool{New: func() any {
	w, err := flate.NewWriter(nil, flate.BestSpeed)
	if err != nil {
		panic(err) // the level is a constant
	}
	return w
}}

// encodeBody makes a body: its form (1 byte), the schema and the length of the changes (uvarints), and the changes,
// compressed (RFC 1951).
func encodeBody(form byte, schema int, changes []byte) ([]byte, error) {
	if len(changes) > maxChanges {
		return nil, fmt.Errorf("there are rows of %d bytes, and %d are the most", len(changes), maxChanges)
	}
	if schema < 1 || schema > maxSchema {
		return nil, fmt.Errorf("there is no schema %d", schema)
	}
	var b bytes.Buffer
	head := binary.AppendUvarint([]byte{form}, uint64(schema))
	b.Write(binary.AppendUvarint(head, uint64(len(changes))))
	w := compressors.Get().(*flate.Writer)
	defer compressors.Put(w)
	w.Reset(&b)
	if _, err := w.Write(changes); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil { // which writes the rest
		return nil, err
	}
	return b.Bytes(), nil
}

// decodeBody reads a body of a form. It reads no more than the length that the body names, and refuses bytes behind the end.
func decodeBody(form byte, body []byte) (schema int, changes []byte, err error) {
	if len(body) == 0 || body[0] != form {
		return 0, nil, fmt.Errorf("%w: another form", ErrBody)
	}
	rest := bytes.NewReader(body[1:])
	version, err := binary.ReadUvarint(rest)
	if err != nil || version < 1 || version > maxSchema {
		return 0, nil, fmt.Errorf("%w: its schema", ErrBody)
	}
	size, err := binary.ReadUvarint(rest)
	if err != nil || size > maxChanges {
		return 0, nil, fmt.Errorf("%w: its length", ErrBody)
	}
	var out bytes.Buffer
	r := decompressors.Get().(io.ReadCloser)
	defer decompressors.Put(r)
	// It reads single bytes of rest, and so none behind the end of the compressed ones.
	if err := r.(flate.Resetter).Reset(rest, nil); err != nil {
		return 0, nil, err
	}
	n, err := io.Copy(&out, io.LimitReader(r, int64(size)+1))
	if err != nil || uint64(n) != size || rest.Len() > 0 {
		return 0, nil, fmt.Errorf("%w: %d bytes of changes, not %d, and %d behind them", ErrBody, n, size, rest.Len())
	}
	return int(version), out.Bytes(), nil
}
