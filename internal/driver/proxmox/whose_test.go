package proxmox_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver/drivertest"
	"gated/internal/driver/proxmox"
	"gated/internal/driver/proxmox/pvetest"
	"gated/internal/test/must"
)

// factsOf returns the facts of a look for a step, by name.
func (w *world) factsOf(a op.Ask) map[string]string {
	w.t.Helper()
	o := must.Get(w.d.Observe(w.t.Context(), op.Step{Op: a.Op, Target: a.Target, Params: a.Params}.Look()))(w.t)
	out := map[string]string{}
	for _, f := range o.Facts {
		out[f.Name] = f.Text
	}
	return out
}

// names are the names by which a step would mean the backups of a number.
func (w *world) names(vmid int) (names []string) {
	for _, v := range w.Backups(vmid) {
		names = append(names, v.ID[len("local:backup/"):])
	}
	return names
}

// newcomers are the guests that other hands can make under the number of a guest that is gone.
var newcomers = map[string]func(w *world, vmid int){
	"a new one": func(w *world, vmid int) { w.Remake(vmid, pvetest.Spec{Kind: w.kind(), Name: "web"}) },
	"a copy with the notes of the one before": func(w *world, vmid int) {
		text := w.Guest(vmid).Config["description"]
		w.Remake(vmid, pvetest.Spec{Kind: w.kind(), Name: "web", Config: map[string]string{"description": text}})
	},
	"one with the address of the one before": func(w *world, vmid int) {
		net := w.Guest(vmid).Config["net0"]
		w.Remake(vmid, pvetest.Spec{Kind: w.kind(), Name: "web", Config: map[string]string{"net0": net}})
	},
	"one with the uuid of the one before": func(w *world, vmid int) {
		uuid := w.Guest(vmid).Config["smbios1"]
		w.Remake(vmid, pvetest.Spec{Kind: w.kind(), Name: "web"})
		w.Set(vmid, map[string]string{"smbios1": uuid})
	},
	"one that was made at the same time as the one before": func(w *world, vmid int) {
		meta := w.Guest(vmid).Config["meta"]
		w.Remake(vmid, pvetest.Spec{Kind: w.kind(), Name: "web"})
		w.Set(vmid, map[string]string{"meta": meta})
	},
}

// Backups of a guest that had the number before are not the newcomer's: they are not listed, restored, deleted or let be pruned as its
// own, and people are told.
func TestBackupsOfAnotherGuestUnderTheNumber(t *testing.T) {
	either(t, func(t *testing.T, kind string) {
		for how, comes := range newcomers {
			for _, ours := range []bool{true, false} {
				if kind == "lxc" && !ours && how == "one with the address of the one before" {
					continue // a container of other hands has nothing of its own but its address; the guide says so
				}
				t.Run(how+map[bool]string{true: ", after one of the gate", false: ", after one of other hands"}[ours], func(t *testing.T) {
					w := newWorld(t, kind)
					w.AddStorage(pvetest.Storage{Name: "local", Type: "dir", Content: "backup,iso,vztmpl", KeepLast: 2})
					vmid := w.first(ours)
					w.backUpByHand(vmid)
					w.backUpByHand(vmid)
					require.Len(t, w.Look("web").Backups, 2, "they are its own before")
					old := w.names(vmid)
					comes(w, vmid)
					w.notOwn(vmid, old)
				})
			}
		}
	})
}

// first makes the guest web, through the gate or without it.
func (w *world) first(ours bool) int {
	if ours {
		return w.ours("web")
	}
	return w.Make(pvetest.Spec{Kind: w.kind(), Name: "web"})
}

// notOwn checks that the backups of some names are not those of the guest web, and stay whatever is asked.
func (w *world) notOwn(vmid int, old []string) {
	t := w.t
	t.Helper()
	require.Empty(t, w.Look("web").Backups)
	for _, name := range old {
		for _, verb := range []string{"backup-restore", "backup-delete"} {
			_, err := w.Submit(drivertest.Hub, guestAsk(verb, "web", "backup", name))
			require.ErrorIs(t, err, refusal.UnknownTarget, verb)
			require.ErrorContains(t, err, "of another guest")
		}
		require.Contains(t, w.factsOf(guestAsk("destroy", "web"))["other backups"], name)
	}
	_, err := w.Submit(drivertest.Hub, guestAsk("backup", "web", "rotate", true))
	require.ErrorIs(t, err, refusal.Conflict)
	require.ErrorContains(t, err, "the retention would count it")

	w.Advance(60)
	w.Done(drivertest.Hub, guestAsk("backup", "web"))
	require.Len(t, w.Look("web").Backups, 1, "its own is its own")
	require.Subset(t, w.names(vmid), old, "a backup of another guest is gone")
}

