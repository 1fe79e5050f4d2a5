package loss

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/gate"
)

// life of a name, as the oracle saw it: who made it, who touched it since.
type held struct {
	name   string
	makers []op.Requester // who asked for it
	enders []op.Requester // who asked for its end, once it was destroyed

	scratch bool
	agent   string    // who made it as scratch
	made    time.Time // in truth
	maxAge  time.Duration
	touched string // by whom else, "" while nobody did

	command string          // that runs in it
	allowed map[string]bool // programs that an operator let run in it, by a signature
}

// oracle is the model: what was written, and what may have become of it.
type oracle struct {
	m      *machine
	items  map[item]where
	ran    map[mark]string // the command that its guest had when it was written
	home   map[mark]string // the holder that it was written in
	lives  map[string]*held
	signed map[op.StepID]bool
	named  map[op.StepID]string // the holder that an operator read in what was signed
	users  map[op.StepID]string // who else has disks of its target, as an operator read it there
	used   map[op.StepID]int    // how often a signed step used a permit
	acted  []string             // targets that signed steps were dispatched for, since the last action
	steps  int                  // that used a permit
	bytes  int                  // that were marked
	serial int
	told   []string // what happened, for people

	given  map[string]bool   // holders: a hand gave another guest the number or name
	deeds  []deed            // what steps and hands did, in order
	shared map[string]string // holders: which other one has their disk; "" if one had it

	disturbed bool // a hand did something within a step since the last action

	asked map[op.StepID]int // steps that wait for a signature: how much had been done when they were submitted
}

// loss is what the oracle found.
type loss struct {
	question string // which of the oracle's questions it answers
	says     string
}

func (l *loss) Error() string { return l.question + ": " + l.says }

func lossOf(question, format string, args ...any) error {
	return &loss{question, fmt.Sprintf(format, args...)}
}

func newOracle(m *machine) *oracle {
	return &oracle{m: m, items: map[item]where{}, ran: map[mark]string{}, home: map[mark]string{}, lives: map[string]*held{},
		signed: map[op.StepID]bool{}, named: map[op.StepID]string{}, users: map[op.StepID]string{}, given: map[string]bool{}, used: map[op.StepID]int{}, shared: map[string]string{},
		asked: map[op.StepID]int{}}
}

func (o *oracle) say(format string, args ...any) {
	o.told = append(o.told, fmt.Sprintf(format, args...))
}

