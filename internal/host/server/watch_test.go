package server

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/journal"
	"gated/internal/test/servicetest"
)

// A scrape that nobody reads gives its memory back when it was not taken in time, and holds up nobody meanwhile.
func TestAScrapeThatHangs(t *testing.T) {
	text := bytes.Repeat([]byte("# HELP x y\n"), 1<<18)
	w := start(t, -1, func(c *Config) {
		c.Metrics = func(context.Context) ([]byte, error) { return text, nil }
		c.Limits.Write = time.Second
	})
	held := func() int64 {
		w.server.answers.mu.Lock()
		defer w.server.answers.mu.Unlock()
		return w.server.answers.used
	}
	for range 3 {
		w.ask(t, "/v1/metrics")
	}
	require.Eventually(t, func() bool { return held() > 0 }, 10*time.Second, time.Millisecond)
	require.Equal(t, 202, w.do(t, "POST", "/v1/jobs", `{"op":"guest.destroy","target":"guest/spare","reason":"old"}`).status)
	require.Eventually(t, func() bool { return held() == 0 }, 20*time.Second, time.Millisecond, "it keeps its memory for ever")
}

// A bad state has the status of a failure, and its body all the same.
func TestTheStatusOfHealth(t *testing.T) {
	for state, want := range map[string]int{api.HealthOK: 200, api.HealthDegraded: 200, api.HealthBad: 503} {
		w := start(t, -1, func(c *Config) {
			c.Health = func(context.Context) api.HealthReport {
				return api.HealthReport{State: state, Checks: []api.HealthCheck{{Name: "journal", State: state}}}
			}
		})
		r := w.do(t, "GET", "/v1/health", "")
		require.Equal(t, want, r.status)
		require.Contains(t, string(r.body), `"state":"`+state+`"`)
	}
}

// A proof that was given is told, and one that was refused is not.
func TestProofsAreTold(t *testing.T) {
	proved := 0
	w := start(t, -1, func(c *Config) { c.Proved = func() { proved++ } })
	require.Equal(t, 422, w.do(t, "GET", "/v1/audit/consistency?old=3&size=999999", "").status)
	require.Zero(t, proved)
	require.Equal(t, 200, w.do(t, "GET", "/v1/audit/consistency?old=3&size=7", "").status)
	require.Equal(t, 1, proved)
}

// A copy is checked by its digest, in one spelling, and only a copy that the gate handed out.
func TestWhichBackupWasChecked(t *testing.T) {
	w := start(t, -1, nil)
	for _, sum := range []string{"", "9F" + zeros[2:], zeros[1:], zeros + "0", "g" + zeros[1:]} {
		require.Equal(t, refusal.Malformed, w.do(t, "POST", "/v1/backup/verified", `{"sha256":"`+sum+`"}`).problem(t).Code, sum)
	}
	require.Equal(t, refusal.UnknownTarget, w.do(t, "POST", "/v1/backup/verified", `{"sha256":"`+zeros+`"}`).problem(t).Code)
	require.Equal(t, 204, w.do(t, "POST", "/v1/backup/verified", filled(t, w.World, `{"sha256":"@copy@"}`)).status)
}

// zeros is the digest of no copy.
const zeros = "0000000000000000000000000000000000000000000000000000000000000000"

// A backup that could not be handed out whole is none.
func TestABackupThatBreaksOffIsNotRemembered(t *testing.T) {
	w := servicetest.New(t)
	require.Error(t, w.Backup(t.Context(), broken{}))
	require.ErrorIs(t, w.BackupVerified(t.Context(), zeros), refusal.UnknownTarget)
	require.NoError(t, w.Store.View(t.Context(), func(tx *store.Tx) error {
		b, err := journal.ReadBackups(tx)
		require.True(t, b.At.IsZero())
		return err
	}))
}

// broken takes nothing.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("gone") }
