package archive_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/log/archive"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
	"gated/internal/test/must"
)

const gateID = op.GateID("0123456789abcdef0123456789abcdef")

// entries are the texts of n entries of a log.
func entries(first, n int, prev string) (out [][]byte) {
	for i := range n {
		text := fmt.Appendf(nil, `{"seq":%d,"v":2,"time":"2026-03-01T12:00:00Z","kind":"planned","prev":%q}`, first+i, prev)
		sum := sha256.Sum256(text)
		prev = hex.EncodeToString(sum[:])
		out = append(out, text)
	}
	return out
}

// rows are the tables of jobs, each job with a row in jobs and an output.
func rows(jobs ...op.JobID) (out []journal.Dump) {
	names, column := journal.JobTables()
	for _, name := range names {
		d := journal.Dump{Table: name, Columns: []string{column[name], "text", "blob"}}
		for _, id := range jobs {
			if name == "jobs" || name == "outputs" {
				d.Rows = append(d.Rows, []any{int64(id), "it printed <&>\n\u2028", []byte{0, 255}})
			}
		}
		out = append(out, d)
	}
	return out
}

func plan() archive.Plan {
	return archive.Plan{Gate: gateID, Schema: 21, Number: 1, First: 1, Texts: entries(1, audit.TileWidth, ""), Jobs: []op.JobID{3, 4, 9},
		Rows: rows(3, 4, 9)}
}

func file(t testing.TB) []byte { return must.Get(must.Get(archive.Make(plan()))(t).Encode())(t) }

func TestASegmentIsReadAsItWasWritten(t *testing.T) {
	made := must.Get(archive.Make(plan()))(t)
	read := must.Get(archive.ParseSegment(must.Get(made.Encode())(t)))(t)
	require.Equal(t, made, read)
	require.Equal(t, []op.JobID{3, 4, 9}, read.Numbers())
	require.Equal(t, 3, read.JobCount())
	require.Len(t, archive.Of(read.Rows, 4)[0].Rows, 1)
}

// content is what a file has before it is compressed.
func content(t testing.TB, b []byte) []byte {
	return must.Get(io.ReadAll(must.Get(gzip.NewReader(bytes.NewReader(b)))(t)))(t)
}

func compress(t testing.TB, content []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	must.Get(w.Write(content))(t)
	require.NoError(t, w.Close())
	return b.Bytes()
}

// TestEveryByteCounts: no change of a byte of the content is taken.
func TestEveryByteCounts(t *testing.T) {
	whole := content(t, file(t))
	must.Get(archive.ParseSegment(compress(t, whole)))(t)
	for at := 0; at < len(whole); at += 97 {
		changed := bytes.Clone(whole)
		changed[at] ^= 1
		_, err := archive.ParseSegment(compress(t, changed))
		require.Error(t, err, "byte %d", at)
	}
}

// TestWhatIsNoSegment: cut, longer, or not as a gate writes it.
func TestWhatIsNoSegment(t *testing.T) {
	whole := file(t)
	for name, b := range map[string][]byte{
		"nothing": {}, "cut": whole[:len(whole)-1], "cut at half": whole[:len(whole)/2], "a byte more": append(bytes.Clone(whole), 0),
		"two of them": append(bytes.Clone(whole), whole...), "not compressed": content(t, whole),
		"content cut":       compress(t, content(t, whole)[:2048]),
		"content longer":    compress(t, append(content(t, whole), make([]byte, 512)...)),
		"content too large": compress(t, make([]byte, archive.MaxBytes+1)),
	} {
		_, err := archive.ParseSegment(b)
		require.Error(t, err, name)
	}
}

// TestWhatAManifestMayNotSay: each change is refused, also if all digests are right.
func TestWhatAManifestMayNotSay(t *testing.T) {
	for name, change := range map[string]func(*archive.Segment){
		"another version":   func(s *archive.Segment) { s.Version = 2 },
		"no gate":           func(s *archive.Segment) { s.Gate = "x" },
		"number 0":          func(s *archive.Segment) { s.Number = 0 },
		"other entries":     func(s *archive.Segment) { s.First, s.Last = 257, 512 },
		"more entries":      func(s *archive.Segment) { s.Last++ },
		"an entry before":   func(s *archive.Segment) { s.Prev = s.Hash },
		"another last":      func(s *archive.Segment) { s.Hash = s.Root },
		"another root":      func(s *archive.Segment) { s.Root = s.Hash },
		"an edge":           func(s *archive.Segment) { s.Edge = []string{s.Root} },
		"a job more":        func(s *archive.Segment) { s.Jobs[1].Last++ },
		"a job less":        func(s *archive.Segment) { s.Jobs = s.Jobs[:1] },
		"jobs not in order": func(s *archive.Segment) { s.Jobs[0], s.Jobs[1] = s.Jobs[1], s.Jobs[0] },
		"ranges that touch": func(s *archive.Segment) {
			s.Jobs = []archive.Span{{First: 3, Last: 3}, {First: 4, Last: 4}, {First: 9, Last: 9}}
		},
		"a row of another job": func(s *archive.Segment) { s.Rows[7].Rows[0][0] = int64(5) },
		"a job twice":          func(s *archive.Segment) { s.Rows[0].Rows[1] = s.Rows[0].Rows[0] },
		"a table less":         func(s *archive.Segment) { s.Rows = s.Rows[:7] },
		"tables not in order":  func(s *archive.Segment) { s.Rows[0], s.Rows[1] = s.Rows[1], s.Rows[0] },
		"an entry changed": func(s *archive.Segment) {
			s.Texts[7] = bytes.Replace(s.Texts[7], []byte("planned"), []byte("expired"), 1)
		},
		"half a tile": func(s *archive.Segment) { s.Texts, s.Last = s.Texts[:128], 128 },
	} {
		t.Run(name, func(t *testing.T) {
			s := must.Get(archive.Make(plan()))(t)
			change(s)
			b, err := s.Encode()
			require.NoError(t, err)
			_, err = archive.ParseSegment(b)
			require.Error(t, err)
		})
	}
}

