package op_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
)

// TestRulesOfEachOperation has each operation's rules in their order, the destructive ones with !, and the parameters that
// it must have. A change here changes which steps run unsigned.
func TestRulesOfEachOperation(t *testing.T) {
	want := map[string]string{
		"command.run":           "command-benign command-probed command!",
		"drill.sign":            "drill! as",
		"guest.backup":          "backup backup-prunes!",
		"guest.backup-delete":   "cascade! protected! backup-delete! backup",
		"guest.backup-restore":  "cascade! protected! backup-restore! backup",
		"guest.clone":           "name-in-trash! clone from",
		"guest.create":          "name-in-trash! create-new",
		"guest.destroy":         "cascade! protected! undo-own-work live-scratch destroy-unproven!",
		"guest.disk-create":     "disk-new disk size",
		"guest.disk-delete":     "cascade! protected! disk-delete! disk",
		"guest.disk-detach":     "cascade! protected! disk-detach! disk",
		"guest.disk-resize":     "disk-grow disk-shrink! disk size",
		"guest.disk-wipe":       "cascade! protected! disk-wipe! disk",
		"guest.restart":         "start-shared! stop-volatile! stop",
		"guest.restore":         "cascade! protected! live-scratch restore-over! snapshot",
		"guest.set-config":      "unprotect! label-removed! program-swapped! config-no-loss",
		"guest.snapshot":        "snapshot snapshot",
		"guest.snapshot-delete": "cascade! protected! snapshot-delete! snapshot",
		"guest.start":           "start-shared! start",
		"guest.stop":            "stop-volatile! stop",
		"guest.undelete":        "name-in-trash! undelete-foreign! undelete",
		"guest.wipe":            "cascade! protected! live-scratch wipe!",
		"incident.review":       "incident-review!",
		"scope.force-transfer":  "takes-reservations! reservation to",
		"scope.release-all":     "takes-reservations!",
		"trust.rotate":          "trust-rotation! epoch",
	}
	got := map[string]string{}
	for _, s := range op.Catalogue() {
		var words []string
		for _, r := range s.Rules {
			if r.Class == op.Destructive {
				r.Name += "!"
			}
			words = append(words, r.Name)
		}
		for _, p := range s.Params {
			if p.Required {
				words = append(words, p.Name)
			}
		}
		got[s.Name] = strings.Join(words, " ")
	}
	require.Equal(t, want, got)
}

// firstRule returns the name and the reason of the first rule that holds for a step.
func firstRule(t *testing.T, c op.Case) (name, why string) {
	t.Helper()
	for _, r := range lookup(t, c.Step.Op).Rules {
		if r.Matches(c) {
			return r.Name, r.Why(c)
		}
	}
	require.Fail(t, "no rule holds")
	return "", ""
}

// TestWhyScratchIsNotDestroyedUnsigned: the operator who is asked reads which condition is not met.
func TestWhyScratchIsNotDestroyedUnsigned(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for want, change := range map[string]func(*op.Case){
		"only the agent that created it": func(*op.Case) {},
		"older than scratch may be":      func(c *op.Case) { c.Now = c.Provenance.ScratchUntil },
		"is older than scratch may be":   func(c *op.Case) { c.ScratchMaxAge = time.Hour }, // a stricter policy since
		"does not trust its clock":       func(c *op.Case) { c.Doubt = true },
		"storage that this gate did not": func(c *op.Case) { c.Observed.Storage = []op.StorageID{"disk:2"} },
	} {
		c := op.Case{Step: op.Step{ID: op.StepID{Job: 9, Index: 1}, Op: "guest.destroy", Target: web1}, Now: now, ScratchMaxAge: 3 * time.Hour,
			Requester:  op.Requester{Source: op.SourceAPI, Agent: "other"},
			Provenance: &op.Provenance{Agent: "builder", Job: 7, Scratch: true, CreatedAt: now.Add(-time.Hour), ScratchUntil: now.Add(time.Hour)}}
		change(&c)
		name, why := firstRule(t, c)
		require.Equal(t, "destroy-unproven", name)
		require.Contains(t, why, want)
	}
}

// TestOwnGuestComesBackUnsigned: what others destroyed under the same name does not matter to a step on one's own.
func TestOwnGuestComesBackUnsigned(t *testing.T) {
	builder, other := op.Requester{Source: op.SourceAPI, Agent: "builder"}, op.Requester{Source: op.SourceAPI, Agent: "other"}
	c := op.Case{Step: op.Step{Op: op.Undelete, Target: web1, Params: op.Params{"incarnation": "i1"}}, Requester: builder, Trash: []op.Destroyed{
		{Trashed: op.Trashed{Incarnation: "i2"}, Askers: []op.Requester{other}},
		{Trashed: op.Trashed{Incarnation: "i1"}, Askers: []op.Requester{builder}},
	}}
	name, _ := firstRule(t, c)
	require.Equal(t, "undelete", name)
	c.Step.Params["incarnation"] = "i2"
	name, _ = firstRule(t, c)
	require.Equal(t, "undelete-foreign", name)
}
