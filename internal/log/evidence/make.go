package evidence

import (
	"encoding/hex"
	"slices"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/archive"
	"gated/internal/log/audit"
	"gated/internal/log/checkpoint"
	"gated/internal/log/journal"
)

// Kept is a head that a witness kept.
type Kept struct {
	checkpoint.Checkpoint
	Note string
}

// Maker makes evidence of one database.
type Maker struct {
	Archive *archive.Dir    // the gate's segment files
	Host    string          // that the gate guards
	Key     *checkpoint.Key // signs the head for ssh-keygen; nil if it is not at hand
	Kept    []Kept          // heads that witnesses kept
}

// Job returns the evidence about the steps of a job that ended, or about one step of it. If there is none, it is UnknownTarget.
func (m Maker) Job(tx *store.Tx, job op.JobID, step int) ([]Document, error) {
	wants := func(id op.StepID) bool { return id.Job == job && (step == 0 || id.Index == step) }
	h, err := scan(tx, m.Archive, false, wants)
	if err != nil {
		return nil, err
	}
	archived := len(h.steps) == 0
	for id := range h.steps {
		archived = archived || !h.hasWhole(id)
	}
	if archived {
		if h, err = scan(tx, m.Archive, true, wants); err != nil {
			return nil, err
		}
	}
	ids := h.ended(time.Time{}, time.Time{})
	if len(ids) == 0 {
		return nil, refusal.New(refusal.UnknownTarget, "no step of %s ran, was refused or was rejected", job).
			WithHint("a step has evidence when it has ended: gated show %s", job)
	}
	return m.documents(tx, h, ids)
}

// Range returns the evidence about each step that ended from since on and before until. A zero time is no bound.
func (m Maker) Range(tx *store.Tx, since, until time.Time) ([]Document, error) {
	h, ids, err := m.between(tx, since, until)
	if err != nil {
		return nil, err
	}
	return m.documents(tx, h, ids)
}

// between reads the archived entries too if the database has not all from since on.
func (m Maker) between(tx *store.Tx, since, until time.Time) (history, []op.StepID, error) {
	all := func(op.StepID) bool { return true }
	h, err := scan(tx, m.Archive, false, all)
	if err != nil {
		return h, nil, err
	}
	bound, err := audit.Bound(tx)
	if err != nil {
		return h, nil, err
	}
	ids := h.ended(since, until)
	archived := false
	if bound.Seq > 0 {
		first, err := audit.After(tx, bound.Seq, 1)
		if err != nil {
			return h, nil, err
		}
		archived = len(first) == 0 || since.IsZero() || since.Before(first[0].Time) || slices.ContainsFunc(ids, func(id op.StepID) bool { return !h.hasWhole(id) })
	}
	if archived {
		if h, err = scan(tx, m.Archive, true, all); err != nil {
			return h, nil, err
		}
		ids = h.ended(since, until)
	}
	return h, ids, nil
}

