package daemon_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/refusal"
	"gated/internal/host/daemon"
	"gated/internal/log/canary"
	"gated/internal/test/must"
)

// canarySays waits until the log has as many entries of the canary as that, and
// returns the last one. To ask for the status has the canary look.
func (w *world) canarySays(n int) (last api.Entry) {
	w.t.Helper()
	w.status()
	enough := errors.New("enough")
	seen := 0
	require.ErrorIs(w.t, w.events(func(e api.Entry) error {
		if e.Kind != "canary" {
			return nil
		}
		last = e
		if seen++; seen == n {
			return enough
		}
		return nil
	}), enough)
	return last
}

// canaryTells waits for what the status tells: an entry is in the log a moment
// before.
func (w *world) canaryTells(what func(*api.Canary) bool) *api.Canary {
	w.t.Helper()
	for limit := time.Now().Add(patience); ; runtime.Gosched() {
		c := w.status().Canary
		if c != nil && what(c) {
			return c
		}
		require.True(w.t, time.Now().Before(limit), "%+v", c)
	}
}

func stands(c *api.Canary) bool { return c.Verdict == "alert" && c.Open }
func ended(c *api.Canary) bool  { return c.Verdict != "watching" && !c.Open }

// many asks for one operation on each of so many guests, from a number on.
func (w *world) many(name string, from, n int) {
	w.t.Helper()
	for i := range n {
		w.submit(ask(name, fmt.Sprintf("g%d", from+i)))
	}
}

// policy writes gated.yaml with these lines, and has it read.
func (w *world) policy(base, lines string) {
	w.t.Helper()
	require.NoError(w.t, os.WriteFile(filepath.Join(w.state, "gated.yaml"), []byte(base+lines), 0o600))
	w.hup()
}

// TestCanaryAlerts: a policy by which everything is refused is found, also
// across a start, with the way back; which ends the alert.
func TestCanaryAlerts(t *testing.T) {
	w := newInitialised(t)
	w.config("canary: {decisions: 20, minimum: 10}\n")
	base := read(t, filepath.Join(w.state, "gated.yaml"))
	w.serve()
	require.Nil(t, w.status().Canary)
	w.many("guest.create", 0, 20)
	w.many("guest.destroy", 0, 8)
	w.policy(base, "policy: {open_requests_per_source: 1}\n")
	for i := range 10 {
		if i == 5 {
			w.halt()
			w.serve()
		}
		must.Fail(w.client.Submit(t.Context(), ask("guest.destroy", fmt.Sprintf("g%d", 8+i)), ""))(t, refusal.OverLimit)
	}
	e := w.canarySays(1)
	require.Contains(t, string(e.Raw), `"verdict":"alert"`)
	require.Contains(t, e.Detail, "refused 10 of 10, before 0 of 20")
	require.Contains(t, e.Detail, filepath.Join(w.state, "gated.yaml"))
	c := w.canaryTells(stands)
	require.Equal(t, []string{"policy"}, c.Changed)
	require.Contains(t, c.Back, "back as it was")
	h := w.health("canary")
	require.False(t, h.OK)
	require.Contains(t, h.Detail, "to go back: put the policy")
	require.Contains(t, h.Detail, fmt.Sprintf("; if it is meant: gated canary accept %d", c.Change))

	require.ErrorIs(t, w.client.AcceptAlert(t.Context(), c.Change+1), refusal.UnknownTarget)
	w.policy(base, "")
	require.Contains(t, w.canarySays(2).Detail, "takes the change back")
	w.canaryTells(ended)
	require.True(t, w.health("canary").OK)
	w.haltSound()
}

