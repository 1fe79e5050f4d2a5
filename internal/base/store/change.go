package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
)

// Change is what happened to one row. Old is nil for an INSERT, New for a DELETE.
type Change struct {
	Table    string
	Old, New *RowImage
}

// RowImage is a row before or after a change. A value is nil, an int64, a float64, a string of any bytes, or a []byte.
type RowImage struct {
	ID     int64 // the rowid; 0 in a table WITHOUT ROWID
	Values []any // of all columns, in the order of the table
}

// The bits of the first byte of an encoded change, and the first bytes of its values.
const (
	hasOld byte = 1
	hasNew byte = 2

	isNull byte = 0
	isInt  byte = 1
	isReal byte = 2
	isText byte = 3
	isBlob byte = 4
)

// maxColumns is SQLite's limit.
const maxColumns = 2000

// errChanges is the error of DecodeChanges.
var errChanges = errors.New("store: these bytes are no row changes")

// AppendChange appends the one encoding of a change:
//
//	which rows (1 byte), name of the table, number of columns, then the old row and the new row.
//
// A row is its rowid and its values. Numbers are varints (encoding/binary), reals their 8 bytes (IEEE 754, big-endian),
// names, texts and blobs their length and bytes.
func AppendChange(b []byte, c Change) []byte {
	var which byte
	n := 0
	if c.Old != nil {
		which, n = which|hasOld, len(c.Old.Values)
	}
	if c.New != nil {
		which, n = which|hasNew, len(c.New.Values)
	}
	b = appendHead(b, which, c.Table, n)
	for _, row := range []*RowImage{c.Old, c.New} {
		if row == nil {
			continue
		}
		b = binary.AppendVarint(b, row.ID)
		for _, v := range row.Values {
			b = appendValue(b, v)
		}
	}
	return b
}

func appendHead(b []byte, which byte, table string, columns int) []byte {
	b = binary.AppendUvarint(append(b, which), uint64(len(table)))
	return binary.AppendUvarint(append(b, table...), uint64(columns))
}

func appendValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case int64:
		return binary.AppendVarint(append(b, isInt), v)
	case float64:
		return binary.BigEndian.AppendUint64(append(b, isReal), math.Float64bits(v))
	case string:
		return append(binary.AppendUvarint(append(b, isText), uint64(len(v))), v...)
	case []byte:
		return append(binary.AppendUvarint(append(b, isBlob), uint64(len(v))), v...)
	default:
		return append(b, isNull)
	}
}

// DecodeChanges yields the changes that AppendChange wrote. It refuses every other encoding of them: the error comes
// last, after the changes before it.
func DecodeChanges(b []byte) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		d := &decoder{rest: b}
		for len(d.rest) > 0 {
			c := d.change()
			if d.bad {
				yield(Change{}, fmt.Errorf("%w: from byte %d", errChanges, len(b)-len(d.rest)))
				return
			}
			if !yield(c, nil) {
				return
			}
		}
	}
}

// decoder reads from rest. After a mistake, bad is true, and what it returns means nothing.
type decoder struct {
	rest []byte
	bad  bool
}

func (d *decoder) change() (c Change) {
	which := d.byte()
	if which == 0 || which > hasOld|hasNew {
		d.bad = true
	}
	c.Table = string(d.bytes())
	columns := d.uvarint()
	if columns > maxColumns {
		d.bad = true
	}
	if which&hasOld != 0 {
		c.Old = d.row(columns)
	}
	if which&hasNew != 0 {
		c.New = d.row(columns)
	}
	return c
}

func (d *decoder) row(columns uint64) *RowImage {
	row := &RowImage{ID: d.varint()}
	if d.bad || columns > uint64(len(d.rest)) { // each value has a byte at least
		d.bad = true
		return row
	}
	row.Values = make([]any, columns)
	for i := range row.Values {
		row.Values[i] = d.value()
	}
	return row
}

func (d *decoder) value() any {
	switch d.byte() {
	case isNull:
		return nil
	case isInt:
		return d.varint()
	case isReal:
		if len(d.rest) < 8 {
			d.bad = true
			return nil
		}
		v := math.Float64frombits(binary.BigEndian.Uint64(d.rest))
		d.rest = d.rest[8:]
		return v
	case isText:
		return string(d.bytes())
	case isBlob:
		return append([]byte{}, d.bytes()...)
	default:
		d.bad = true
		return nil
	}
}

func (d *decoder) byte() byte {
	if d.bad || len(d.rest) == 0 {
		d.bad = true
		return 0
	}
	v := d.rest[0]
	d.rest = d.rest[1:]
	return v
}

func (d *decoder) bytes() []byte {
	n := d.uvarint()
	if d.bad || n > uint64(len(d.rest)) {
		d.bad = true
		return nil
	}
	v := d.rest[:n]
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 || n > 1 && d.rest[n-1] == 0 { // not the shortest form
		d.bad = true
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) varint() int64 {
	u := d.uvarint()
	v := int64(u >> 1)
	if u&1 != 0 {
		v = ^v
	}
	return v
}
