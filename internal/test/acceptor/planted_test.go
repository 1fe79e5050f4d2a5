package acceptor_test

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
	"gated/internal/test/plant"
)

// fault is one of the model, planted into the gate: a text of a file of the module, and what is in its place. The gate then
// writes a log that the acceptor does not accept, by that property.
type fault struct {
	model    string // FAULT_… of model/gated.pml
	world    string // of TestWorlds
	daemon   bool   // the story restored-approval finds it, too, with a daemon that has the fault
	edit     plant.Edit
	property string
}

var planting = []fault{
	{"binding_without_gate", "a step that was approved before a restore", true, plant.Edit{File: "internal/gate/approve.go",
		Was: `return p.Gate == g.id && p.Host == g.host`, Is: `return p.Host == g.host`}, "other_gate"},
	{"cool_off_skipped", "a step whose cool-off is not over", true, plant.Edit{File: "internal/gate/delay.go",
		Was: `case now.Before(from):`, Is: `case now.Before(r.AuthorizedAt):`}, "cool_off"},
	{"order_ignored", "a step before the one before it", false, plant.Edit{File: "internal/gate/permit.go",
		Was: `if x.ID.Index < id.Index && x.State.Open() && !asks {`, Is: `if x.ID.Index < id.Index && x.State == op.StatePlanned && !asks {`}, "in_order"},
	{"busy_target_ignored", "two steps on one target", false, plant.Edit{File: "internal/gate/permit.go",
		Was: `	if busy {
`, Is: `	if busy && s.Target.Name == "" {
`}, "alone"},
	{"threshold_by_signature", "one person of two", true, plant.Edit{File: "internal/gate/count.go",
		Was: `	if !need.Met(r.Signatures) {
		g.present`, Is: `	if len(r.Signatures) == 0 {
		g.present`}, "never_unsigned"},
	{"signed_step_is_tried_again", "a signed step that met an error that may pass", false, plant.Edit{File: "internal/gate/record.go",
		Was: `again := s.Verdict.Class == op.Benign && s.Attempts`, Is: `again := s.Attempts`}, "once"},
}

var planted = flag.Bool("planted", false, "plant each fault, and ask that the acceptor finds it")

// TestPlantedFaults asks that each fault can still be planted and is one of the model's; with -planted, that the acceptor finds it.
func TestPlantedFaults(t *testing.T) {
	top := must.Get(filepath.Abs(filepath.Join("..", "..", "..")))(t)
	model := string(must.Get(os.ReadFile(filepath.Join(top, "model", "gated.pml")))(t))
	for _, p := range planting {
		t.Run(p.model, func(t *testing.T) {
			require.Contains(t, model, "FAULT_"+p.model+"\n")
			texts := must.Get(plant.Texts(top, []plant.Edit{p.edit}))(t)
			if *planted {
				found(t, p, texts)
			}
		})
	}
}

// found has the world of the fault play with the file replaced, and where it says so a daemon, and asks for what the acceptor said.
func found(t *testing.T, p fault, texts map[string]string) {
	overlay := must.Get(plant.Overlay(t.TempDir(), texts))(t)
	refused(t, p, overlay, "gated/internal/test/acceptor", "^TestWorlds$/^"+strings.ReplaceAll(p.world, " ", "_")+"$")
	if p.daemon {
		refused(t, p, overlay, "gated/cmd/opsign", "^TestStories$/^restored-approval$")
	}
}

// refused runs a test with the overlay, which also holds for the programs that the test builds.
func refused(t *testing.T, p fault, overlay, of, test string) {
	run := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-timeout", "5m", "-run", test, of)
	run.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-overlay="+overlay)
	out, err := run.CombinedOutput()
	require.Error(t, err, "with the fault, %s accepts the log\n%s", test, out)
	require.Contains(t, string(out), "the model does not allow: "+p.property+": ", test)
}
