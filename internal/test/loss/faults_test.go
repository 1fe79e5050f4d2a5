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

	"gated/internal/test/plant"
)

// fault is one mend taken out: a text of a file of the module, and what is in its
// place. What the oracle then finds answers the question.
type fault struct {
	name     string
	hole     string // the sequence that it opens again
	edits    []plant.Edit
	backend  string
	question string
	rare     bool // only the sequence is played: the search needs more than late
}

// top is the module's root, from here.
const top = "../../.."

var plants = []fault{
	{"another program is given to a guest with data", "an agent gives another program to a guest with data", []plant.Edit{{File: "internal/base/op/guest.go",
		Was: `{Name: "program-swapped", Class: Destructive, When: swapsProgram,`,
		Is:  `{Name: "program-swapped", Class: Destructive, When: func(Case) bool { return false },`}}, "memory", "bytes", false},
	{"a failed job takes back what was written into", "a failed job takes back what others filled", []plant.Edit{{File: "internal/base/op/rule.go",
		Was: `return c.Provenance != nil && c.Observed.Content != "" && c.Observed.Content == c.Provenance.Content`,
		Is:  `return c.Provenance != nil`}}, "memory", "bytes", false},
	{"the use of another requester does not end scratch", "an agent destroys its scratch that another agent uses", []plant.Edit{{File: "internal/gate/promote.go",
		Was: `if by.String() == p.Creator {`, Is: `if by.String() != "" {`}}, "memory", "bytes", false},
	{"desired state that mentions scratch does not end it", "an agent destroys its scratch that desired state mentions", []plant.Edit{{File: "internal/gate/withdraw.go",
		Was: `p.ScratchEnded != "" || p.Creator == "desired:"+set {`, Is: `p.ScratchEnded != "" || set != "" {`}}, "memory", "bytes", false},
	{"a back end is believed against the look", "a back end says that it made a snapshot", []plant.Edit{{File: "internal/base/op/evidence.go",
		Was: `case s.Shows != nil && !s.Fleeting && s.Shows(step, o) == ShowsUndone:`,
		Is:  `case s.Shows == nil && !s.Fleeting:`}}, "memory", "belief", false},
	{"a label that stays is taken for gone", "a back end says that it took a label away", []plant.Edit{{File: "internal/base/op/guest.go",
		Was: ` || name == "labels" && !maps.Equal(s.Params.Labels(name), o.Labels) {`, Is: ` {`}}, "memory", "belief", true},
	{"a backup that is nowhere is taken for made", "a back end says that it made a backup", []plant.Edit{{File: "internal/base/op/guest.go",
		Was: `	take.Before, take.Shows = func(o Observed) []string { return o.Backups }, oneMoreBackup
`, Is: `	take.Before = func(o Observed) []string { _ = oneMoreBackup; return o.Backups }
`}}, "proxmox", "belief", false},
	{"two unsigned steps, a snapshot and its restore, take what came between", "a snapshot and its restore take what came between", []plant.Edit{{File: "internal/base/op/guest.go",
		Was: `Rule{Name: "restore-over", Class: Destructive,`, Is: `Rule{Name: "restore-over", Class: Benign,`}}, "memory", "bytes", false},
	{"what is benign outruns an operator who reads", "labels are added while an operator reads", []plant.Edit{{File: "internal/gate/showing.go",
		Was: `return spec.Guarded == nil || len(spec.Guarded(s.Params)) > 0`, Is: `return false`}}, "memory", "liveness", false},
	{"scratch stays young while the clock is not believed", "scratch does not grow old while the clock is wrong", []plant.Edit{{File: "internal/base/op/rule.go",
		Was: `return !c.Doubt && c.Now.Before(`, Is: `return c.Now.Before(`}}, "memory", "bytes", false},
	{"a destroy that a crash cut off runs again", "a destroy that a kill cut off", []plant.Edit{
		{File: "internal/reconcile/diff.go", Was: `benign := s.Verdict.Class == op.Benign && !once`, Is: `benign := !once`},
		{File: "internal/gate/record.go", Was: `again := s.Verdict.Class == op.Benign && s.Attempts`, Is: `again := s.Attempts`},
		{File: "internal/gate/record.go", Was: `	to := t.To
`, Is: `	if s.Verdict.Class == op.Destructive && kind == audit.Retried {
		t.To = op.StateAuthorized
	}
	to := t.To
`},
	}, "memory", "records", false},
	{"the name of a guest in the trash is free for all", "a name is taken whose guest is in the trash", []plant.Edit{{File: "internal/base/op/observe.go",
		Was: `Rule{Name: "name-in-trash", Class: Destructive,`, Is: `Rule{Name: "name-in-trash", Class: Benign,`}}, "memory", "name", false},
	{"an operator's destroy is undone by the guest's creator", "an agent brings back what an operator destroyed", []plant.Edit{{File: "internal/base/op/observe.go",
		Was: `return len(d.Askers) > 0 && !d.ByOperator && d.Creator`, Is: `return len(d.Askers) > 0 && d.Creator`}}, "memory", "undone", false},
	{"guests run as the daemon's own uid", "a guest's program reaches files of the gate", []plant.Edit{{File: "internal/driver/local/confine.go",
		Was: `if a.Switch {`, Is: `if a.Switch && a.UID == 0 {`}}, "local", "files", false},
	{"a sweep takes what a caller asked to undelete", "a sweep takes what a caller asked to undelete", []plant.Edit{{File: "internal/driver/local/trash.go",
		Was: `rec.Incarnation); err != nil || wanted {`, Is: `rec.Incarnation); err != nil && wanted {`}}, "local", "bytes", false},
	{"what enters the trash pushes out what is there", "", []plant.Edit{{File: "internal/driver/local/trash.go",
		Was: `		if now.After(rec.Until) {`, Is: `		if now.After(rec.Until) || len(due) == 0 {`},
		{File: "internal/driver/local/trash.go", Was: `rec.Name != name || !now.After(rec.Until) {`, Is: `rec.Name != name {`}}, "local", "bytes", false},
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
			texts, err := plant.Texts(top, p.edits)
			must(t, err)
			if *planted && strings.Contains(p.name, *onePlant) {
				find(t, p, texts)
			}
		})
	}
}

// find builds the search with files replaced, runs it, and asks for what it found.
func find(t *testing.T, p fault, texts map[string]string) {
	dir := t.TempDir()
	overlay, err := plant.Overlay(dir, texts)
	must(t, err)
	program := filepath.Join(dir, "loss.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", overlay, "-o", program, "gated/internal/test/loss")
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
