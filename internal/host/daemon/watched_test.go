package daemon_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/test/must"
)

// metricsText scrapes until the gate has counted all that was decided: the text then has the line.
func (w *world) metricsText(line string) string {
	w.t.Helper()
	limit := time.After(patience)
	for {
		text := string(must.Get(w.client.Metrics(w.t.Context()))(w.t))
		if strings.Contains(text, "\n"+line+"\n") {
			return text
		}
		select {
		case <-limit:
			w.t.Fatalf("no scrape has %q:\n%s", line, text)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// check returns one check of the health report.
func (w *world) check(name string) (api.HealthReport, api.HealthCheck) {
	w.t.Helper()
	h := must.Get(w.client.Health(w.t.Context()))(w.t)
	for _, c := range h.Checks {
		if c.Name == name {
			return h, c
		}
	}
	w.t.Fatalf("health says nothing of %s: %v", name, h)
	return h, api.HealthCheck{}
}

// After a busy gate with odd names, no metric has one of them, and the log has a line for each decision.
func TestABusyGateIsLoggedAndCounted(t *testing.T) {
	w := newServing(t)
	w.metricsText("gated_up 1")
	odd := []string{"alice", "web.odd_name-1", strings.Repeat("n", 64)}
	for _, name := range odd {
		id := w.waiting(name)
		w.metricsText(`gated_requests_pending 1`)
		require.NoError(t, w.approve(id))
		require.Equal(t, op.StateSucceeded, w.await(strings.TrimSuffix(id, ".1")).State)
	}
	_, err := w.client.Submit(t.Context(), ask("guest.none", "carol"), "")
	require.Error(t, err)
	kept := w.waiting("dora")
	text := w.metricsText(`gated_decisions_total{kind="requested",code=""} 4`)
	for _, line := range []string{`gated_requests_pending_by_role{role="operational"} 1`, `gated_decisions_total{kind="approved",code=""} 3`,
		`gated_decisions_total{kind="refused",code="unknown_op"} 1`, `gated_steps_total{outcome="succeeded"} 7`, `gated_approval_wait_seconds_count 3`,
		`gated_backend_up{backend="local"} 1`, `gated_check_ok{check="database"} 1`, `gated_clock_trusted 1`} {
		require.Contains(t, text, "\n"+line+"\n")
	}
	commits := regexp.MustCompile(`gated_store_commit_seconds_count (\d+)`).FindStringSubmatch(text)
	require.NotNil(t, commits)
	require.NotEqual(t, "0", commits[1])
	for _, name := range append(odd, "carol", "dora", "uid:", testHost) {
		require.NotContains(t, text, name)
	}
	require.NotNil(t, w.status().OldestWait)
	w.halt()
	log := w.log.String()
	for _, want := range []string{`msg="a request waits for a signature" kind=requested`, `msg="a step is approved" kind=approved`, `msg="a step starts"`,
		`msg="a step succeeded"`, `msg="the gate refused" kind=refused`, `code=unknown_op`, "request=" + kept, "kind=stopped"} {
		require.Contains(t, log, want)
	}
	require.Equal(t, 4, strings.Count(log, "kind=requested"), "one line for each")
	require.Equal(t, 3, strings.Count(log, "kind=approved"))

	// Counters begin anew with the process, and what the database says does not.
	w.serve()
	text = w.metricsText(`gated_requests_pending 1`)
	require.Contains(t, text, "\n"+`gated_decisions_total{kind="requested",code=""} 0`+"\n")
	w.haltSound()
}

// With monitor.backup_older, the gate says that no backup was checked until one was.
func TestABackupThatIsTooOld(t *testing.T) {
	w := newInitialised(t)
	w.config("monitor: {backup_older: 26h}\n")
	w.serve()
	h, c := w.check("backup")
	require.Equal(t, api.HealthDegraded, h.State)
	require.Contains(t, c.Detail, "no backup that was checked")
	require.True(t, w.status().BackupTooOld)
	require.Nil(t, w.status().LastBackup)
	var b bytes.Buffer
	must.Get(w.client.Backup(t.Context(), &b))(t)
	require.Nil(t, w.status().LastBackup.Verified)
	require.True(t, w.status().BackupTooOld, "nobody checked it")
	sum := sha256.Sum256(b.Bytes())
	require.NoError(t, w.client.BackupVerified(t.Context(), hex.EncodeToString(sum[:])))
	h, c = w.check("backup")
	require.Equal(t, []string{api.HealthOK, api.HealthOK}, []string{h.State, c.State})
	s := w.status()
	require.False(t, s.BackupTooOld)
	require.True(t, s.LastBackup.Verified.Equal(s.LastBackup.At))
	text := w.metricsText("gated_backup_max_age_seconds 93600")
	require.Contains(t, text, `gated_check_ok{check="backup"} 1`)
	require.NotContains(t, text, "gated_last_verified_backup_timestamp_seconds 0\n")
	w.halt()
	w.serve()
	require.False(t, w.status().BackupTooOld, "it is remembered")
	w.haltSound()
}

// drill asks for a drill, and returns its request.
func (w *world) drill() string {
	w.t.Helper()
	ask := api.Submit{Steps: []api.Ask{{Op: op.Drill, Target: op.Drilled.String(), Params: op.Params{"as": "guest.destroy", "target": "guest/db-1"}}}}
	return *must.Get(w.client.Submit(w.t.Context(), ask, ""))(w.t).Request
}

// With monitor.drill_older, the gate says that no drill was signed until one was.
func TestADrillThatIsTooOld(t *testing.T) {
	w := newInitialised(t)
	w.config("monitor: {drill_older: 2160h}\n")
	w.serve()
	h, c := w.check("drill")
	require.Equal(t, []string{api.HealthDegraded, api.HealthDegraded}, []string{h.State, c.State})
	require.Contains(t, c.Detail, "no drill was signed yet")
	require.Equal(t, &api.Drills{TooOld: true}, w.status().Drills)
	id := w.drill()
	require.Equal(t, id, w.status().Drills.Open.Request)
	require.NoError(t, w.approve(id))
	require.Equal(t, op.StateSucceeded, w.done(id))
	h, c = w.check("drill")
	require.Equal(t, []string{api.HealthOK, api.HealthOK}, []string{h.State, c.State})
	d := w.status().Drills
	require.False(t, d.TooOld)
	require.Nil(t, d.Open)
	require.Equal(t, "guest.destroy", d.Signed.As)
	require.Len(t, d.Signed.SignedBy, 1)
	require.Len(t, d.Signed.RequestedBy, 1)
	text := w.metricsText("gated_drill_max_age_seconds 7.776e+06")
	require.Contains(t, text, `gated_check_ok{check="drill"} 1`)
	require.NotContains(t, text, "gated_drill_last_success_timestamp_seconds 0\n")
	w.haltSound()
}

// Without monitor.drill_older health says nothing of drills, and alert rules warn after 90 days.
func TestADrillThatIsNotWatched(t *testing.T) {
	w := newServing(t)
	require.False(t, w.status().Drills.TooOld)
	require.Contains(t, w.metricsText("gated_drill_max_age_seconds 0"), "gated_drill_last_success_timestamp_seconds 0\n")
	id := w.drill()
	require.NoError(t, w.approve(id))
	require.Equal(t, op.StateSucceeded, w.done(id))
	require.False(t, slices.ContainsFunc(w.status().Health, func(h api.Health) bool { return h.Name == "drill" }))
	w.haltSound()
}

// A process keeps files that were removed: what it decides then is lost with it, and health says so.
func TestHealthWithoutAStateDirectory(t *testing.T) {
	w := newServing(t)
	h, _ := w.check("state")
	require.Equal(t, api.HealthOK, h.State)
	away := filepath.Join(w.dir, "away")
	require.NoError(t, os.Rename(w.state, away))
	h, c := w.check("state")
	require.Equal(t, []string{api.HealthBad, api.HealthBad}, []string{h.State, c.State})
	require.Contains(t, c.Detail, "the database that is open is gone")
	w.metricsText(`gated_check_ok{check="state"} 0`)
	require.NoError(t, os.Mkdir(w.state, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(w.state, "gated.db"), []byte("another"), 0o600))
	_, c = w.check("state")
	require.Contains(t, c.Detail, "another file")
	require.NoError(t, os.Rename(w.state, filepath.Join(w.dir, "other"))) // the daemon may write into it
	require.NoError(t, os.Rename(away, w.state))
	_, c = w.check("state")
	require.Equal(t, api.HealthOK, c.State)
	// The checks of the start may have met the directory while it was away. A reload, and their next try, mend that.
	require.Eventually(t, func() bool {
		must.Get(w.client.Reload(t.Context()))(t)
		h, _ := w.check("state")
		return h.State == api.HealthOK
	}, patience, 10*time.Millisecond)
	w.haltSound()
}