// TestCanaryPasses what changes nothing, and expires where too little was decided.
func TestCanaryPasses(t *testing.T) {
	w := newInitialised(t)
	w.config("canary: {decisions: 20, minimum: 10}\n")
	base := read(t, filepath.Join(w.state, "gated.yaml"))
	w.serve()
	w.many("guest.create", 0, 5)
	w.policy(base, "policy: {max_validity: 22h}\n")
	require.Contains(t, w.canarySays(1).Detail, "5 decisions before the change are too few")
	w.canaryTells(ended) // status learns of it after the log
	require.True(t, w.health("canary").OK)

	w.many("guest.create", 5, 10)
	w.policy(base, "policy: {max_validity: 21h}\n")
	w.many("guest.stop", 0, 10)
	w.many("guest.stop", 0, 10)
	e := w.canarySays(2)
	require.Contains(t, string(e.Raw), `"verdict":"passed"`)
	w.canaryTells(func(c *api.Canary) bool { return c.Verdict == "passed" })
	require.Contains(t, w.health("canary").Detail, "passed: policy changed")

	// To read the same again is no change, and a comment is none either.
	w.policy(base, "# a comment\npolicy: {max_validity: 21h}\n")
	w.status()
	require.Equal(t, e.Seq, w.canarySays(2).Seq)
	w.haltSound()
}

// TestCanaryOfTrust: a key that is revoked.
func TestCanaryOfTrust(t *testing.T) {
	w := newInitialised(t)
	w.config("canary: {decisions: 20, minimum: 10}\n")
	w.serve()
	w.many("guest.create", 0, 12)
	require.NoError(t, os.WriteFile(filepath.Join(w.state, "revoked"), []byte(w.fingerprint()+"\n"), 0o600))
	w.hup()
	w.many("guest.destroy", 0, 10)
	e := w.canarySays(1)
	require.Contains(t, e.Detail, "trust changed: pending 10 of 10, before 0 of 12")
	require.Contains(t, e.Detail, "revoked keys back as it was (there was none)")

	// It was meant.
	require.NoError(t, w.client.AcceptAlert(t.Context(), w.canaryTells(stands).Change))
	require.Contains(t, w.canarySays(2).Detail, "accepted by uid:")
	w.canaryTells(ended)
	require.True(t, w.health("canary").OK)
	require.ErrorIs(t, w.client.AcceptAlert(t.Context(), w.status().Canary.Change), refusal.UnknownTarget)
	w.haltSound()
}

// oldSigners is what to see to where an older gated restores.
const oldSigners = ", and an older gated may take the signers of that copy: compare gated trust show before the start, " +
	"and put keys that must not count into the file of revoked keys"

func TestWayBack(t *testing.T) {
	was := canary.Identity{Policy: strings.Repeat("a", 64), Signers: "s", Epoch: 3, Revoked: "r", Version: "1.2.0", Schema: 7}
	for _, c := range []struct {
		change func(*canary.Identity)
		want   []string
	}{
		{func(i *canary.Identity) { i.Policy = "b" }, []string{"put the policy of /s/gated.yaml back as it was (policy aaaaaaaaaaaa) and reload, by SIGHUP"}},
		{func(i *canary.Identity) { i.Signers, i.Epoch = "t", 4 },
			[]string{"have operators sign a gated trust rotate back to the signers of epoch 3 (gated trust history)"}},
		{func(i *canary.Identity) { i.Revoked = "q" },
			[]string{"put the file of revoked keys back as it was (sha256:r), unless a key was revoked for good reason"}},
		{func(i *canary.Identity) { i.Version = "1.3.0" }, []string{"run 1.2.0 again"}},
		{func(i *canary.Identity) { i.Version, i.Schema = "1.3.0", 9 },
			[]string{"run 1.2.0 again, after gated restore /s/gated.db.pre-8; what was decided since is lost then" + oldSigners}},
	} {
		is := was
		c.change(&is)
		require.Equal(t, c.want, daemon.WayBack("/s/gated.yaml", "/s/gated.db", was, is))
	}
	older, is := canary.Identity{Version: "an older gated"}, was
	require.Equal(t, []string{"run an older gated again, after gated restore /s/gated.db.pre-N, the lowest N that is there; what was decided since is lost then" + oldSigners},
		daemon.WayBack("/s/gated.yaml", "/s/gated.db", older, is))
}
