package matrix_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/reconcile"
	"gated/internal/test/must"
	"gated/internal/wire/desired"
)

// unread is a row in which desired state that wished something is followed by
// something that cannot be read: nothing is planned, nothing is taken back.
func unread(id, what, text string) attack {
	return attack{id: id, what: what, want: nothingPlanned, run: func(w *world) error {
		w.apply(map[string]string{"hub": document("  - name: victim\n    state: absent\n  - name: bystander\n    memory: 64MiB\n")})
		w.armUnlogged("what cannot be read asks for nothing; status says so")
		s := w.apply(map[string]string{"hub": text})
		require.False(w.t, s.Sources[0].OK)
		require.NotEmpty(w.t, s.Sources[0].Error)
		open := must.Get(w.gate.Open(w.ctx, guest("victim")))(w.t)
		require.Len(w.t, open, 1, "the wish that waits goes on waiting")
		require.Empty(w.t, must.Get(w.gate.Open(w.ctx, guest("bystander")))(w.t))
		return nothingPlanned
	}}
}

// staleSource cannot be read, as a directory that is gone or a hub that answers
// something else than a document.
type staleSource struct{ err error }

func (staleSource) Name() string                                        { return "stale" }
func (s staleSource) Read(context.Context) ([]*reconcile.SetDoc, error) { return nil, s.err }

var desiredRows = []attack{
	{id: "B21", what: "a file cut off at a line end, so that 'protected: true' is missing", want: nothingPlanned, run: func(w *world) error {
		whole := document("  - name: victim\n    memory: 64MiB\n    protected: true\n")
		w.apply(map[string]string{"web": whole})
		require.True(w.t, w.observe("victim").Protected)
		w.armUnlogged("an omitted field is no wish")
		for cut := strings.LastIndex(whole[:len(whole)-1], "\n"); cut > 0; cut = strings.LastIndex(whole[:cut], "\n") {
			w.apply(map[string]string{"web": whole[:cut+1]})
			require.True(w.t, w.observe("victim").Protected)
		}
		return w.planned("victim")
	}},
	unread("P09a", "an empty document", ""),
	unread("P09b", "a half-written document", "apiVersion: gated/v1\nhost: pve1\nguests:\n  - name: victim\n    stat"),
	unread("P09c", "HTML in the place of a document", "<!DOCTYPE html><html><body>502 Bad Gateway</body></html>"),
	unread("P09d", "a document of nothing but null", "null\n"),
	unread("P09e", "aliases that grow", "a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\n"),
	{id: "P09f", what: "a directory of desired state that is gone, and then a file that nobody can read", want: nothingPlanned, run: func(w *world) error {
		dir := filepath.Join(w.t.TempDir(), "desired.d")
		require.NoError(w.t, os.Mkdir(dir, 0o700))
		require.NoError(w.t, os.WriteFile(filepath.Join(dir, "hub.yaml"), []byte(document("  - name: victim\n    state: absent\n")), 0o600))
		w.reconcile(w.dirSource(dir))
		require.ErrorIs(w.t, w.planned("victim"), refusal.PendingSignature)
		w.armUnlogged("what cannot be read asks for nothing; status says so")
		require.NoError(w.t, os.Remove(filepath.Join(dir, "hub.yaml")))
		require.NoError(w.t, os.Symlink("hub.yaml", filepath.Join(dir, "hub.yaml")))
		s := w.reconcile(w.dirSource(dir))
		require.False(w.t, s.Sources[0].OK)
		require.ErrorIs(w.t, w.planned("victim"), refusal.PendingSignature, "the wish that waits goes on waiting")
		return nothingPlanned
	}},
	{id: "P09g", what: "a source that answers with an error", want: nothingPlanned, run: func(w *world) error {
		w.armUnlogged("what cannot be read asks for nothing; status says so")
		s := w.reconcile(staleSource{refusal.New(refusal.Unavailable, "500")})
		require.Contains(w.t, s.Sources[0].Error, "500")
		return w.planned("victim")
	}},
	{id: "P10", what: "desired state for another host", want: refusal.TargetMismatch, run: func(w *world) error {
		w.armUnlogged("the document is refused whole; status says so")
		s := w.apply(map[string]string{"hub": strings.Replace(document("  - name: victim\n    state: absent\n"), testHost, "pve2", 1)})
		require.ErrorIs(w.t, w.planned("victim"), nothingPlanned)
		return inStatus(w, s)
	}},
	{id: "P11", what: "a hub asks for thousands of destroys, again and again", want: refusal.OverLimit, run: func(w *world) error {
		w.rules.OpenPerSource = 2
		w.restart()
		var text strings.Builder
		for i := range 6 {
			w.plant(fmt.Sprintf("g%d", i))
			fmt.Fprintf(&text, "  - name: g%d\n    state: absent\n", i)
		}
		for i := range 3000 {
			fmt.Fprintf(&text, "  - {name: n%d, state: absent}\n", i)
		}
		w.arm()
		w.allow.finale = []string{"victim", "g0", "g1", "g2", "g3", "g4", "g5"}
		for range 3 { // the same wishes are the same requests
			s := w.apply(map[string]string{"hub": document(text.String())})
			require.Equal(w.t, []string{"hub"}, s.Full)
			require.Len(w.t, must.Get(w.gate.Requests(w.ctx, op.StatePending))(w.t), 2)
		}
		_, err := w.gate.Want(w.ctx, "hub", ask("guest.destroy", "victim"))
		j := must.Get(w.submit(other, ask("guest.snapshot", "victim", "snapshot", "s")))(w.t, "others are served")
		must.Get(w.gate.Cancel(w.ctx, other, j.ID))(w.t)
		return err
	}},
	{id: "P13c", what: "desired state sets environment, user, mounts", want: refusal.NotAllowed, run: func(w *world) error {
		w.armUnlogged("the document is refused whole; status says so")
		for _, field := range []string{"user: root", "environment: {A: b}", "mounts: [/]"} {
			_, err := desired.Parse("hub", []byte(document("  - name: victim\n    "+field+"\n")))
			require.ErrorIs(w.t, err, refusal.NotAllowed, "%s", field)
		}
		return inStatus(w, w.apply(map[string]string{"hub": document("  - name: victim\n    user: root\n")}))
	}},
	{id: "P13d", what: "desired state wishes for a command that the configuration does not name", want: refusal.NotAllowed, run: func(w *world) error {
		w.arm()
		return stopped(w.apply(map[string]string{"hub": document("  - name: victim\n    command: sh\n    state: running\n")}), "victim")
	}},
}
