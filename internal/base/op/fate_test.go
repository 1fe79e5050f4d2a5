package op_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
)

// guestFacts are the names of facts on what a guest holds, from every back end.
var guestFacts = []string{"files", "bytes", "last write", "disk vda", "disk vdb", "disks", "cloud-init", "saved state", "firmware settings", "TPM",
	"process", "only while it runs", "snapshots", "backups", "other backups", "other disk sda", "other firmware settings", "remains",
	"snapshot", "snapshot holds", "snapshot made by", "backup", "backup holds", "backup made by", "overwritten", "not in the backup"}

// fateOf returns the facts with that fate.
func fateOf(t *testing.T, name string, p op.Params, fate op.Fate) (out []string) {
	for _, f := range guestFacts {
		if lookup(t, name).Fate(p, op.Fact{Name: f}) == fate {
			out = append(out, f)
		}
	}
	return out
}

// TestWhatGoesAndWhatStays has each operation on guests. A fact is in goes, in open, or it stays.
func TestWhatGoesAndWhatStays(t *testing.T) {
	data := []string{"files", "bytes", "last write", "disk vda", "disk vdb", "disks", "cloud-init"}
	states, runs := []string{"saved state", "firmware settings", "TPM"}, []string{"process", "only while it runs"}
	over := []string{"overwritten", "not in the backup"}
	whole := slices.Concat(data, states, runs, []string{"snapshots"})
	disk := op.Params{"disk": "vda"}
	for _, c := range []struct {
		op         string
		params     op.Params
		goes, open []string
	}{
		{"guest.create", nil, nil, guestFacts},
		{"guest.clone", nil, nil, guestFacts},
		{"guest.undelete", nil, nil, guestFacts},
		{"guest.start", nil, nil, append(over, "saved state")},
		{"guest.stop", nil, runs, slices.Concat(over, []string{"disk vda", "disk vdb", "disks", "other disk sda"})},
		{"guest.restart", nil, runs, slices.Concat(over, []string{"disk vda", "disk vdb", "disks", "other disk sda"})},
		{"guest.set-config", op.Params{"labels": map[string]any{}, "protected": false}, nil, over},
		{"guest.set-config", op.Params{"command": "x"}, nil, over},
		{"guest.destroy", nil, whole, over},
		{"guest.snapshot", nil, nil, over},
		{"guest.snapshot-delete", nil, []string{"snapshot", "snapshot holds", "snapshot made by"}, append(over, "snapshots")},
		{"guest.restore", nil, append(runs, "overwritten"), slices.Concat(data, states, []string{"not in the backup"})},
		{"guest.wipe", nil, slices.Concat(data, runs), over},
		{"guest.disk-create", disk, nil, over},
		{"guest.disk-resize", disk, nil, append(over, "disk vda")},
		{"guest.disk-wipe", disk, []string{"disk vda"}, append(over, "disks")},
		{"guest.disk-detach", disk, []string{"disk vda"}, append(over, "disks")},
		{"guest.disk-detach", op.Params{"disk": "sda"}, []string{"other disk sda"}, append(over, "disks")},
		{"guest.disk-delete", disk, []string{"disk vda"}, append(over, "disks")},
		{"guest.backup", nil, nil, over},
		{"guest.backup", op.Params{"rotate": true}, nil, append(over, "backups")},
		{"guest.backup-restore", nil, slices.Concat(whole, over), nil},
		{"guest.backup-delete", nil, []string{"backup", "backup holds", "backup made by"}, append(over, "backups")},
	} {
		require.ElementsMatch(t, c.goes, fateOf(t, c.op, c.params, op.Goes), c.op)
		require.ElementsMatch(t, c.open, fateOf(t, c.op, c.params, op.Beside), c.op)
		risk := map[bool][]string{true: data}[c.params.Has("command")]
		require.ElementsMatch(t, risk, fateOf(t, c.op, c.params, op.AtRisk), c.op)
		require.Len(t, fateOf(t, c.op, c.params, op.Stays), len(guestFacts)-len(c.goes)-len(risk)-len(c.open), c.op)
	}
}

