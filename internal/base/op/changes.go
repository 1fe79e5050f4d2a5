package op

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// changeName begins the name of each fact that says what a step changes.
const changeName = "changes "

// Changed returns the facts of a look, after those that say what a step would
// change, with the old and the new value.
func (o Observed) Changed(name string, p Params) []Fact {
	spec, err := Lookup(name)
	if err != nil || spec.Changes == nil || !o.Present {
		return o.Facts
	}
	return append(spec.Changes(p, o), o.Facts...)
}

// IsChange reports whether a fact says what the step changes.
func (f Fact) IsChange() bool { return strings.HasPrefix(f.Name, changeName) }

// Changes returns the name of what the step changes, if the fact says that.
func (f Fact) Changes() (string, bool) { return strings.CutPrefix(f.Name, changeName) }

// ChangesLabel returns the name of the fact that says how a step changes a label.
func ChangesLabel(label string) string { return change("label "+Shown(label), "", "").Name }

// The names of facts on the limits that a running guest has now and after its next
// start.
const (
	FactLimits    = "limits"
	FactNextStart = "from the next start on"
)

// OnLimits reports whether a fact is about limits alone. Changing limits loses
// nothing (see Guarded), so such a change must not invalidate a signature.
func (f Fact) OnLimits() bool { return f.Name == FactLimits || f.Name == FactNextStart }

func change(what, from, to string) Fact {
	return Fact{Name: changeName + what, Text: "from " + from + " to " + to}
}

// configChanges lists the fields that a set-config would change, with the fields
// that guard the guest first.
func configChanges(p Params, o Observed) []Fact {
	var out []Fact
	if p.Has("protected") && p.Bool("protected") != o.Protected {
		out = append(out, change("protection", onOff(o.Protected), onOff(p.Bool("protected"))))
	}
	for _, l := range changedLabels(p, o) {
		out = append(out, change("label "+Shown(l.name), l.from(), l.to()))
	}
	if p.Has("command") && p.Str("command") != o.Spec.Str("command") {
		out = append(out, change("command", quotedOr(o.Spec.Str("command")), quotedOr(p.Str("command"))))
	}
	for _, f := range guestFields {
		if was, is := o.Spec.Int(f.Name), p.Int(f.Name); f.Type == TInt && p.Has(f.Name) && is != was {
			from := strconv.FormatInt(was, 10)
			if !o.Spec.Has(f.Name) {
				from = "no limit"
			}
			out = append(out, change(f.Name, from, fmt.Sprintf("%d %s", is, f.Unit)))
		}
	}
	if p.Has("memory") && p.Int("memory") < o.MemoryUsed {
		out = append(out, Fact{Name: FactPrograms, Text: "hold more memory than that, and the kernel would kill some of them at once"})
	}
	return out
}

