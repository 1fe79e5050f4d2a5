package archive

import (
	"bytes"
	"testing"

	"gated/internal/log/journal"
)

// FuzzRows: what is taken is the one text of its rows.
func FuzzRows(f *testing.F) {
	text, err := encodeRows(journal.Dump{Table: "steps", Columns: []string{"job", "x", "y", "z"}, Rows: [][]any{{int64(-5), "a\n", []byte("b"), nil}, {int64(1 << 62), "", []byte{}, nil}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := decodeRows("steps", b)
		if err != nil {
			return
		}
		if again, err := encodeRows(d); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%q is written as %q", b, again)
		}
		for _, line := range bytes.Split(bytes.TrimSuffix(b, []byte("\n")), []byte("\n")) {
			if row, err := decodeRow(line); err != nil || len(row) != len(d.Columns) {
				t.Fatalf("%q is a row of the table and not by itself", line)
			}
		}
	})
}

// FuzzBundle: a bundle that is taken has a tile's entries, and its bytes are theirs.
func FuzzBundle(f *testing.F) {
	f.Add(bytes.Repeat([]byte{0, 1, 'x'}, 256))
	f.Add(bytes.Repeat([]byte{0, 0}, 256))
	f.Fuzz(func(t *testing.T, b []byte) {
		texts, err := decodeBundle(b)
		if err != nil {
			return
		}
		n := 0
		for _, text := range texts {
			n += 2 + len(text)
		}
		if n != len(b) || len(texts) != 256 {
			t.Fatal("entries are missing")
		}
	})
}