// TestFilesThatASegmentHasNot: a tar of other files, links and a second manifest.
func TestFilesThatASegmentHasNot(t *testing.T) {
	for name, h := range map[string]*tar.Header{
		"a file":     {Typeflag: tar.TypeReg, Name: "x"},
		"a link":     {Typeflag: tar.TypeSymlink, Name: "manifest.json", Linkname: "/etc/passwd"},
		"a manifest": {Typeflag: tar.TypeReg, Name: "manifest.json"},
	} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		require.NoError(t, w.WriteHeader(h))
		require.NoError(t, w.Close())
		_, err := archive.ParseSegment(compress(t, b.Bytes()))
		require.Error(t, err, name)
	}
}

// TestADirectory: what is written is read; what is missing or changed is a refusal that names the file.
func TestADirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "archive")
	d := archive.NewDir(path)
	row, read, err := d.Write(must.Get(archive.Make(plan()))(t))
	require.NoError(t, err)
	require.Equal(t, plan().Texts, read.Texts)
	require.Equal(t, 3, row.Jobs)
	require.Equal(t, plan().Texts, must.Get(d.Texts(row))(t))
	all := must.Get(os.ReadDir(path))(t)
	require.Len(t, all, 1)
	require.Equal(t, row.File(), all[0].Name())
	name := filepath.Join(path, row.File())
	whole := must.Get(os.ReadFile(name))(t)
	for what, b := range map[string][]byte{"cut": whole[:100], "longer": append(bytes.Clone(whole), 0), "other": file2(t), "empty": {}} {
		require.NoError(t, os.WriteFile(name, b, 0o600))
		_, err := d.Read(row)
		require.ErrorIs(t, err, refusal.Conflict, what)
		require.ErrorContains(t, err, row.File())
	}
	require.NoError(t, os.WriteFile(name, whole, 0o600))
	must.Get(d.Read(row))(t)
	for what, change := range map[string]func(*audit.Segment){"number": func(s *audit.Segment) { s.Number++ }, "jobs": func(s *audit.Segment) { s.Jobs++ },
		"last": func(s *audit.Segment) { s.Last++ }, "hash": func(s *audit.Segment) { s.Hash = s.SHA256 }} {
		other := row
		change(&other)
		require.NoError(t, os.WriteFile(filepath.Join(path, other.File()), whole, 0o600))
		_, err := d.Read(other)
		require.ErrorIs(t, err, refusal.Conflict, what)
	}
	require.NoError(t, os.Remove(name))
	_, err = d.Read(row)
	require.ErrorIs(t, err, refusal.Unavailable)
	require.ErrorContains(t, err, row.File())
}

func file2(t testing.TB) []byte {
	p := plan()
	p.Gate = "ffffffffffffffffffffffffffffffff"
	return must.Get(must.Get(archive.Make(p))(t).Encode())(t)
}

// TestADirectoryThatCannotBeWritten: nothing stays, and no file counts.
func TestADirectoryThatCannotBeWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "archive")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	_, _, err := archive.NewDir(path).Write(must.Get(archive.Make(plan()))(t))
	require.Error(t, err)
	require.Empty(t, must.Get(os.ReadFile(path))(t))
}

// TestWhatNoBundleHolds: an entry whose length does not fit into two bytes makes no segment.
func TestWhatNoBundleHolds(t *testing.T) {
	for n, fits := range map[int]bool{audit.MaxEntry: true, audit.MaxEntry + 1: false} {
		p := plan()
		p.Texts[255] = bytes.Repeat([]byte("x"), n)
		_, err := must.Get(archive.Make(p))(t).Encode()
		require.Equal(t, fits, err == nil, n)
	}
}

// FuzzSegment: what is taken is written as the same content again.
func FuzzSegment(f *testing.F) {
	f.Add(content(f, file(f)))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := archive.ParseSegment(compress(t, b))
		if err != nil {
			return
		}
		if again := must.Get(s.Encode())(t); !bytes.Equal(content(t, again), b) {
			t.Fatal("it has a second content")
		}
	})
}

// FuzzSegmentFile: no bytes make a segment that is not checked, and none end the program.
func FuzzSegmentFile(f *testing.F) {
	f.Add(file(f))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := archive.ParseSegment(b)
		if err == nil && int64(len(s.Texts)) != s.Last-s.First+1 {
			t.Fatal("it has other entries than it says")
		}
	})
}