func (m Maker) documents(tx *store.Tx, h history, ids []op.StepID) ([]Document, error) {
	signed, err := audit.SignedHead(tx)
	if err == nil && signed.Note == "" {
		err = refusal.New(refusal.Unavailable, "the gate has signed no head of its log").WithHint("gated audit verify says whether the log is whole")
	}
	if err != nil {
		return nil, err
	}
	if _, err := checkpoint.Open(signed.Note, signed.Key); err != nil {
		return nil, err
	}
	base := Document{Type: Type, Host: m.Host, Head: Head{Note: signed.Note, Key: signed.Key}}
	if m.Key != nil {
		if base.Head.SSH, err = signed.SignSSH(*m.Key); err != nil {
			return nil, err
		}
	}
	if base.Witness, err = m.witnessed(tx, signed); err != nil {
		return nil, err
	}
	out := make([]Document, 0, len(ids))
	for _, id := range ids {
		d, err := m.document(tx, base, h, id, signed)
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

// witnessed returns the newest kept head of the gate that signs now, with the proof that its log goes on to the signed head. A
// log with fewer entries is refused as BindingMismatch, and so are two logs. Kept heads of other gates alone are UnknownTarget.
func (m Maker) witnessed(tx *store.Tx, signed audit.NotedHead) (*Witness, error) {
	if len(m.Kept) == 0 {
		return nil, nil
	}
	var newest Kept
	for _, k := range m.Kept {
		if k.Gate == signed.Gate && k.Size > newest.Size {
			newest = k
		}
	}
	differs := func(k Kept) bool { return k.Gate == signed.Gate && k.Size == newest.Size && k.Root != newest.Root }
	switch {
	case slices.ContainsFunc(m.Kept, differs):
		return nil, refusal.New(refusal.BindingMismatch, "witnesses kept two heads of %d entries that differ: gate %s showed two logs", newest.Size, signed.Gate).
			WithHint("gated docs witness says what to do")
	case newest.Size == 0:
		return nil, refusal.New(refusal.UnknownTarget, "no head of a witness is of gate %s", signed.Gate).
			WithHint("opsign witness export %s writes what opsign remembers of it", signed.Gate)
	case newest.Size > signed.Size:
		return nil, refusal.New(refusal.BindingMismatch, "a witness saw %d entries of this log, and its signed head has %d", newest.Size, signed.Size).
			WithHint("use the running gate or a newer backup; if there is none, no proof reaches that head: leave --witness out and give --key. " +
				"If this is the running gate: gated docs witness")
	}
	proof, err := audit.Proofs{Older: m.Archive}.Consistency(tx, newest.Size, signed.Size)
	if err == nil {
		err = newest.Continues(signed.Checkpoint, proof)
	}
	if err != nil {
		return nil, err
	}
	return &Witness{newest.Note, checkpoint.EncodeHashes(proof)}, nil
}

func (m Maker) document(tx *store.Tx, d Document, h history, id op.StepID, signed audit.NotedHead) (Document, error) {
	d.Step = id.String()
	entries := h.steps[id]
	rows, err := m.rows(tx, id)
	if err != nil {
		return d, err
	}
	if err := d.take(rows); err != nil {
		return d, err
	}
	rules := h.rulesOf(decision(entries))
	if rules.list.Epoch != 0 {
		version, err := journal.ReadTrustOf(tx, rules.list.Epoch)
		if err != nil {
			return d, err
		}
		if op.SHA256(version.Text) == rules.list.SHA256 {
			d.Signers = &Signers{version.Epoch, string(version.Text)}
		}
	}
	for _, e := range entries {
		rules.seqs = append(rules.seqs, e.Seq)
	}
	slices.Sort(rules.seqs)
	for _, seq := range slices.Compact(rules.seqs) {
		if seq > signed.Size {
			return d, refusal.New(refusal.Unavailable, "entry %d of %s is not in the signed head of %d entries", seq, id, signed.Size).
				WithHint("start the gate, which signs a new head")
		}
		text, proof, err := audit.Proofs{Older: m.Archive}.Inclusion(tx, seq, signed.Size)
		if err == nil {
			err = signed.Includes(seq, text, proof)
		}
		if err != nil {
			return d, err
		}
		d.Entries = append(d.Entries, Entry{seq, string(text), checkpoint.EncodeHashes(proof)})
	}
	return d, nil
}

// decision returns the entry of the last signatures that counted, or of the rejection.
func decision(entries []audit.Entry) audit.Entry {
	var out audit.Entry
	for _, e := range entries {
		if e.Kind == audit.Approved || e.Kind == audit.Rejected {
			out = e
		}
	}
	return out
}

// inForce is the list by which a decision was made, and the entries that say so.
type inForce struct {
	list audit.SignersFile
	seqs []int64
}

// rulesOf finds them. Decisions of older programs do not name their list; then it is that of the newest entry before that names one.
func (h history) rulesOf(decided audit.Entry) (out inForce) {
	if decided.Kind == "" {
		return out
	}
	out.list = audit.SignersFile{Epoch: decided.InForce.Epoch, SHA256: decided.InForce.SHA256}
	named := out.list.Epoch != 0
	for _, e := range slices.Backward(h.lists) {
		if e.Seq >= decided.Seq {
			continue
		}
		if !named && e.SignersFile.Epoch != 0 {
			out.list, named = e.SignersFile, true
			out.seqs = append(out.seqs, e.Seq)
		}
		if e.Kind != audit.Rotated { // started or trusted, which name the revoked keys
			out.seqs = append(out.seqs, e.Seq)
			break
		}
	}
	return out
}

// rows returns the journal's rows of the step's job, from the database or the segment that has them.
func (m Maker) rows(tx *store.Tx, id op.StepID) (rows map[string][]map[string]any, err error) {
	number, err := journal.SegmentOf(tx, id.Job)
	if err != nil {
		return nil, err
	}
	var dumps []journal.Dump
	if number == 0 {
		dumps, err = journal.DumpJob(tx, id.Job)
	} else {
		dumps, err = m.archivedRows(tx, number, id.Job)
	}
	rows = map[string][]map[string]any{}
	for _, d := range dumps {
		for _, row := range d.Rows {
			named := map[string]any{}
			for i, column := range d.Columns {
				named[column] = row[i]
			}
			if named["idx"] == int64(id.Index) {
				rows[d.Table] = append(rows[d.Table], named)
			}
		}
	}
	return rows, err
}

func (m Maker) archivedRows(tx *store.Tx, number int64, job op.JobID) ([]journal.Dump, error) {
	row, err := audit.ReadSegment(tx, number)
	if err != nil {
		return nil, err
	}
	s, err := m.Archive.Cached(row)
	if err != nil {
		return nil, err
	}
	return s.Of(job), nil
}

// take adds what the journal has of the request to a document.
func (d *Document) take(rows map[string][]map[string]any) error {
	for _, r := range rows["requests"] {
		d.Payload, _ = r["payload"].([]byte)
		facts, _ := r["facts"].(string)
		labels, _ := r["labels"].(string)
		d.Shown = &Shown{facts, labels}
	}
	for _, r := range rows["signatures"] {
		armor, _ := r["armor"].(string)
		batch, _ := r["batch"].([]byte)
		leaf, _ := r["leaf"].(int64)
		path, _ := r["path"].([]byte)
		in, err := journal.DecodeInclusion(batch, int(leaf), path)
		if err != nil {
			return err
		}
		s := Signature{Armor: armor}
		if in != nil {
			s.Batch = &Batch{Payload: in.Batch, Index: leaf}
			for _, hash := range in.Path {
				s.Batch.Path = append(s.Batch.Path, hex.EncodeToString(hash[:]))
			}
		}
		d.Signatures = append(d.Signatures, s)
	}
	for _, r := range rows["proofs"] {
		armor, _ := r["armor"].(string)
		d.Proofs = append(d.Proofs, armor)
	}
	return nil
}