// Other hands changed what tells a guest from others. Its own backups are then nobody's, and stay: the gate does not say that they are of another guest.
func TestBackupsOfAGuestThatOtherHandsChanged(t *testing.T) {
	changes := map[string]func(*world, int){
		"its addresses": func(w *world, vmid int) { w.readdress(vmid) },
		"its birth":     func(w *world, vmid int) { w.edit(vmid, `"birth":"`, `"birth":"other`) },
		"its mark":      func(w *world, vmid int) { w.Set(vmid, map[string]string{"description": ""}) },
		"its uuid": func(w *world, vmid int) {
			w.Set(vmid, map[string]string{"smbios1": "uuid=00000000-0000-4000-8000-000000000001"})
		},
	}
	either(t, func(t *testing.T, kind string) {
		for what, change := range changes {
			if kind == "lxc" && what == "its uuid" {
				continue // a container has none
			}
			w := newWorld(t, kind)
			vmid := w.ours("web")
			w.backUpByHand(vmid)
			name := w.Look("web").Backups[0]
			change(w, vmid)
			own := w.Look("web").Backups
			if kind == "qemu" && what != "its uuid" {
				require.Equal(t, []string{name}, own, what)
				continue
			}
			require.Empty(t, own, what)
			require.Contains(t, w.factsOf(guestAsk("destroy", "web"))["other backups"], "of which nobody can tell whose: "+name, what)
			for _, verb := range []string{"backup-restore", "backup-delete"} {
				must.Fail(w.Submit(drivertest.Hub, guestAsk(verb, "web", "backup", name)))(t, refusal.UnknownTarget, what)
			}
			must.Fail(w.Submit(drivertest.Hub, guestAsk("backup", "web", "rotate", true)))(t, refusal.Conflict, what)
		}
	})
}

// reads counts the requests that end in one path since the last count.
func (w *world) reads(path string) (n int) {
	for _, r := range w.Requests() {
		if strings.HasSuffix(r.Path, path) {
			n++
		}
	}
	w.ResetCounts()
	return n
}

// listsBackups counts the lists of backups since the last count.
func (w *world) listsBackups() (n int) {
	for _, r := range w.Requests() {
		if r.Values["content"] == "backup" {
			n++
		}
	}
	w.ResetCounts()
	return n
}

// Backups are listed for a step that is about them, and each is read once. One that cannot be read is asked for again after a while.
func TestHowOftenBackupsAreRead(t *testing.T) {
	w := newWorld(t, "qemu")
	now := time.Now()
	w.restarts("qemu", func(c *proxmox.Config) { c.Now = func() time.Time { return now } })
	vmid := w.ours("web")
	w.backUpByHand(vmid)
	w.AddVolume(pvetest.Volume{ID: "local:backup/vzdump-qemu-" + num(vmid) + "-2020_01_01-00_00_00.vma", Storage: "local", VMID: vmid, Content: "backup", CTime: 1})
	w.ResetCounts()
	for _, ask := range []op.Ask{guestAsk("start", "web"), guestAsk("set-config", "web"), guestAsk("snapshot", "web", "snapshot", "s"), guestAsk("disk-create", "web", "disk", "scsi3")} {
		w.factsOf(ask)
		require.Zero(t, w.listsBackups(), ask.Op)
	}
	destroy := guestAsk("destroy", "web")
	require.Contains(t, w.factsOf(destroy), "backups")
	require.Equal(t, 2, w.reads("/extractconfig"))
	require.Contains(t, w.factsOf(destroy), "other backups")
	require.Zero(t, w.reads("/extractconfig"))
	now = now.Add(time.Hour)
	w.factsOf(destroy)
	require.Equal(t, 1, w.reads("/extractconfig"), "the one that could not be read")
}