// look asks after an action what became of every byte.
func (o *oracle) look() error {
	now, err := o.m.bed.holdings()
	if err != nil {
		return fmt.Errorf("what is there cannot be read: %w", err)
	}
	steps := o.m.ran.take()
	o.steps += len(steps)
	for _, r := range steps {
		o.say("    %s: %s %s %v by %s: %s %s", r.step.ID, r.step.Op, r.step.Target.Name, r.step.Params, r.by, o.state(r), o.rule(r))
	}
	var gone []item
	if err := o.came(steps); err != nil {
		return err
	}
	for it, was := range o.items {
		if is, ok := now[it]; !ok || is.trash && !was.trash {
			gone = append(gone, it)
		}
	}
	slices.SortFunc(gone, func(a, b item) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	for _, it := range gone {
		if why := o.unexcused(it, o.items[it], now, steps); why != "" {
			became := "is gone"
			if _, kept := now[it]; kept {
				became = "went to the trash"
			}
			return lossOf("bytes", "%s of %s (%s) of %s %s: %s", it.mark, o.items[it].name, it.part, it.holder, became, why)
		}
	}
	if err := o.rules(steps); err != nil {
		return err
	}
	o.learn(steps)
	for it := range now {
		if _, known := o.home[it.mark]; !known { // a program wrote it when it started
			o.wrote(it.mark, it.holder, now[it].name)
		}
	}
	o.items = now
	for _, ask := range []func([]ran) error{o.stopped, o.denied, o.lies} {
		if err := ask(steps); err != nil {
			return err
		}
	}
	return o.foreseen()
}

// foreseen asks whether a driver refused a step after its signature, or the gate itself ended one that waited, though nothing was done
// since its submission: the gate could have refused it then.
func (o *oracle) foreseen() error {
	for _, t := range o.m.ran.takeTurned() {
		if then, waited := o.asked[t.id]; waited && o.signed[t.id] && then == t.at {
			return lossOf("foreseen", "%s was signed, and its driver refused it for what was so at its submission: %v", t.id, t.err)
		}
	}
	for id, then := range o.asked {
		// A set that withdraws what it asked for gives no code.
		if s := o.recorded(id); then == o.m.ran.soFar() && s.Code == refusal.Superseded {
			return lossOf("foreseen", "%s waited for a signature, and ended for what was so at its submission: %s", id, s.Detail)
		}
	}
	return nil
}

// denied asks of each destroy that was done whether it is recorded as failed, though its guest is gone.
func (o *oracle) denied(steps []ran) error {
	for _, r := range steps {
		gone := !slices.ContainsFunc(names, func(n string) bool { return o.m.bed.holder(n) == r.from })
		if r.step.Op == "guest.destroy" && r.done && gone && o.state(r) == op.StateFailed {
			return lossOf("belief", "%s (%s of %s) was done, and is recorded as failed: %s", r.step.ID, r.step.Op, r.step.Target, o.rule(r))
		}
	}
	return nil
}

func (o *oracle) wrote(m mark, holder, name string) {
	o.bytes += len(m)
	o.home[m] = holder
	seen, err := o.observe(name)
	if err == nil {
		o.ran[m] = seen.Spec.Str("command")
	}
}

func (o *oracle) observe(name string) (op.Observed, error) {
	return o.m.life.injector.Driver.Observe(o.m.ctx, op.At(op.Target{Kind: o.m.bed.kind(), Name: name}))
}

// unexcused says why an item that is gone should be there, "" where it may be gone.
func (o *oracle) unexcused(it item, was where, now map[item]where, steps []ran) string {
	if home := o.home[it.mark]; home != "" && home != it.holder && o.has(home, it.mark, now) {
		return "" // a copy in another guest; what was written is where it was written
	}
	for _, r := range steps {
		if r.step.Target.Name == was.name && o.ownProgram(it, r) {
			return ""
		}
	}
	if was.trash {
		return o.fromTrash(it, was)
	}
	var unsigned []string
	for i, r := range steps {
		before := steps
		if r.done { // what comes after a stop ends nothing
			before = steps[:i]
		}
		if it.part == inMemory && stops[r.step.Op] && r.step.Target.Name == was.name && !o.limited(before, was) {
			return "" // to stop a guest is no loss
		}
		// A new guest with the vmid of an earlier one has its backups, and an operator named this one.
		if read := o.named[r.step.ID]; read != "" {
			r.from = read
		}
		named := o.signed[r.step.ID] && r.step.Op == "guest.backup-delete" && it.part == "backup "+r.step.Params.Str("backup")
		shared := o.signed[r.step.ID] && !strings.HasPrefix(it.part, "backup ") && strings.Contains(o.users[r.step.ID], was.name)
		if r.from != it.holder && !(r.step.Target.Name == was.name && r.from == "") && !named && !shared {
			continue
		}
		if by := r.disturbance(it); by != "" {
			unsigned = append(unsigned, fmt.Sprintf("%s (%s) ran though somebody came before its work: %s", r.step.Op, r.step.ID, by))
			continue
		}
		if o.signed[r.step.ID] || o.ownScratch(it.holder, r) {
			return ""
		}
		unsigned = append(unsigned, fmt.Sprintf("%s (%s) was not signed", r.step.Op, r.step.ID))
	}
	if len(unsigned) == 0 {
		return "no step ran on it"
	}
	return strings.Join(unsigned, ", ")
}

// stops are the steps that stop a guest, or have another one start under its name.
var stops = map[string]bool{"guest.stop": true, "guest.restart": true, "guest.destroy": true, "guest.restore": true, "guest.backup-restore": true}

// limited reports whether a step that nobody signed set a memory limit below what a guest's programs held.
func (o *oracle) limited(steps []ran, was where) bool {
	return slices.ContainsFunc(steps, func(r ran) bool {
		p := r.step.Params
		return r.step.Target.Name == was.name && p.Has("memory") && int(p.Int("memory")) < was.mib && !o.signed[r.step.ID]
	})
}

func (o *oracle) has(holder string, m mark, now map[item]where) bool {
	for it := range now {
		if it.holder == holder && it.mark == m {
			return true
		}
	}
	return false
}

// fromTrash is unexcused for what was in the trash.
func (o *oracle) fromTrash(it item, was where) string {
	if wanted := o.undeleteWanted(it.holder); wanted != "" {
		return wanted
	}
	if truth := o.m.clock.truth(); truth.Before(was.until.Add(-o.m.clock.early())) {
		return fmt.Sprintf("the trash was to keep it until %s, and it is %s", was.until.Format(time.RFC3339), truth.Format(time.RFC3339))
	}
	return ""
}

// undeleteWanted says who asked for it back.
func (o *oracle) undeleteWanted(holder string) string {
	jobs, err := o.m.life.gate.Jobs(o.m.ctx, gate.JobFilter{Limit: 1000})
	if err != nil {
		return ""
	}
	for _, j := range jobs {
		for _, s := range j.Steps {
			if s.Op == "guest.undelete" && s.State.Open() && strings.Contains(s.Params.Str("incarnation"), holder) {
				return s.ID.String() + " asks to undelete it"
			}
		}
	}
	return ""
}

// ownScratch reports whether a step was asked for by the agent that made the guest
// as scratch, while nobody else had touched it or had its disk, and it was not too old.
func (o *oracle) ownScratch(holder string, r ran) bool {
	h := o.lives[holder]
	if h == nil || !h.scratch || h.touched != "" || o.sharedNow(holder) || r.by.Agent == "" || r.by.Agent != h.agent {
		return false
	}
	// While the clock is not believed, nobody can say how old it is.
	return o.m.life.gate.Moment().Trusted && o.m.clock.truth().Sub(h.made) < min(h.maxAge, o.m.policy.ScratchMaxAge)+o.m.clock.late()
}

// ownProgram reports whether a step let a program run that may delete the item: the
// one that its guest had when it was written, or one that an operator signed for.
func (o *oracle) ownProgram(it item, r ran) bool {
	if it.part != "data" || r.step.Op != "guest.start" && r.step.Op != "guest.restart" && r.step.Op != "guest.create" {
		return false
	}
	h := o.lives[it.holder]
	return h != nil && h.command == purges && (o.ran[it.mark] == purges || h.allowed[purges])
}

// rules asks of each step what has to hold of it whatever it did to bytes.
func (o *oracle) rules(steps []ran) error {
	for _, r := range steps {
		before, after := r.deeds()
		for _, d := range before {
			o.did(d)
		}
		if by := o.overtaken(r); by != "" {
			return lossOf("since", "%s (%s of %s) took back what %s did since", r.step.ID, r.step.Op, r.step.Target, by)
		}
		o.did(deed{name: r.step.Target.Name, job: r.step.ID.Job, step: r.step.ID})
		for _, d := range after {
			o.did(d)
		}
		if o.signed[r.step.ID] {
			o.acted = append(o.acted, r.step.Target.Name)
			if o.used[r.step.ID]++; o.used[r.step.ID] > 1 {
				return lossOf("once", "%s (%s of %s) was signed once, and used its permit %d times", r.step.ID, r.step.Op, r.step.Target, o.used[r.step.ID])
			}
			continue
		}
		if err := o.trashed(r); err != nil {
			return err
		}
	}
	return nil
}

// trashed asks of an unsigned step whether it undoes what an operator destroyed, or
// takes a name that a destroyed guest has, which others are to get back.
func (o *oracle) trashed(r ran) error {
	spec, err := op.Lookup(r.step.Op)
	if err != nil || !spec.Creates || r.by.String() == actors[3].by.String() {
		return nil
	}
	for it, w := range o.items {
		h := o.lives[it.holder]
		if !w.trash || h == nil {
			continue
		}
		here := h.name == r.step.Target.Name
		asked := mine(h.enders, r.by)
		switch {
		case spec.Identity == op.Revives && o.m.bed.holder(r.step.Target.Name) == it.holder && mine(h.enders, actors[3].by):
			return lossOf("undone", "%s by %s brought back %s, which an operator had destroyed", r.step.ID, r.by, it.holder)
		case spec.Identity == op.Revives && o.m.bed.holder(r.step.Target.Name) == it.holder && !asked && !mine(h.makers, r.by):
			return lossOf("undone", "%s by %s brought back %s, which is not its own", r.step.ID, r.by, it.holder)
		case spec.Identity == op.Makes && here && r.from == "" && o.m.bed.holder(h.name) != "" && !asked && !mine(h.makers, r.by):
			return lossOf("name", "%s by %s took the name of %s (%s), which is in the trash", r.step.ID, r.by, it.holder, h.name)
		}
	}
	return nil
}

func mine(all []op.Requester, by op.Requester) bool {
	return slices.ContainsFunc(all, func(r op.Requester) bool { return r.String() == by.String() })
}

// learn takes in who made and who touched what.
func (o *oracle) learn(steps []ran) {
	creates := func(r ran) bool { spec, err := op.Lookup(r.step.Op); return err == nil && spec.Creates }
	for i, r := range steps {
		name := r.step.Target.Name
		holder := o.m.bed.holder(name)
		spec, err := op.Lookup(r.step.Op)
		if err != nil {
			continue
		}
		// What has the name now is of a later step in the same look, if this one failed to make it.
		if spec.Creates && o.state(r) != op.StateSucceeded && slices.ContainsFunc(steps[i+1:], func(later ran) bool {
			return later.step.Target == r.step.Target && creates(later) && o.state(later) == op.StateSucceeded
		}) {
			continue
		}
		// A step before this one in the same look may have taken the new holder for one without makers.
		made := spec.Creates && r.step.Undoes == 0 && spec.Name != "guest.undelete" && r.from == "" && holder != ""
		if made && (o.lives[holder] == nil || o.lives[holder].makers == nil) {
			o.lives[holder] = &held{scratch: r.step.Params.Bool("scratch"), agent: r.by.Agent, made: o.m.clock.truth(),
				maxAge: o.m.policy.ScratchMaxAge, allowed: map[string]bool{}, name: name, makers: r.job.Requesters}
			for _, by := range r.job.Requesters {
				if by.Agent != r.by.Agent { // who asked for it, too
					o.lives[holder].touched = by.String()
				}
			}
		}
		if h := o.lives[r.from]; h != nil && spec.Name == "guest.destroy" {
			h.name, h.enders = name, r.job.Requesters
		}
		for _, at := range []string{r.from, holder} {
			h := o.lives[at]
			if h == nil {
				h = &held{allowed: map[string]bool{}}
				if at != "" {
					o.lives[at] = h
				}
			}
			if r.by.Agent != h.agent || spec.Name == "guest.undelete" {
				h.touched = r.by.String()
			}
			if at == holder && at != "" {
				if seen, err := o.observe(name); err == nil {
					h.command = seen.Spec.Str("command")
					if o.signed[r.step.ID] {
						h.allowed[h.command] = true
					}
				}
			}
		}
	}
	for _, name := range names {
		if h := o.lives[o.m.bed.holder(name)]; h != nil && h.touched == "" && o.m.wishes.mentions(name) {
			h.touched = "desired state"
		}
	}
}

// recorded is a step as the journal has it now.
func (o *oracle) recorded(id op.StepID) op.Step {
	j, err := o.m.life.gate.Job(o.m.ctx, id.Job)
	if err != nil || len(j.Steps) < id.Index {
		return op.Step{State: "unknown"}
	}
	return j.Steps[id.Index-1]
}

func (o *oracle) state(r ran) op.State { return o.recorded(r.step.ID).State }

func (o *oracle) rule(r ran) string {
	s := o.recorded(r.step.ID)
	return fmt.Sprintf("[%s] %s", s.Verdict.Rule, s.Detail)
}

// lies asks of each step that its back end only said it did whether the journal
// believes it, though the target shows otherwise.
func (o *oracle) lies(steps []ran) error {
	for i, r := range steps {
		if !r.lied || o.state(r) != op.StateSucceeded || o.followed(steps[i+1:], r) {
			continue
		}
		seen, err := o.observe(r.step.Target.Name)
		if err != nil {
			continue
		}
		if why := contradicts(r, seen); why != "" {
			return lossOf("belief", "%s (%s of %s) is recorded as succeeded, and %s", r.step.ID, r.step.Op, r.step.Target, why)
		}
	}
	return nil
}

// followed reports whether a later step, or a hand within one, changed the target of a step, so a look says nothing of that.
func (o *oracle) followed(later []ran, r ran) bool {
	return slices.ContainsFunc(later, func(x ran) bool {
		return x.step.Target == r.step.Target || slices.ContainsFunc(x.hands, func(w within) bool { return w.blurs(r) })
	})
}

// blurs reports whether a hand may have changed what a look shows of a step. A hand that changed one field changed no other.
func (w within) blurs(r ran) bool {
	switch p, name := r.step.Params, r.step.Target.Name; {
	case w.also == name:
		return true
	case w.name != name:
		return false
	case w.guards:
		return p.Has("protected")
	default:
		return w.field == "" || p.Has(w.field)
	}
}

// contradicts says what of a target shows that a step was not done, "" where
// nothing does.
func contradicts(r ran, seen op.Observed) string {
	s, p := r.step, r.step.Params
	switch s.Op {
	case "guest.backup":
		if !slices.ContainsFunc(seen.Backups, func(name string) bool { return !slices.Contains(r.had, name) }) {
			return "there is no backup that was not there before"
		}
	case "guest.snapshot":
		if !slices.Contains(seen.Snapshots, p.Str("snapshot")) {
			return "there is no such snapshot"
		}
	case "guest.snapshot-delete":
		if slices.Contains(seen.Snapshots, p.Str("snapshot")) {
			return "the snapshot is there"
		}
	case "guest.backup-delete":
		if slices.Contains(seen.Backups, p.Str("backup")) {
			return "the backup is there"
		}
	case "guest.disk-delete", "guest.disk-detach":
		if _, ok := seen.Disk(p.Str("disk")); ok {
			return "the disk is there"
		}
	case "guest.disk-create":
		if _, ok := seen.Disk(p.Str("disk")); !ok {
			return "there is no such disk"
		}
	case "guest.create", "guest.clone", "guest.undelete":
		if !seen.Present {
			return "there is no such guest"
		}
	case "guest.destroy":
		if seen.Present && seen.Incarnation == s.Incarnation {
			return "the guest is there"
		}
	case "guest.set-config":
		return unset(p, seen)
	}
	return ""
}

func unset(p op.Params, seen op.Observed) string {
	for _, name := range []string{"memory", "cpus", "command", "protected"} {
		if p.Has(name) && fmt.Sprint(p[name]) != fmt.Sprint(seen.Spec[name]) {
			return fmt.Sprintf("%s is %v", name, seen.Spec[name])
		}
	}
	if p.Has("labels") && !maps.Equal(p.Labels("labels"), seen.Labels) {
		return fmt.Sprintf("its labels are %v", seen.Labels)
	}
	return ""
}

// guards asks whether a file of the gate can be read or written by others.
func (o *oracle) guards() error {
	return filepath.WalkDir(o.m.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // gone while we look
		}
		info, err := e.Info()
		if err != nil {
			return nil
		}
		if rel, _ := filepath.Rel(o.m.dir, path); strings.HasPrefix(rel, "guests/") {
			return fs.SkipDir // what guests have is theirs; package local keeps them apart
		}
		if info.Mode().Perm()&0o077 != 0 || int(owner(info)) != os.Geteuid() {
			return lossOf("files", "%s has mode %v, and others can read or write it", path, info.Mode())
		}
		return nil
	})
}