// TestOnlyWhatIsThereGoes: a fact that says that there is none, or none known, is not about something that goes or stays, and a
// number, a name or another doubt is. None known is not the same as none.
func TestOnlyWhatIsThereGoes(t *testing.T) {
	for _, name := range []string{"guest.destroy", "guest.wipe", "guest.restore", "guest.snapshot-delete", "guest.backup-restore", "guest.set-config", "guest.stop"} {
		for fate, facts := range map[op.Fate][]op.Fact{
			op.Absent: {{"process", "none"}, {"snapshots", "none"}, {"saved state", "none"}, {"disks", "none"}},
			op.Unsure: {{"backups", "none known; gated makes none"}, {"backups", "none known; gated makes none here"},
				{"depends on it", "nothing known; no guest shares data"}, {"depends on it", "no other guest of this libvirtd"}},
		} {
			for _, f := range facts {
				require.Equal(t, fate, lookup(t, name).Fate(op.Params{}, f), "%s: %v", name, f)
			}
		}
	}
	for _, f := range []op.Fact{{"files", "0"}, {"files", "none: this guest exists in memory alone"}, {"process", "not known: none was seen"},
		{"snapshots", "none-such"}, {"depends on it", "guest/none"}, {"process", "processes of an earlier run are left"}} {
		require.Equal(t, op.Goes, lookup(t, "guest.destroy").Fate(op.Params{}, f), f)
	}
	require.Equal(t, op.Goes, lookup(t, "guest.restore").Fate(nil, op.Fact{Name: op.FactOverwritten, Text: "none of 3 files was written or changed since then"}))
	require.Equal(t, op.Beside, lookup(t, op.Run).Fate(nil, op.Fact{Name: "process", Text: "none"}))
	require.Equal(t, op.Goes, lookup(t, op.ReleaseAll).Fate(nil, op.Fact{Name: "reservations", Text: "none"}))
}

// TestARowClaimsNothingOfOtherFacts: a newer back end's fact, and a name that begins like one of the row, is not said to stay.
func TestARowClaimsNothingOfOtherFacts(t *testing.T) {
	for _, s := range op.Catalogue() {
		for _, name := range []string{"", "array", "filesystem", "disk", "snapshots of others", "backup x", "depends on it", "used by", "not known", "locked", "state"} {
			require.NotEqual(t, op.Stays, s.Fate(op.Params{"disk": "vda"}, op.Fact{Name: name}), "%s: %q", s.Name, name)
		}
		require.Equal(t, op.Altered, s.Fate(nil, op.Fact{Name: "changes files"}), s.Name)
		if s.Takes != "" && s.Kind != op.KindCommand && s.Kind != op.KindTrust {
			require.NotNil(t, s.Fates, "%s takes something, and its row does not say which facts are about it", s.Name)
		}
	}
	release, transfer := lookup(t, op.ReleaseAll), lookup(t, op.ForceTransfer)
	for _, name := range []string{"path", "reservations", "r1", "r12", "and"} {
		require.Equal(t, op.Goes, release.Fate(nil, op.Fact{Name: name}))
	}
	require.Equal(t, op.Goes, transfer.Fate(op.Params{"reservation": "r1"}, op.Fact{Name: "r1"}))
	require.Equal(t, op.Beside, transfer.Fate(op.Params{"reservation": "r1"}, op.Fact{Name: "r12"}))
}

// TestALimitThatKills: what a set-config takes from programs is said, and cannot be changed back.
func TestALimitThatKills(t *testing.T) {
	s, p := lookup(t, "guest.set-config"), op.Params{"memory": int64(64)}
	for used, kills := range map[int64]bool{0: false, 63: false, 64: false, 65: true} {
		facts := op.Observed{Present: true, Spec: op.Params{"memory": int64(128)}, MemoryUsed: used}.Changed(s.Name, p)
		gone := slices.DeleteFunc(slices.Clone(facts), func(f op.Fact) bool { return s.Fate(p, f) != op.Goes })
		require.Equal(t, kills, len(gone) == 1, facts)
		level, _ := s.Undoable(p, "signed-by-rule", facts)
		require.Equal(t, kills, level == op.Gone, facts)
	}
	level, _ := s.Undoable(p, "memory-in-use", nil)
	require.Equal(t, op.Gone, level, "a gate that sends no fact about it has the rule all the same")
}

// TestOnlyAnotherProgramPutsTheDataAtRisk: the step itself leaves the data. Nobody has to sign for the next start, so nothing promises
// that the program can be changed back before it.
func TestOnlyAnotherProgramPutsTheDataAtRisk(t *testing.T) {
	s, files := lookup(t, "guest.set-config"), op.Fact{Name: "files", Text: "3"}
	for _, c := range []struct {
		params op.Params
		want   op.Fate
		undo   string
	}{
		{op.Params{"command": "web", "protected": false}, op.AtRisk, op.CannotUndo},
		{op.Params{"protected": false}, op.Stays, "can be undone by hand: change it back"},
	} {
		require.Equal(t, c.want, s.Fate(c.params, files))
		_, words := s.Undoable(c.params, "unprotect", []op.Fact{files})
		require.Equal(t, c.undo, words)
	}
}
