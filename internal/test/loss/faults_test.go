package loss

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// plant is one mend taken out: a text of a file of the module, and what is in its
// place. What the oracle then finds answers the question.
type plant struct {
	name     string
	hole     string // the sequence that it opens again
	edits    []edit
	backend  string
	question string
	rare     bool // only the sequence is played: the search needs more than late
}

type edit struct{ file, was, is string }

// top is the module's root, from here.
const top = "../../.."

var plants = []plant{
	{"another program is given to a guest with data", "an agent gives another program to a guest with data", []edit{{"internal/base/op/guest.go",
		`{Name: "program-swapped", Class: Destructive, When: swapsProgram,`,
		`{Name: "program-swapped", Class: Destructive, When: func(Case) bool { return false },`}}, "memory", "bytes", false},
	{"a failed job takes back what was written into", "a failed job takes back what others filled", []edit{{"internal/base/op/rule.go",
		`return c.Provenance != nil && c.Observed.Content != "" && c.Observed.Content == c.Provenance.Content`,
		`return c.Provenance != nil`}}, "memory", "bytes", false},
	{"the use of another requester does not end scratch", "an agent destroys its scratch that another agent uses", []edit{{"internal/gate/promote.go",
		`if by.String() == p.Creator {`, `if by.String() != "" {`}}, "memory", "bytes", false},
	{"desired state that mentions scratch does not end it", "an agent destroys its scratch that desired state mentions", []edit{{"internal/gate/withdraw.go",
		`p.ScratchEnded != "" || p.Creator == "desired:"+set {`, `p.ScratchEnded != "" || set != "" {`}}, "memory", "bytes", false},
	{"a back end is believed against the look", "a back end says that it made a snapshot", []edit{{"internal/base/op/evidence.go",
		`case s.Shows != nil && !s.Fleeting && s.Shows(step, o) == ShowsUndone:`,
		`case s.Shows == nil && !s.Fleeting:`}}, "memory", "belief", false},
	{"a label that stays is taken for gone", "a back end says that it took a label away", []edit{{"internal/base/op/guest.go",
		` || name == "labels" && !maps.Equal(s.Params.Labels(name), o.Labels) {`, ` {`}}, "memory", "belief", true},
	{"a backup that is nowhere is taken for made", "a back end says that it made a backup", []edit{{"internal/base/op/guest.go",
		`	take.Before, take.Shows = Observed.listed, oneMoreBackup`, `	take.Before, _ = Observed.listed, oneMoreBackup`}}, "proxmox", "belief", false},
	{"two unsigned steps, a snapshot and its restore, take what came between", "a snapshot and its restore take what came between", []edit{{"internal/base/op/guest.go",
		`Rule{Name: "restore-over", Class: Destructive,`, `Rule{Name: "restore-over", Class: Benign,`}}, "memory", "bytes", false},
	{"what is benign outruns an operator who reads", "labels are added while an operator reads", []edit{{"internal/gate/showing.go",
		`return spec.Guarded == nil || len(spec.Guarded(s.Params)) > 0`, `return false`}}, "memory", "liveness", false},
	{"scratch stays young while the clock is not believed", "scratch does not grow old while the clock is wrong", []edit{{"internal/base/op/rule.go",
		`return !c.Doubt && c.Now.Before(`, `return c.Now.Before(`}}, "memory", "bytes", false},
	{"a destroy that a crash cut off runs again", "a destroy that a kill cut off", []edit{
		{"internal/reconcile/diff.go", `benign := s.Verdict.Class == op.Benign && !once`, `benign := !once`},
		{"internal/gate/record.go", `again := s.Verdict.Class == op.Benign && s.Attempts`, `again := s.Attempts`},
		{"internal/gate/record.go", `	to := t.To
`, `	if s.Verdict.Class == op.Destructive && kind == audit.Retried {
		t.To = op.StateAuthorized
	}
	to := t.To
`},
	}, "memory", "records", false},
	{"the name of a guest in the trash is free for all", "a name is taken whose guest is in the trash", []edit{{"internal/base/op/observe.go",
		`Rule{Name: "name-in-trash", Class: Destructive,`, `Rule{Name: "name-in-trash", Class: Benign,`}}, "memory", "name", false},
	{"an operator's destroy is undone by the guest's creator", "an agent brings back what an operator destroyed", []edit{{"internal/base/op/observe.go",
		`return len(d.Askers) > 0 && !d.ByOperator && d.Creator`, `return len(d.Askers) > 0 && d.Creator`}}, "memory", "undone", false},
	{"guests run as the daemon's own uid", "a guest's program reaches files of the gate", []edit{{"internal/driver/local/confine.go",
		`if a.Switch {`, `if a.Switch && a.UID == 0 {`}}, "local", "files", false},
	{"a sweep takes what a caller asked to undelete", "a sweep takes what a caller asked to undelete", []edit{{"internal/driver/local/trash.go",
		`rec.Incarnation); err != nil || wanted {`, `rec.Incarnation); err != nil && wanted {`}}, "local", "bytes", false},
	{"an undo overwrites what another job did since", "a failed job sets back what another one set since", []edit{{"internal/gate/undo.go",
		`	case ok:
`, `	case ok && s.Undoes == 0:
`}}, "memory", "since", false},
	{"an undo does not look at what it sets back", "a failed job sets back what somebody set by hand since", []edit{{"internal/gate/undo.go",
		`spec.Shows(gave, now) != op.ShowsDone:`, `spec.Shows(gave, now) == op.ShowsAnother:`}}, "memory", "since", false},
	{"nobody asks who else has a disk", "an agent destroys its scratch whose disk an administrator gave to another guest", []edit{{"internal/driver/proxmox/users.go",
		`		if !slices.Contains(o.Dependent, u.target) {`, `		if slices.Contains(o.Dependent, u.target) {`}}, "proxmox", "bytes", false},
	{"a number is given a second time", "a newcomer has the number of a guest that is gone, and its backups", []edit{
		{"internal/driver/proxmox/number.go", `		if !d.known.isHad(vmid) && !d.taken[vmid] && !left[vmid] {`, `		if !d.taken[vmid] {`},
	}, "proxmox", "bytes", false},
	{"a second call signs what nobody was shown", "a request is issued anew between two calls", []edit{{"internal/people/shown/record.go",
		`return r.Payload == string(payload) }`, `return true }`}}, "memory", "shown", false},
	{"a look that found no process counts as proof", "a stop leaves a process that no look finds", []edit{
		{"internal/driver/local/killuid.go", `		if none, err := proc.NoneOf(uid); none || err != nil {`, `		if none, err := proc.NoneOf(uid); none || err != nil || uid > 0 {`},
		{"internal/driver/local/killuid.go", `	return d.awaitUID(ctx, inc, uid, d.killUID(ctx, inc, uid))`, `	return nil`},
		{"internal/driver/local/lost.go", `			killed[i] = d.killUID(ctx, lost[i].inc, uid)`, ``},
		{"internal/driver/local/lost.go", `			delete(want.uids, l.uid) // killUID reaches these, whatever their environment says`, ``},
	}, "local", "stopped", false},
	{"what a command left is not looked for", "a command leaves a process", []edit{{"internal/driver/command/warden.go",
		`	endRest()
	r := report`, `	r := report`}}, "command", "stopped", false},
	{"a step works on what somebody changed after its look", "a guest is protected after the permit of its destroy", []edit{{"internal/driver/memory/memory.go",
		`o.Present && (o.Fingerprint != seen.Fingerprint || !o.Spec.Equal(seen.Spec))`, `o.Present && o.Target != seen.Target`}}, "memory", "bytes", false},
	{"a guest is not looked at again before it goes to the trash", "a guest is protected in its file after the permit of its destroy", []edit{{"internal/driver/local/guest.go",
		`fingerprint(now) != fingerprint(g)) {`, `now.incarnation() != g.incarnation()) {`}}, "local", "bytes", false},
	{"an undo overwrites what somebody wrote into a guest's file after its look", "a failed job sets back what somebody wrote into a guest's file within that",
		[]edit{{"internal/driver/local/guest.go", `if err == nil && !now.params().Equal(g.params()) {`, `if err == nil && now.UUID == "" {`}}, "local", "since", true},
	{"an undo overwrites what somebody defined after its look", "a failed job sets back what somebody set by hand within that", []edit{{"internal/driver/libvirt/config.go",
		`seen != nil && !reflect.DeepEqual(now, *seen) {`, `seen != nil && !reflect.DeepEqual(now, now) {`}}, "libvirt", "since", true},
	{"an undo names no digest", "a failed job sets back what somebody set by hand within that", []edit{{"internal/driver/proxmox/guarded.go",
		`	v["digest"] = g.digest
`, ``}}, "proxmox", "since", true},
	{"the clock tells which step came first", "a failed job takes back what started after the clock went back", []edit{{"internal/log/journal/steps.go",
		`AND turn >= (SELECT d.turn FROM`, `AND updated_at >= (SELECT d.updated_at FROM`}}, "memory", "since", true},
	{"nobody asks right before a destroy who else has a disk", "a disk is given to another guest after the permit of its guest's destroy",
		[]edit{{"internal/driver/proxmox/users.go", `	if err = d.alone(ctx, g); err == nil {`, `	if err == nil {`}}, "proxmox", "bytes", false},
	{"a guest is not compared with itself while it is destroyed", "a snapshot is taken while a guest is destroyed",
		[]edit{{"internal/driver/proxmox/guarded.go", `	if !same {`, `	if !same && now.name == "" {`}}, "proxmox", "bytes", false},
	{"what has a name now is moved to the trash", "two directories are exchanged after the permit of a destroy", []edit{
		{"internal/driver/local/guest.go", `fingerprint(now) != fingerprint(g)) {`, `now.name != g.name) {`},
		{"internal/driver/local/trash.go", `; err != nil || !moved.same(meant) {`, `; err != nil && !moved.same(meant) {`},
	}, "local", "bytes", false},
	{"a command goes where a path leads by then", "a room is led elsewhere after the permit of what empties it", []edit{{"internal/driver/command/driver.go",
		`seen.again(step.Params); err != nil {`, `seen.again(step.Params); err != nil && step.Op == "" {`}}, "command", "bytes", false},
	{"a signature is over a directory's name alone", "two rooms are exchanged after a request was shown", []edit{{"internal/driver/command/look.go",
		`dirs[i] = dir.Text`, `dirs[i] = dir.Name`}}, "command", "bytes", true},
	{"who asked for the same scratch does not use it", "an agent destroys the scratch that another agent asked for, too", []edit{{"internal/gate/promote.go",
		`func(r op.Requester) bool { return r.String() != who[0].String() }`, `func(r op.Requester) bool { return r.String() == "" }`}}, "local", "bytes", true},
	{"a step waits for a signature though what it is about is not there", "a restore of a snapshot that is not there", []edit{{"internal/gate/plan.go",
		`	case o.Missing != "":`, `	case o.Missing != "" && t.Name == "":`}}, "memory", "foreseen", false},
	{"a step waits for a signature though its driver would refuse it", "a backup is to be restored over a guest that runs", []edit{{"internal/gate/plan.go",
		`p.hindered = p.observed.Hindrance()`, `p.hindered = op.Observed{}.Hindrance()`}}, "proxmox", "foreseen", false},
	{"a number that is taken says that its guest is there", "a number is taken right after its guest's destroy", []edit{{"internal/driver/proxmox/unseen.go",
		`case err == nil && now.self().isNot(meant):`, `case err == nil && now.self().isNot(meant) && vmid == 0:`}}, "proxmox", "belief", false},
	{"a limit below what programs hold is no loss", "a limit is set below the memory that programs hold", []edit{{"internal/base/op/guest.go",
		`{Name: memoryInUse, Class: Destructive, When: takesMemory,`, `{Name: memoryInUse, Class: Benign, When: takesMemory,`}}, "proxmox-lxc", "bytes", true},
	{"a disk that was made again is taken for the one that was", "an agent destroys its scratch whose disk was deleted and made again", []edit{{"internal/driver/proxmox/identity.go",
		`made != "" && g.birth() != "" {`, `made != "" && g.birth() == "" {`}}, "proxmox", "bytes", false},
	{"nobody asks right before a destroy when a disk was made", "a disk is deleted and made again after the permit of its guest's destroy",
		[]edit{{"internal/driver/proxmox/guarded.go", `maps.Equal(now.times, g.times)`, `maps.Equal(now.times, now.times)`}}, "proxmox", "bytes", false},
	{"what enters the trash pushes out what is there", "", []edit{{"internal/driver/local/trash.go",
		`		if now.After(rec.Until) {`, `		if now.After(rec.Until) || len(due) == 0 {`},
		{"internal/driver/local/trash.go", `rec.Name != name || !now.After(rec.Until) {`, `rec.Name != name {`}}, "local", "bytes", false},
}

