// Package archive writes and reads segment files: runs of the audit log in the form of c2sp.org/tlog-tiles, and the jobs
// that ended in them. docs/formats/archive.md has the bytes. A file is read whole and checked whole, or refused.
package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"gated/internal/base/op"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
)

// Version is the version of the files that this program writes, and the only one that it reads.
const Version = 1

// Bounds of a segment, which the reader enforces too.
const (
	MaxTiles = 64       // entries, in tiles of audit.TileWidth
	MaxBytes = 64 << 20 // of the content, before it is compressed
)

// Manifest says what a segment has.
type Manifest struct {
	Version int       `json:"version"`
	Gate    op.GateID `json:"gate"` // that wrote the file; the entries may be of earlier ids
	Schema  int       `json:"schema"`
	Number  int64     `json:"number"`
	First   int64     `json:"first"`
	Last    int64     `json:"last"`
	Prev    string    `json:"prev"` // SHA-256 of entry First-1, hex; empty if First is 1
	Hash    string    `json:"hash"` // of entry Last
	Edge    []string  `json:"edge"` // of the tree over the entries before First
	Root    string    `json:"root"` // of the tree over the entries up to Last
	// Jobs are the ranges of the jobs whose rows the file has, all of which exist.
	Jobs  []Span `json:"jobs"`
	Parts []Part `json:"parts"` // all other files, in their order
}

// Span is a range of jobs as plain numbers, both ends included.
type Span struct {
	First int64 `json:"first"`
	Last  int64 `json:"last"`
}

// Ranges returns the ranges of the jobs.
func (m Manifest) Ranges() []journal.Range {
	out := make([]journal.Range, 0, len(m.Jobs))
	for _, s := range m.Jobs {
		out = append(out, journal.Range{First: op.JobID(s.First), Last: op.JobID(s.Last)})
	}
	return out
}

// Part is a file in the segment.
type Part struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Segment is what a file has, checked.
type Segment struct {
	Manifest
	Texts [][]byte       // of the entries First to Last
	Rows  []journal.Dump // of the jobs
}

// Plan is what a segment is made of.
type Plan struct {
	Gate   op.GateID
	Schema int
	Number int64
	First  int64
	Prev   string
	Edge   []tlog.Hash // of the tree over the entries before First
	Texts  [][]byte
	Jobs   []op.JobID // in order
	Rows   []journal.Dump
}

// Make makes a segment of a plan.
func Make(p Plan) (*Segment, error) {
	s := &Segment{Texts: p.Texts, Rows: p.Rows, Manifest: Manifest{Version: Version, Gate: p.Gate, Schema: p.Schema, Number: p.Number,
		First: p.First, Last: p.First + int64(len(p.Texts)) - 1, Prev: p.Prev, Edge: []string{}, Jobs: []Span{}, Parts: []Part{}}}
	for _, r := range journal.RangesOf(p.Jobs) {
		s.Jobs = append(s.Jobs, Span{int64(r.First), int64(r.Last)})
	}
	for _, h := range p.Edge {
		s.Edge = append(s.Edge, hex.EncodeToString(h[:]))
	}
	if len(s.Texts) == 0 {
		return nil, fmt.Errorf("segment %d has no entries", p.Number)
	}
	sum := sha256.Sum256(s.Texts[len(s.Texts)-1])
	s.Hash = hex.EncodeToString(sum[:])
	root, err := audit.RootAfter(s.First-1, p.Edge, s.leaves())
	if err != nil {
		return nil, err
	}
	s.Root = hex.EncodeToString(root[:])
	return s, nil
}

// JobCount returns how many jobs the segment has.
func (m Manifest) JobCount() (n int) {
	for _, r := range m.Jobs {
		n += int(r.Last-r.First) + 1
	}
	return n
}

func (s *Segment) leaves() []tlog.Hash {
	out := make([]tlog.Hash, len(s.Texts))
	for i, text := range s.Texts {
		out[i] = tlog.RecordHash(text)
	}
	return out
}

// check compares all that the parts say with each other and with the manifest.
func (s *Segment) check() error {
	if err := s.counts(); err != nil {
		return err
	}
	if err := s.chain(); err != nil {
		return err
	}
	edge, err := s.edge()
	if err != nil {
		return err
	}
	root, err := audit.RootAfter(s.First-1, edge, s.leaves())
	if err != nil {
		return err
	}
	if hex.EncodeToString(root[:]) != s.Root {
		return fmt.Errorf("the root of its tree is not that of its entries")
	}
	return s.rows()
}