// A look lists the backups once, whatever asks for them in it: the facts, what the step names, or whether the driver would refuse it. A run has a
// look of its own.
func TestBackupsAreListedOnceInALook(t *testing.T) {
	eitherWorld(t, func(t *testing.T, w *world) {
		vmid := w.ours("web")
		w.backUpByHand(vmid)
		name := w.Look("web").Backups[0]
		for _, ask := range []op.Ask{guestAsk("backup", "web"), guestAsk("backup-restore", "web", "backup", name), guestAsk("backup-delete", "web", "backup", name), guestAsk("destroy", "web")} {
			step := op.Step{Op: ask.Op, Target: ask.Target, Params: ask.Params}
			w.ResetCounts()
			now := must.Get(w.d.Observe(t.Context(), step.Look()))(t)
			require.Equal(t, []string{name}, now.Backups, ask.Op)
			require.Equal(t, 1, w.listsBackups(), ask.Op)
			step.Incarnation, step.Fingerprint = now.Incarnation, now.Fingerprint
			w.ResetCounts()
			_, _, err := w.d.Prepare(t.Context(), step, func(end func()) { t.Cleanup(end) })
			require.NoError(t, err, ask.Op)
			require.Equal(t, 1, w.listsBackups(), ask.Op)
		}
	})
}

// What a guest is stays in its own backups: through a restart, a new disk, a change of settings, a restore from one of them, and a stay
// on another node with another clock. So they stay its own.
func TestBackupsThatStayTheGuests(t *testing.T) {
	lives := map[string]func(*world, int){
		"a restart": func(w *world, _ int) { w.restarts(w.kind()) },
		"a new disk": func(w *world, _ int) {
			w.Done(drivertest.Hub, guestAsk("disk-create", "web", "disk", w.w.NewDisk, "size", int64(1024)))
		},
		"settings": func(w *world, _ int) { w.Done(drivertest.Hub, guestAsk("set-config", "web", "memory", int64(80))) },
		"labels": func(w *world, _ int) {
			w.Done(drivertest.Hub, guestAsk("set-config", "web", "labels", map[string]any{"tier": "100%: prod"}))
		},
		"its restore": func(w *world, vmid int) {
			w.signed(guestAsk("backup-restore", "web", "backup", w.Look("web").Backups[0]))
		},
		"a clock that went back": func(w *world, _ int) { w.Advance(-1_000_000) },
	}
	either(t, func(t *testing.T, kind string) {
		for how, lives := range lives {
			for _, ours := range []bool{true, false} {
				t.Run(how+map[bool]string{true: ", one of the gate", false: ", one of other hands"}[ours], func(t *testing.T) {
					w := newWorld(t, kind)
					vmid := w.first(ours)
					w.backUpByHand(vmid)
					lives(w, vmid)
					w.backUpByHand(vmid)
					require.ElementsMatch(t, w.names(vmid), w.Look("web").Backups)
					require.Len(t, w.Look("web").Backups, 2)
					require.NotContains(t, w.factsOf(guestAsk("destroy", "web")), "other backups")
				})
			}
		}
	})
}

// A backup whose configuration cannot be read is nobody's: it may be of another guest. If the question failed for now, nothing is known.
func TestABackupThatCannotBeRead(t *testing.T) {
	eitherWorld(t, func(t *testing.T, w *world) {
		vmid := w.ours("web")
		w.Done(drivertest.Hub, guestAsk("backup", "web"))
		kind := w.kind()
		name := "vzdump-" + kind + "-" + num(vmid) + "-2020_01_01-00_00_00.vma"
		w.AddVolume(pvetest.Volume{ID: "local:backup/" + name, Storage: "local", VMID: vmid, Content: "backup", CTime: 1})
		require.Len(t, w.Look("web").Backups, 1)
		require.Contains(t, w.factsOf(guestAsk("destroy", "web"))["other backups"], "1 under the number "+num(vmid)+" of which nobody can tell whose: "+name)
		_, err := w.Submit(drivertest.Hub, guestAsk("backup-delete", "web", "backup", name))
		require.ErrorIs(t, err, refusal.UnknownTarget)
		require.ErrorContains(t, err, "may be of another guest")
		must.Fail(w.Submit(drivertest.Hub, guestAsk("backup", "web", "rotate", true)))(t, refusal.Conflict)

		w.restarts(kind)
		for _, fault := range []pvetest.Rule{{Fault: pvetest.DropBefore}, {Fault: pvetest.Garbage}, {Fault: pvetest.FailBefore, Status: 595}} {
			fault.Method, fault.Path = "GET", "/extractconfig"
			broken := w.Break(fault)
			must.Fail(w.Submit(drivertest.Hub, guestAsk("backup", "web")))(t, refusal.Unavailable)
			require.Nil(t, w.Look("web").Backups, "they are not known now")
			broken.Release()
		}
		require.Len(t, w.Look("web").Backups, 1)
	})
}

