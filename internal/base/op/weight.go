package op

// Weights say about how many bytes a list holds of one thing: the text of callers
// and back ends, and a constant for the rest. A server that cuts a page and a client
// that reads it use the same numbers.

const rowWeight = 512

// Weight is that of a job with its steps.
func (j Job) Weight() int {
	n := rowWeight + len(j.Reason)
	for _, r := range j.Requesters {
		n += len(r.Agent) + len(r.Set) + 64
	}
	for _, s := range j.Steps {
		n += s.Weight()
	}
	return n
}

// Weight is that of a step.
func (s Step) Weight() int {
	return rowWeight + len(s.Params.Canonical()) + len(s.Verdict.Why) + len(s.Detail) + len(s.Output)
}

// Weight is that of a request with its payload, facts and signatures.
func (r Request) Weight() int {
	n := rowWeight + r.Step.Weight() + len(r.Payload) + len(r.Reason)
	for _, f := range r.Facts {
		n += len(f.Name) + len(f.Text) + 32
	}
	for k, v := range r.Labels {
		n += len(k) + len(v) + 8
	}
	for _, s := range append(r.Signatures[:len(r.Signatures):len(r.Signatures)], r.Proofs...) {
		n += len(s.Armor) + rowWeight
	}
	return n
}

// Weight is that of what was observed of a target.
func (o Observed) Weight() int {
	n := rowWeight + len(o.Spec.Canonical())
	for k, v := range o.Labels {
		n += len(k) + len(v) + 8
	}
	for _, f := range o.Facts {
		n += len(f.Name) + len(f.Text) + 32
	}
	for _, names := range [][]string{o.Snapshots, o.Backups} {
		for _, name := range names {
			n += len(name) + 8
		}
	}
	return n + 64*(len(o.Disks)+len(o.Trash)+len(o.Storage))
}