func (s *Segment) counts() error {
	n := s.Last - s.First + 1
	switch {
	case s.Version != Version:
		return fmt.Errorf("it is of version %d, and this program reads %d", s.Version, Version)
	case !s.Gate.Valid():
		return fmt.Errorf("its gate id is none")
	case s.Number < 1 || s.First < 1 || s.Last < s.First || n != int64(len(s.Texts)):
		return fmt.Errorf("its manifest counts other entries than it has")
	case (s.First-1)%audit.TileWidth != 0 || n%audit.TileWidth != 0 || n > MaxTiles*audit.TileWidth:
		return fmt.Errorf("it has not 1 to %d whole tiles", MaxTiles)
	case (s.First == 1) != (s.Prev == ""):
		return fmt.Errorf("its manifest does not name the entry before it")
	}
	return nil
}

// chain checks that each entry follows the one before it.
func (s *Segment) chain() error {
	prev := s.Prev
	for i, text := range s.Texts {
		e, err := audit.Decode(text)
		if err != nil || e.Seq != s.First+int64(i) {
			return fmt.Errorf("entry %d does not decode, or says that it is another", s.First+int64(i))
		}
		if e.Prev != prev {
			return fmt.Errorf("entry %d does not follow the entry before it", e.Seq)
		}
		sum := sha256.Sum256(text)
		prev = hex.EncodeToString(sum[:])
	}
	if prev != s.Hash {
		return fmt.Errorf("its last entry is not the one that its manifest names")
	}
	return nil
}

// edge reads the hashes of the tree before the segment.
func (s *Segment) edge() (out []tlog.Hash, err error) {
	for _, text := range s.Edge {
		b, err := hex.DecodeString(text)
		if err != nil || len(b) != tlog.HashSize || hex.EncodeToString(b) != text {
			return nil, fmt.Errorf("the edge in its manifest has what is no hash")
		}
		out = append(out, tlog.Hash(b))
	}
	return out, nil
}

// rows checks that the rows are those of the jobs in the manifest, and that each of these has its row.
func (s *Segment) rows() error {
	last := int64(0)
	for _, r := range s.Jobs {
		if r.First <= last || r.Last < r.First || r.Last-r.First >= MaxBytes {
			return fmt.Errorf("its ranges of jobs are not in order")
		}
		last = r.Last + 1 // two ranges that touch would be one
	}
	names, column := journal.JobTables()
	if len(s.Rows) != len(names) {
		return fmt.Errorf("it has not the tables of jobs")
	}
	ranges, jobs := s.Ranges(), 0
	for i, d := range s.Rows {
		at := slices.Index(d.Columns, column[d.Table])
		if d.Table != names[i] || at < 0 {
			return fmt.Errorf("its table %d is not %s", i+1, names[i])
		}
		for _, row := range d.Rows {
			id, ok := row[at].(int64)
			if !ok || !journal.InRanges(ranges, op.JobID(id)) {
				return fmt.Errorf("a row of %s is of no job of its manifest", d.Table)
			}
		}
		if d.Table == "jobs" {
			if jobs = len(d.Rows); !distinct(d, at) {
				return fmt.Errorf("it has a job twice")
			}
		}
	}
	if jobs != s.JobCount() {
		return fmt.Errorf("it has %d jobs, and its manifest names %d", jobs, s.JobCount())
	}
	return nil
}

func distinct(d journal.Dump, at int) bool {
	seen := map[any]bool{}
	for _, row := range d.Rows {
		if seen[row[at]] {
			return false
		}
		seen[row[at]] = true
	}
	return true
}

// Of returns the rows of one job, with all tables.
func (s *Segment) Of(job op.JobID) []journal.Dump { return Of(s.Rows, job) }

// Of returns those rows of dumps that are of one job.
func Of(dumps []journal.Dump, job op.JobID) (out []journal.Dump) {
	_, column := journal.JobTables()
	for _, d := range dumps {
		at := slices.Index(d.Columns, column[d.Table])
		one := journal.Dump{Table: d.Table, Columns: d.Columns}
		for _, row := range d.Rows {
			if row[at] == int64(job) {
				one.Rows = append(one.Rows, row)
			}
		}
		out = append(out, one)
	}
	return out
}

// Numbers returns the jobs of the segment, in order.
func (m Manifest) Numbers() (out []op.JobID) {
	for _, r := range m.Ranges() {
		for id := r.First; id <= r.Last; id++ {
			out = append(out, id)
		}
	}
	return out
}
