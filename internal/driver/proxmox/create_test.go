package proxmox_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver/drivertest"
	"gated/internal/driver/proxmox"
	"gated/internal/driver/proxmox/pvetest"
	"gated/internal/driver/proxmox/pveworld"
	"gated/internal/test/must"
)

// cloning is a world whose default template is a copy of a guest.
func cloning(t *testing.T, kind string) *world {
	t.Helper()
	w := newWorld(t, kind)
	base := w.Make(pvetest.Spec{Kind: kind, Name: "base", Config: map[string]string{"template": "1", "tags": "base", "description": "of the template"}})
	cfg := pveworld.Config(t, w.Cluster, kind)
	cfg.Templates = map[string]proxmox.Template{"copied": {Kind: kind, Clone: int64(base)}}
	w.use(cfg)
	return w
}

func (w *world) use(cfg proxmox.Config) {
	w.t.Helper()
	w.d = must.Get(proxmox.New(cfg))(w.t)
	w.w.Driver = w.d
	w.Use(w.d)
}

// A guest from a template is a full copy with the requested settings and the gate's mark.
func TestCreateFromATemplate(t *testing.T) {
	either(t, func(t *testing.T, kind string) {
		w := cloning(t, kind)
		s := w.Done(drivertest.Hub, guestAsk("create", "web", "memory", int64(96), "cpus", int64(2), "state", "running",
			"labels", map[string]any{"tier": "test"}))
		o := w.Look("web")
		require.Equal(t, "running", o.Running)
		require.Equal(t, s.Birth, o.Birth)
		require.EqualValues(t, 96, o.Spec.Int("memory"))
		require.EqualValues(t, 2, o.Spec.Int("cpus"))
		require.Equal(t, map[string]string{"tier": "test"}, o.Spec.Labels("labels"))
		require.Equal(t, "1", w.Guest(w.VMID("web")).Config["protection"])
		require.Equal(t, "of the template", w.Guest(w.VMID("base")).Config["description"])
	})
}

// A copy shares the directories of its node with the template and all other copies. A start of
// it waits, so a create does not start it.
func TestACopyWithADirectoryOfTheNodeIsNotStarted(t *testing.T) {
	w := cloning(t, "qemu")
	w.Set(w.VMID("base"), map[string]string{"virtiofs0": "dirid=srv"})
	s := w.Ask(drivertest.Hub, guestAsk("create", "web", "state", "running"))
	require.ErrorIs(t, w.Execute(s.ID), refusal.BadParams)
	require.False(t, w.Look("web").Present)
	w.Done(drivertest.Hub, guestAsk("create", "web"))
	require.Equal(t, op.StatePending, must.Get(w.Submit(drivertest.Hub, guestAsk("start", "web")))(t).State())
}

// If the set-up of a new guest fails, that guest is destroyed, and no other.
func TestCreateThatCannotBeSetUp(t *testing.T) {
	either(t, func(t *testing.T, kind string) {
		w := cloning(t, kind)
		before := w.Volumes(0)
		w.Break(pvetest.Rule{Method: "PUT", Path: "/config", Fault: pvetest.FailBefore, Times: 1, Reason: "no"})
		s := w.Ask(drivertest.Hub, guestAsk("create", "web"))
		require.ErrorContains(t, must.Err(w.run(s.ID))(t), "set the new guest up")
		require.Zero(t, w.VMID("web"))
		require.Equal(t, before, w.Volumes(0))
	})
}

// If a create was interrupted while Proxmox VE copies, it is not begun a second time.
func TestACreateIsNotMadeTwice(t *testing.T) {
	w := cloning(t, "qemu")
	held := w.Hold("qmclone")
	s := w.Ask(drivertest.Hub, guestAsk("create", "web"))
	ended := make(chan error, 1)
	go func() { _, err := w.run(s.ID); ended <- err }()
	<-held.Came()
	cfg := pveworld.Config(t, w.Cluster, "qemu")
	again, err := proxmox.New(cfg) // as after a restart
	require.NoError(t, err)
	w.Use(again)
	other := w.Ask(drivertest.Hub, guestAsk("create", "other"))
	require.ErrorIs(t, w.Execute(other.ID), refusal.Unavailable)
	held.Release()
	require.NoError(t, <-ended)
	require.Eventually(t, func() bool { return w.Execute(other.ID) == nil }, time.Minute, time.Millisecond)
}

// vmids are used in turn, within their range, and not again.
func TestNumbersOfNewGuests(t *testing.T) {
	w := newWorld(t, "qemu")
	cfg := pveworld.Config(t, w.Cluster, "qemu")
	cfg.First, cfg.Last = 200, 202
	w.use(cfg)
	w.Make(pvetest.Spec{VMID: 201, Name: "taken"})
	require.Equal(t, 200, w.ours("a"))
	w.Done(drivertest.Hub, guestAsk("destroy", "a"))
	require.Equal(t, 202, w.ours("b"), "not the number that was just given up")
	s := w.Ask(drivertest.Hub, guestAsk("create", "d"))
	require.ErrorIs(t, w.Execute(s.ID), refusal.OverLimit)
	for name, code := range map[string]refusal.Code{"a_b": refusal.BadParams, "a.": refusal.BadParams} {
		s := w.Ask(drivertest.Hub, guestAsk("create", name))
		require.ErrorIs(t, w.Execute(s.ID), code, name)
	}
	s = w.Ask(drivertest.Hub, guestAsk("create", "e", "template", "none"))
	require.ErrorIs(t, w.Execute(s.ID), refusal.BadParams)
}

// A clone is a guest of its own that the gate made. Its original stays.
func TestClone(t *testing.T) {
	eitherWorld(t, func(t *testing.T, w *world) {
		from := w.ours("from", "labels", map[string]any{"tier": "prod"}, "protected", true)
		before := w.Look("from")
		s := w.Done(drivertest.Hub, guestAsk("clone", "copy", "from", "from"))
		after := w.Look("copy")
		require.Equal(t, s.Birth, after.Birth)
		require.NotEqual(t, before.Incarnation, after.Incarnation)
		require.Equal(t, "prod", after.Labels["tier"])
		require.False(t, after.Protected)
		require.Equal(t, before.Fingerprint, w.Look("from").Fingerprint)
		require.Equal(t, "1", w.Guest(from).Config["protection"])
		miss := w.Ask(drivertest.Hub, guestAsk("clone", "more", "from", "nobody"))
		require.ErrorIs(t, w.Execute(miss.ID), refusal.UnknownTarget)
	})
}

// A vmid that is used again belongs to another guest. What the gate makes under it is scratch as usual, and shares no id of
// storage with the guest before. The journal of the gate that made the first guest is lost here: otherwise the gate gives no
// number again.
func TestANumberThatIsUsedAgain(t *testing.T) {
	either(t, func(t *testing.T, kind string) {
		w := newWorld(t, kind)
		w.Done(drivertest.Builder, guestAsk("create", "first", "scratch", true))
		vmid, first := w.VMID("first"), w.Look("first")
		w.Done(drivertest.Builder, guestAsk("destroy", "first"))
		w.use(pveworld.Config(t, w.Cluster, kind)) // without Recorded
		w.Done(drivertest.Builder, guestAsk("create", "second", "scratch", true))
		require.Equal(t, vmid, w.VMID("second"))
		for _, id := range w.Look("second").Storage {
			require.NotContains(t, first.Storage, id)
		}
		s := w.Ask(drivertest.Builder, guestAsk("destroy", "second"))
		require.Equal(t, op.StatePlanned, s.State, s.Verdict.Why)
	})
}