// resizeChanges returns the size of a disk now and after the step.
func resizeChanges(p Params, o Observed) []Fact {
	name := p.Str("disk")
	from := "an unknown size"
	if d, ok := o.Disk(name); ok && d.Size > 0 {
		from = strconv.FormatInt(d.Size/mebibyte, 10)
		if rest := d.Size % mebibyte; rest != 0 {
			from += fmt.Sprintf(" MiB and %d bytes", rest)
		}
	}
	return []Fact{change("disk "+Shown(name), from, fmt.Sprintf("%d MiB", p.Int("size")))}
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

func quotedOr(s string) string {
	if s == "" {
		return "none"
	}
	return ShownQuoted(s)
}

// labelChange is a label that a step removes, changes or adds.
type labelChange struct {
	name     string
	was, is  string
	had, has bool
}

func (l labelChange) from() string { return valueOr(l.was, l.had) }
func (l labelChange) to() string   { return valueOr(l.is, l.has) }

// valueOr quotes a label's value, which may be empty. A missing label has no value.
func valueOr(value string, there bool) string {
	if !there {
		return "none"
	}
	return ShownQuoted(value)
}

// changedLabels returns what a set-config does to labels, by their names. Its
// parameter has all labels that the guest will have.
func changedLabels(p Params, o Observed) []labelChange {
	if !p.Has("labels") {
		return nil
	}
	wished := p.Labels("labels")
	names := maps.Clone(o.Labels)
	if names == nil {
		names = map[string]string{}
	}
	maps.Copy(names, wished)
	var out []labelChange
	for _, name := range slices.Sorted(maps.Keys(names)) {
		l := labelChange{name: name}
		l.was, l.had = o.Labels[name]
		l.is, l.has = wished[name]
		if l.was != l.is || l.had != l.has {
			out = append(out, l)
		}
	}
	return out
}

// lostLabels returns the labels that a step would remove or change.
func lostLabels(c Case) []labelChange {
	return slices.DeleteFunc(changedLabels(c.Step.Params, c.Observed), func(l labelChange) bool { return !l.had })
}

// Bounds of a reason, because a line of a list or of the audit log must hold it. The
// facts have the full text.
const (
	maxNamed = 8  // labels or dependents
	maxValue = 64 // bytes of a label's value
)

// labelsLost says which labels a step removes or changes, with the old and the new
// value.
func labelsLost(c Case) string {
	var gone, other []string
	lost := lostLabels(c)
	for _, l := range lost[:min(len(lost), maxNamed)] {
		if l.has {
			other = append(other, fmt.Sprintf("%s (%s to %s)", Shown(l.name), clippedValue(l.was), clippedValue(l.is)))
		} else {
			gone = append(gone, fmt.Sprintf("%s (%s)", Shown(l.name), clippedValue(l.was)))
		}
	}
	var parts []string
	if len(gone) > 0 {
		parts = append(parts, "takes away "+labelWord(gone)+" "+strings.Join(gone, ", "))
	}
	if len(other) > 0 {
		parts = append(parts, "changes "+labelWord(other)+" "+strings.Join(other, ", "))
	}
	text := "it " + strings.Join(parts, " and ")
	if more := len(lost) - maxNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text + ", and a label may protect"
}

func labelWord(names []string) string {
	if len(names) == 1 {
		return "the label"
	}
	return "the labels"
}

func clippedValue(value string) string {
	if len(value) <= maxValue {
		return ShownQuoted(value)
	}
	cut := maxValue
	for cut > 0 && value[cut]&0xc0 == 0x80 { // not inside a character
		cut--
	}
	return ShownQuoted(value[:cut]) + fmt.Sprintf(" and %d bytes more", len(value)-cut)
}

// dependents names the targets that the step would destroy too, or that would lose
// data by it.
func dependents(c Case) string {
	all := c.Observed.Dependent
	var names []string
	for _, t := range all[:min(len(all), maxNamed)] {
		names = append(names, t.String())
	}
	text := strings.Join(names, ", ")
	if more := len(all) - maxNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if len(all) == 1 {
		return text + " depends on it"
	}
	return text + " depend on it"
}

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
	n += weightOf(j.Reasons)
	for _, s := range j.Steps {
		n += s.Weight()
	}
	return n
}

func weightOf(reasons []Reason) (n int) {
	for _, r := range reasons {
		n += len(r.By) + len(r.Text) + 32
	}
	return n
}

// Weight is that of a step.
func (s Step) Weight() int {
	return rowWeight + len(s.Params.Canonical()) + len(s.Verdict.Why) + len(s.Detail) + len(s.Output)
}

// Weight is that of a request with its payload, facts and signatures.
func (r Request) Weight() int {
	n := rowWeight + r.Step.Weight() + len(r.Payload) + len(r.Reason) + weightOf(r.Reasons)
	for _, old := range r.Rejections {
		n += len(old.Words) + 128
		for _, who := range slices.Concat(old.By, old.AskedBy) {
			n += len(who) + 8
		}
	}
	for _, f := range r.Facts {
		n += len(f.Name) + len(f.Text) + 32
	}
	for k, v := range r.Labels {
		n += len(k) + len(v) + 8
	}
	for _, s := range append(r.Signatures[:len(r.Signatures):len(r.Signatures)], r.Proofs...) {
		n += len(s.Armor) + rowWeight
		if s.Batch != nil {
			n += len(s.Batch.Batch) + 2*len(Digest{})*len(s.Batch.Path)
		}
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
