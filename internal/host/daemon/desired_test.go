package daemon_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

func document(lines ...string) []byte {
	text := "apiVersion: gated/v1\nhost: pve1\n"
	if len(lines) == 0 {
		return []byte(text + "guests: []\n")
	}
	return []byte(text + "guests:\n  - " + strings.Join(lines, "\n  - ") + "\n")
}

func TestSetsArePutAndDisjoint(t *testing.T) {
	w := newServing(t)
	put := func(name string, doc []byte) error {
		_, err := w.client.PutSet(t.Context(), name, "", doc)
		return err
	}
	require.NoError(t, put("a", document("name: web", "name: db")))
	refused(t, put("b", document("name: fs", "name: db")), refusal.Conflict, "db", "set a")
	require.NoError(t, put("a", document("name: web")), "the same set may say it again")
	require.NoError(t, put("b", document("name: fs", "name: db")), "it was given up")
	refused(t, put("c", []byte("apiVersion: gated/v1\nhost: pve2\nguests: []\n")), refusal.TargetMismatch, "pve2", "pve1") // P10
	refused(t, put("c", []byte("apiVersion: gated/v1\nhost: pve1\nguests:\n  - name: x\n    cpus: 2.7\n")), refusal.Malformed, "c:5:")
	require.Len(t, must.Get(w.client.Sets(t.Context()))(t), 2)
	require.NoError(t, w.client.DeleteSet(t.Context(), "b"))
	require.NoError(t, put("c", document("name: db")))

	// Of many who put the same guest at once, one gets it.
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() { errs[i] = put(fmt.Sprintf("many-%d", i), document("name: wanted")) })
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else {
			require.ErrorIs(t, err, refusal.Conflict)
		}
	}
	require.Equal(t, 1, won)
	w.halt()
}

func TestPlanSaysWhatApplyDoes(t *testing.T) {
	w := newServing(t)
	require.Equal(t, op.StateSucceeded, w.submit(ask("guest.create", "web", "memory", 512)).State)
	require.Equal(t, op.StateSucceeded, w.submit(ask("guest.create", "tmp", "scratch", true)).State)
	p, err := w.client.Plan(t.Context(), "", document("name: web\n    memory: 1GiB", "name: db\n    state: stopped", "name: tmp\n    state: absent", "name: gone\n    state: absent"))
	require.NoError(t, err)
	actions := map[string]string{}
	for _, g := range p.Guests {
		actions[g.Name] = g.Action
	}
	// Nobody's scratch is benign to a set that mentions it: apply will wait.
	require.Equal(t, map[string]string{"web": api.ActionChange, "db": api.ActionCreate, "tmp": api.ActionWaits, "gone": api.ActionNone}, actions)
	must.Fail(w.client.Guest(t.Context(), "db"))(t, refusal.UnknownTarget, "a plan changes nothing")
	refused(t, planErr(w, "apiVersion: gated/v1\nhost: pve2\nguests: []\n"), refusal.TargetMismatch)
	w.halt()
}

func planErr(w *world, doc string) error {
	_, err := w.client.Plan(w.t.Context(), "", []byte(doc))
	return err
}

func TestDirectorySource(t *testing.T) {
	w := newInitialised(t)
	dir := filepath.Join(w.dir, "desired")
	require.NoError(t, os.Mkdir(dir, 0o700))
	w.config("desired:\n  dir: " + dir + "\n")
	w.serve()
	_, err := w.client.PutSet(t.Context(), "a", "", document("name: web"))
	refused(t, err, refusal.Conflict, dir)
	refused(t, w.client.DeleteSet(t.Context(), "a"), refusal.Conflict, dir)

	// A file that appears is acted on; a broken one shows, and plans nothing.
	tmp := w.file("tmp.yaml", string(document("name: web\n    state: stopped")))
	require.NoError(t, os.Rename(tmp, filepath.Join(dir, "a.yaml")))
	w.created("guest/web")
	tmp = w.file("tmp.yaml", "guests: [\n")
	require.NoError(t, os.Rename(tmp, filepath.Join(dir, "b.yaml")))
	w.log.await(t, 0, "desired state cannot be read")
	s := w.status()
	for limit := time.Now().Add(patience); s.Sources[0].Error == nil && time.Now().Before(limit); {
		s = w.status() // it is logged a moment before it shows
	}
	require.Len(t, s.Sources, 1)
	require.NotNil(t, s.Sources[0].Error)
	require.Regexp(t, "^[^ :]*b.yaml:1", s.Sources[0].Error.Detail, "the code is not said again")
	require.Equal(t, refusal.Malformed, s.Sources[0].Error.Code)
	g := must.Get(w.client.Guest(t.Context(), "web"))(t)
	require.NotNil(t, g.Provenance)
	w.halt()
}

// created waits for the event that a guest was made.
func (w *world) created(target string) {
	w.t.Helper()
	require.ErrorIs(w.t, w.events(func(e api.Entry) error {
		if e.Kind == "succeeded" && e.Op == "guest.create" && e.Target == target {
			return os.ErrExist
		}
		return nil
	}), os.ErrExist)
}

func TestStatus(t *testing.T) {
	w := newInitialised(t)
	conf := filepath.Join(w.state, "gated.yaml")
	text := strings.Replace(read(t, conf), "single_user: true", "single_user: false", 1)
	require.NoError(t, os.WriteFile(conf, []byte(text), 0o600))
	w.serve()
	id := w.waiting("web")
	s := w.status()
	require.Equal(t, "uid", s.Isolation)
	require.Empty(t, s.Remedies)
	require.Equal(t, 1, s.Waiting)
	require.Equal(t, 0, s.Running)
	require.Equal(t, 1, s.Guests)
	require.Contains(t, s.Limits, "landlock")
	require.Len(t, s.Layers, 3)
	require.Equal(t, api.Layer{Name: "uid", Stands: true, Detail: "no command can run"}, s.Layers[0])
	require.True(t, w.health("clock").OK)
	require.Equal(t, uint32(os.Geteuid()), s.UID)

	// A guest that is unclear shows, and is refused.
	require.NoError(t, os.WriteFile(filepath.Join(w.state, "guests", "web", "guest.json"), []byte("{"), 0o600))
	g := must.Get(w.client.Guest(t.Context(), "web"))(t)
	require.Equal(t, "unknown", g.State)
	require.NotNil(t, g.Error)
	require.Error(t, w.approve(id))
	require.Equal(t, op.StatePending, w.await(strings.TrimSuffix(id, ".1")).State)
	list := must.Get(w.client.Guests(t.Context()))(t, "one that is unclear hides no other")
	require.Len(t, list, 1)
	require.Equal(t, "unknown", list[0].State)
	w.halt()
}