var (
	planted  = flag.Bool("planted", false, "plant each fault, and search until it is found")
	onePlant = flag.String("plant", "", "only the planted faults whose names contain this")
)

// soon is how long a search may take to find a planted fault, in time of a processor;
// on a machine that has other work it takes longer, up to late.
const (
	soon = 2 * time.Minute
	late = 15 * time.Minute
)

// TestPlantedFaults asks that each fault can still be planted; with -planted, that
// the search finds it soon.
func TestPlantedFaults(t *testing.T) {
	for _, p := range plants {
		t.Run(p.name, func(t *testing.T) {
			texts := map[string]string{}
			for _, e := range p.edits {
				text, known := texts[e.file]
				if !known {
					b, err := os.ReadFile(filepath.Join(top, e.file))
					must(t, err)
					text = string(b)
				}
				if n := strings.Count(text, e.was); n != 1 {
					t.Fatalf("%s has %q %d times, and a fault is planted where it is once", e.file, e.was, n)
				}
				texts[e.file] = strings.Replace(text, e.was, e.is, 1)
			}
			if *planted && strings.Contains(p.name, *onePlant) {
				find(t, p, texts)
			}
		})
	}
}

// find builds the search with files replaced, runs it, and asks for what it found.
func find(t *testing.T, p plant, texts map[string]string) {
	dir := t.TempDir()
	replace := map[string]string{}
	for file, text := range texts {
		from, err := filepath.Abs(filepath.Join(top, file))
		must(t, err)
		replace[from] = filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		must(t, os.WriteFile(replace[from], []byte(text), 0o600))
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600))
	program := filepath.Join(dir, "loss.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, "gated/internal/test/loss")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("with the fault it cannot be built: %v\n%s", err, out)
	}
	played := exec.CommandContext(t.Context(), program, "-test.run", "^TestHoles$/^"+p.backend+"$/^"+strings.ReplaceAll(p.hole, " ", "_")+"$", "-test.v")
	if out, err := played.CombinedOutput(); p.hole != "" && (err == nil || !strings.Contains(string(out), ": "+p.question+": ")) {
		t.Errorf("with the fault, the sequence %q is not found:\n%s", p.hole, out)
	}
	if p.rare {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), late+5*time.Minute)
	defer cancel()
	run := exec.CommandContext(ctx, program, "-test.run", "^TestSearch$", "-test.v", "-backend", p.backend, "-search", late.String(), "-processor", soon.String(),
		"-seed", fmt.Sprint(*seed), "-shrink", "0s")
	out, err := run.CombinedOutput()
	text := string(out)
	_, after, found := strings.Cut(text, ": "+p.question+": ")
	if err == nil || !found || !strings.Contains(text, "| lost 1") {
		t.Fatalf("the search does not find it (%v):\n%s", err, text)
	}
	line, _, _ := strings.Cut(after, "\n")
	t.Logf("planted: %s | found after %s of a processor | %s: %s", p.name, (run.ProcessState.UserTime() + run.ProcessState.SystemTime()).Round(time.Second), p.question, line)
}
