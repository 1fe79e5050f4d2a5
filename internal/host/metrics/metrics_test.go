package metrics

import (
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/base/store/storetest"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// codes are all codes of the gate.
func codes() (out []refusal.Code) {
	for _, c := range api.Codes {
		out = append(out, c.Code)
	}
	return out
}

// sample is a gate of which everything is known.
func sample() Sample {
	return Sample{Version: "v1.2.3", Now: noon, Started: noon, Readable: true, Waiting: 3, Oldest: noon.Add(-90 * time.Second),
		ByRole: map[op.Role]int{op.Operational: 2, "manager": 1, "alice": 4}, Running: 1, Entries: 812, Signed: 811, Backup: noon,
		Verified: noon.Add(-time.Hour), BackupOlder: 26 * time.Hour, Drill: noon, DrillTook: 90 * time.Second, DrillOlder: 2160 * time.Hour, ClockTrusted: true, Checks: map[string]bool{"clock": true, "guest/db": false},
		Backends: map[string]bool{"local": true, "odd": true}, LostLines: 4, Guests: 5, Agents: 6}
}

func has(t *testing.T, text []byte, lines ...string) {
	t.Helper()
	for _, line := range lines {
		require.Contains(t, "\n"+string(text), "\n"+line+"\n")
	}
}

func TestTheText(t *testing.T) {
	m := New(codes())
	m.Entry(nil, audit.Entry{Kind: audit.Refused, Code: refusal.StaleTarget, Count: 12})
	m.Entry(nil, audit.Entry{Kind: audit.Refused, Code: refusal.StaleTarget})
	m.Entry(nil, audit.Entry{Kind: audit.Succeeded})
	m.Entry(nil, audit.Entry{Kind: audit.Reserved}) // no decision about a guest
	m.Committed(3 * time.Millisecond)
	m.Proved(noon)
	text := m.Text(sample())
	has(t, text, `gated_up 1`, `gated_requests_pending 3`, `gated_requests_pending_by_role{role="operational"} 2`,
		`gated_requests_pending_by_role{role="other"} 5`, `gated_request_oldest_wait_seconds 90`, `gated_audit_entries_total 812`,
		`gated_audit_signed_entries_total 811`, `gated_last_backup_timestamp_seconds 1.7726256e+09`, `gated_backup_max_age_seconds 93600`,
		`gated_drill_last_success_timestamp_seconds 1.7726256e+09`, `gated_drill_last_duration_seconds 90`, `gated_drill_max_age_seconds 7.776e+06`,
		`gated_clock_trusted 1`, `gated_check_ok{check="clock"} 1`, `gated_check_ok{check="other"} 0`, `gated_backend_up{backend="local"} 1`,
		`gated_decisions_total{kind="refused",code="stale_target"} 13`, `gated_decisions_total{kind="approved",code=""} 0`,
		`gated_steps_total{outcome="succeeded"} 1`, `gated_store_commit_seconds_bucket{le="0.0025"} 0`,
		`gated_store_commit_seconds_bucket{le="0.005"} 1`, `gated_store_commit_seconds_bucket{le="+Inf"} 1`, `gated_store_commit_seconds_count 1`,
		`gated_last_proof_timestamp_seconds 1.7726256e+09`, `gated_log_lost_lines_total 4`)
	require.NotContains(t, string(text), "reserved")
	empty := New(nil).Text(Sample{})
	require.NotContains(t, string(empty), "gated_requests_pending", "a database that cannot be read says nothing")
	has(t, empty, `gated_last_proof_timestamp_seconds 0`)
	has(t, New(nil).Text(Sample{Readable: true, Now: noon}), `gated_last_verified_backup_timestamp_seconds 0`, `gated_drill_last_success_timestamp_seconds 0`, `gated_request_oldest_wait_seconds 0`)
	has(t, Down(), "gated_up 0")
}

// closed are the values that each label may have.
func closed() map[string][]string {
	out := map[string][]string{"check": append([]string{other}, CheckNames...), "backend": append([]string{other}, BackendNames...),
		"role": {other}, "code": {other, ""}, "version": {"v1.2.3"}, "goversion": nil, "le": nil}
	for _, k := range kinds {
		out["kind"] = append(out["kind"], string(k))
	}
	for _, k := range outcomes {
		out["outcome"] = append(out["outcome"], string(k))
	}
	for _, r := range roles {
		out["role"] = append(out["role"], string(r))
	}
	for _, c := range codes() {
		out["code"] = append(out["code"], string(c))
	}
	return out
}

// No label has a word from outside, whatever an entry or a sample says.
func TestLabelsAreOfClosedSets(t *testing.T) {
	m := New(codes())
	for _, odd := range []string{"guest/alice", "a\"} 1\ngated_up 0\nx{y=\"", "agent:bob#1", "\xff", "\\"} {
		m.Entry(nil, audit.Entry{Kind: audit.Kind(odd), Code: refusal.Code(odd), Target: odd, By: odd, Op: odd, Rule: odd})
		m.Entry(nil, audit.Entry{Kind: audit.Refused, Code: refusal.Code(odd), Target: odd, By: odd, Op: odd, Detail: odd, Reason: odd})
		m.Entry(nil, audit.Entry{Kind: audit.Approved, Step: odd})
		s := sample()
		s.Checks[odd], s.Backends[odd], s.ByRole[op.Role(odd)] = true, false, 1
		requireClosed(t, m.Text(s), closed())
	}
}

// requireClosed reads the text strictly: each line is a comment or a sample whose labels have values of the sets.
func requireClosed(t *testing.T, text []byte, sets map[string][]string) {
	t.Helper()
	line := regexp.MustCompile(`^([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\]|\\.)*",?)+)\})? (\S+)$`)
	label := regexp.MustCompile(`([a-z]+)="((?:[^"\\]|\\.)*)"`)
	for l := range strings.Lines(string(text)) {
		l = strings.TrimSuffix(l, "\n")
		if strings.HasPrefix(l, "# HELP gated_") || strings.HasPrefix(l, "# TYPE ") || strings.HasPrefix(l, "# HELP process_") || strings.HasPrefix(l, "# HELP go_") {
			continue
		}
		f := line.FindStringSubmatch(l)
		require.NotNil(t, f, "%q", l)
		for _, lv := range label.FindAllStringSubmatch(f[2], -1) {
			set, known := sets[lv[1]]
			require.True(t, known, "the label %s of %q", lv[1], l)
			if set != nil {
				require.Contains(t, set, lv[2], "%q", l)
			}
		}
	}
}

func TestEscapes(t *testing.T) {
	x := &text{}
	x.family("a_b", gauge, "back\\slash\nline")
	x.sample("a_b", math.Inf(1), "l", "q\" b\\ n\n", "m", "")
	x.sample("a_b", 0.1)
	require.Equal(t, "# HELP a_b back\\\\slash\\nline\n# TYPE a_b gauge\na_b{l=\"q\\\" b\\\\ n\\n\",m=\"\"} +Inf\na_b 0.1\n", string(x.b))
}

// A bound is part of its own bucket: below, at and above.
func TestBounds(t *testing.T) {
	for v, want := range map[float64][]int64{0.5: {1, 0, 0}, 1: {1, 0, 0}, 1.5: {0, 1, 0}, 2: {0, 1, 0}, 2.5: {0, 0, 1}} {
		s := newSpread(1, 2)
		s.add(v)
		require.Equal(t, want, s.counts, v)
		require.InDelta(t, v, s.sum, 1e-9)
	}
	require.True(t, slices.IsSorted(New(nil).approval.bounds))
	require.True(t, slices.IsSorted(New(nil).commit.bounds))
}

// How long an approved request waited is read from the journal.
func TestApprovalWait(t *testing.T) {
	s := storetest.Open(t, filepath.Join(t.TempDir(), "j.db"), store.Options{Migrations: []store.Migration{
		{Version: 1, Name: "journal", SQL: journal.Schema}}}, func(*store.Tx, []store.Object) ([]storetest.Problem, error) { return nil, nil })
	m := New(codes())
	require.NoError(t, s.Update(t.Context(), func(tx *store.Tx) error {
		for _, q := range []string{`INSERT INTO jobs(id, reason, created_at) VALUES(2, '', 0)`,
			`INSERT INTO steps(job, idx, op, kind, name, incarnation, params, fingerprint, class, rule, why, state, birth, undoes, wish, updated_at)
				VALUES(2, 1, 'o', 'k', 'n', '', '{}', '', 'destructive', '', '', 'authorized', '', 0, '', 0)`} {
			if _, err := tx.Exec(q); err != nil {
				return err
			}
		}
		_, err := tx.Exec(`INSERT INTO requests(job, idx, payload, nonce, facts, roles, needed, offline, created_at, issued_at, expires_at)
			VALUES(2, 1, x'', 'n', '[]', '[]', 1, 0, ?, 0, 0)`, noon.UnixNano())
		return err
	}))
	require.NoError(t, s.View(t.Context(), func(tx *store.Tx) error {
		for _, e := range []audit.Entry{{Step: "j2.1", Time: noon.Add(45 * time.Second)}, {Step: "j9.1", Time: noon}, {Step: "odd", Time: noon}} {
			e.Kind = audit.Approved
			m.Entry(tx, e)
		}
		return nil
	}))
	has(t, m.Text(Sample{}), `gated_approval_wait_seconds_bucket{le="30"} 0`, `gated_approval_wait_seconds_bucket{le="60"} 1`,
		`gated_approval_wait_seconds_sum 45`, `gated_approval_wait_seconds_count 1`, `gated_decisions_total{kind="approved",code=""} 3`)
}

// promtool, of Prometheus itself, reads the text and finds no fault with the names.
func TestPromtoolFindsNoFault(t *testing.T) {
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("needs promtool (Debian's package prometheus)")
	}
	check := func(text []byte) (string, error) {
		c := exec.Command(path, "check", "metrics")
		c.Stdin = strings.NewReader(string(text))
		out, err := c.CombinedOutput()
		return string(out), err
	}
	m := New(codes())
	m.Entry(nil, audit.Entry{Kind: audit.Refused, Code: refusal.StaleTarget})
	for _, text := range [][]byte{m.Text(sample()), Down(), New(nil).Text(Sample{})} {
		out, err := check(text)
		require.NoError(t, err, out)
		require.Empty(t, out)
	}
	out, err := check([]byte("gated_no_help 1\n"))
	require.Error(t, err, out)
}

// A scrape is as long after many decisions as after each kind of decision once.
func TestTheTextDoesNotGrow(t *testing.T) {
	m := New(codes())
	count := func(n int) int {
		for i := range n {
			for _, k := range kinds {
				m.Entry(nil, audit.Entry{Kind: k, Code: refusal.Code(fmt.Sprint("odd-", i)), Target: fmt.Sprint("guest/", i)})
			}
		}
		return strings.Count(string(m.Text(sample())), "\n")
	}
	require.Equal(t, count(1), count(1000))
}
