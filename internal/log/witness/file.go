package witness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// maxContradictions is how many contradictions of one gate are stored: the first
// ones, and the newest.
const maxContradictions = 16

// Memory is what is stored about one gate.
type Memory struct {
	Path           string
	Head           Record   // the last head
	Contradictions []Record // what contradicted it then, oldest first
}

// Records returns all records, in the order of the file.
func (m Memory) Records() []Record { return append([]Record{m.Head}, m.Contradictions...) }

// Remembered returns what is stored about a gate, or nil. If the file proves nothing
// (ownfile.File.Read), the error is NotAllowed. If a witness would not write the
// file so, it is Malformed.
func (d Dir) Remembered(gate op.GateID) (*Memory, error) {
	if d.Path == "" {
		return nil, nil
	}
	text, err := d.file(gate).Read()
	if err != nil || text == nil {
		return nil, err
	}
	m, err := parseMemory(text, gate)
	if err != nil {
		return nil, refusal.New(refusal.Malformed, "%s: %s", d.File(gate), refusal.As(err).Detail).
			WithHint("this file is how you would notice that the gate's log was cut or rewritten. Keep it, and find out who changed it. " +
				"Moved away, whatever the gate shows next is believed: compare it first with what another operator remembers, " +
				"opsign witness export there and opsign witness check FILE here")
	}
	m.Path = d.File(gate)
	return m, nil
}

// parseMemory reads a gate's file: a head, then the contradictions.
func parseMemory(text []byte, gate op.GateID) (*Memory, error) {
	records, err := parseLines(text)
	if err != nil {
		return nil, err
	}
	if len(records) == 0 {
		return nil, malformed("the file is empty")
	}
	m := &Memory{Head: records[0], Contradictions: records[1:]}
	if len(m.Contradictions) > maxContradictions {
		return nil, malformed("there are too many")
	}
	for i, r := range records {
		if r.Gate != gate || r.Contradiction() != (i > 0) {
			return nil, malformed(fmt.Sprintf("line %d is of another gate or in another place", i+1))
		}
	}
	return m, nil
}

// parseLines reads records, one on each line with its end.
func parseLines(text []byte) ([]Record, error) {
	var out []Record
	n := 0
	for line := range bytes.Lines(text) {
		n++
		body, ended := bytes.CutSuffix(line, []byte("\n"))
		if !ended {
			return nil, malformed(fmt.Sprintf("line %d is cut off", n))
		}
		r, err := ParseRecord(body)
		if err != nil {
			return nil, refusal.New(refusal.Malformed, "line %d: %s", n, refusal.As(err).Detail)
		}
		out = append(out, r)
	}
	return out, nil
}

// MaxExport is the largest export that ParseExport accepts, in bytes.
const MaxExport = 64 << 20

// ParseExport reads the output of opsign witness export, of one gate or several.
// Anything else is Malformed, with the line.
func ParseExport(text []byte) ([]Record, error) {
	records, err := parseLines(text)
	if err == nil && len(records) == 0 {
		err = malformed("there is none in the file")
	}
	return records, err
}

// Export writes every record on a line, for ParseExport.
func Export(memories ...Memory) ([]byte, error) {
	var text []byte
	for _, m := range memories {
		for _, r := range m.Records() {
			line, err := r.line()
			if err != nil {
				return nil, err
			}
			text = append(text, line...)
		}
	}
	return text, nil
}

// write replaces a gate's file.
func (d Dir) write(gate op.GateID, m Memory) error {
	text, err := Export(m)
	if err != nil {
		return err
	}
	return d.file(gate).Replace(text)
}

// keep adds a contradiction to a gate's file, unless it has the same head already.
func (d Dir) keep(m Memory, r Record) error {
	if slices.ContainsFunc(m.Contradictions, func(o Record) bool { return o.Note == r.Note && o.Key == r.Key }) {
		return nil
	}
	first := m.Contradictions[:min(len(m.Contradictions), maxContradictions-1)]
	m.Contradictions = append(slices.Clone(first), r)
	return d.write(r.Gate, m)
}

// List returns what is stored, by gate id, and nothing if there is no directory. If
// a file cannot be read, it returns the others too. Its error is then that of
// Remembered for the first such file, and names all of them.
func (d Dir) List() ([]Memory, error) {
	if d.Path == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(d.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, refusal.New(refusal.NotAllowed, "the heads that are remembered cannot be read: %v", err)
	}
	var out []Memory
	var bad []error
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), extension)
		if gate := op.GateID(name); ok && gate.Valid() {
			m, err := d.Remembered(gate)
			if err != nil {
				bad = append(bad, err)
			} else if m != nil {
				out = append(out, *m)
			}
		}
	}
	return out, together(bad)
}

// together makes one refusal of several: it has the first one's code and the text of
// each.
func together(bad []error) error {
	if len(bad) < 2 {
		return errors.Join(bad...)
	}
	first := *refusal.As(bad[0])
	for _, err := range bad[1:] {
		first.Detail += "\n" + refusal.As(err).Detail
	}
	return &first
}

// Replace changes the key of a gate's stored head. An operator uses it if the first
// head was false, after reading the right key on the gate's host. The new stored
// head is the largest refused head with that key. The false one becomes a
// contradiction. Replace returns both. If no head is stored, or no head with that
// key was refused, it is UnknownTarget. If the stored head has that key already, it
// is Conflict. Other errors: *NotKept, those of Remembered and of waiting for the
// gate's file.
func (d Dir) Replace(ctx context.Context, gate op.GateID, key string) (was, is Record, err error) {
	unlock, cannot, err := d.lock(ctx, gate)
	if err != nil {
		return was, is, err
	}
	defer unlock()
	m, err := d.Remembered(gate)
	switch {
	case err != nil:
		return was, is, err
	case m == nil:
		return was, is, refusal.New(refusal.UnknownTarget, "nothing is remembered of gate %s", gate).
			WithHint("opsign witness lists what is")
	case m.Head.Key == key:
		return was, is, refusal.New(refusal.Conflict, "gate %s is held to that key already", gate)
	case cannot != nil:
		return was, is, &NotKept{cannot}
	}
	was = m.Head
	at := m.largest(key)
	if at < 0 {
		return was, is, refusal.New(refusal.UnknownTarget, "gate %s was never shown with that key", gate).
			WithHint("connect to it first (opsign list): its head is refused, and kept. The key is what gated audit head prints on the gate's host")
	}
	is = m.Contradictions[at]
	is.Why, is.Against = "", nil
	old := was
	old.Why, old.Against = OtherKey, &is.Signed
	m.Head, m.Contradictions[at] = is, old
	if err := d.write(gate, *m); err != nil {
		return was, is, &NotKept{err}
	}
	return was, is, nil
}

// largest returns the contradiction with the most entries among those that a key
// signed, or -1. From the largest one, the gate must account for everything that it
// showed.
func (m Memory) largest(key string) int {
	at, most := -1, int64(-1)
	for i, r := range m.Contradictions {
		if size := r.Head().Size; r.Key == key && size > most {
			at, most = i, size
		}
	}
	return at
}