// Two backups that a step would name alike, and one that it cannot name, are no guest's. A retention counts them, so nothing is let be pruned.
func TestABackupWithoutAClearName(t *testing.T) {
	for what, ids := range map[string][]string{
		"two names alike": {"backup/vm/500/a:b", "backup/vm/500/a-b"},
		"no name":         {"backup/" + strings.Repeat("long", 100)},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, "qemu")
			vmid := w.ours("web")
			require.Equal(t, 500, vmid)
			w.Done(drivertest.Hub, guestAsk("backup", "web"))
			clear := w.Look("web").Backups
			from := w.Backups(vmid)[0].ID
			for _, id := range ids { // each with the guest's own configuration in it
				w.CopyBackup(from, "local:"+id)
			}
			require.Equal(t, clear, w.Look("web").Backups)
			require.Contains(t, w.factsOf(guestAsk("destroy", "web"))["other backups"], num(len(ids))+" under the number 500 of which nobody can tell whose")
			must.Fail(w.Submit(drivertest.Hub, guestAsk("backup", "web", "rotate", true)))(t, refusal.Conflict)
			must.Fail(w.Submit(drivertest.Hub, guestAsk("backup-delete", "web", "backup", "vm-500-a-b")))(t, refusal.UnknownTarget)
		})
	}
}

// The backup is exchanged between the signature and the run: other hands made another guest under the number, or this very guest from
// a backup of another one. The signed step does nothing.
func TestASignedStepOnABackupOfAnotherGuest(t *testing.T) {
	either(t, func(t *testing.T, kind string) {
		for _, verb := range []string{"backup-restore", "backup-delete"} {
			w := newWorld(t, kind)
			vmid := w.ours("web")
			w.backUpByHand(vmid)
			name := w.Look("web").Backups[0]
			r := w.Approved(drivertest.Hub, guestAsk(verb, "web", "backup", name))
			w.Remake(vmid, pvetest.Spec{Kind: kind, Name: "web"})
			before := maps.Clone(w.Volumes(0))
			require.Error(t, w.Execute(r.ID))
			require.Equal(t, before, w.Volumes(0), verb)
			require.True(t, slices.Contains(w.names(vmid), name))
		}
	})
}

// A backup is made or deleted although nobody can read, now or ever, whose it is. What cannot be read is no proof of the reverse.
func TestWhatIsListedProvesABackup(t *testing.T) {
	unread := pvetest.Rule{Method: "GET", Path: "/extractconfig", Fault: pvetest.FailBefore, Status: 500, Reason: "storage 'local' is not online"}
	eitherWorld(t, func(t *testing.T, w *world) {
		w.ours("web")
		w.Done(drivertest.Hub, guestAsk("backup", "web"))
		ask := guestAsk("backup-delete", "web", "backup", w.Look("web").Backups[0])
		step := op.Step{Op: ask.Op, Target: ask.Target, Params: ask.Params}
		clock := time.Now()
		w.restarts(w.kind(), func(c *proxmox.Config) { c.Now = func() time.Time { return clock } })
		broken := w.Break(unread)
		now := must.Get(w.d.Observe(t.Context(), step.Afterwards()))(t)
		require.Empty(t, now.Backups)
		require.Equal(t, op.ShowsUndone, must.Get(op.Lookup(step.Op))(t).Evidence(step, now), "it is still there")
		w.Done(drivertest.Hub, guestAsk("backup", "web"))
		broken.Release()
		clock = clock.Add(time.Hour)
		require.Len(t, w.Look("web").Backups, 2)
	})
	t.Run("a container without a network", func(t *testing.T) {
		w := newWorld(t, "lxc")
		vmid := w.Make(pvetest.Spec{Kind: "lxc", Name: "web"})
		w.Set(vmid, map[string]string{"net0": ""})
		w.Done(drivertest.Hub, guestAsk("backup", "web"))
		require.Len(t, w.Backups(vmid), 1)
	})
}
