package metrics

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"gated/internal/test/ports"
)

const contrib = "../../../contrib/prometheus"

// prometheus finds a program of Debian's package prometheus.
func prometheus(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("needs %s (Debian's package prometheus)", name)
	}
	return path
}

func TestTheAlertRules(t *testing.T) {
	tool := prometheus(t, "promtool")
	for _, args := range [][]string{{"check", "rules", "gated.rules.yml"}, {"test", "rules", "gated.rules.test.yml"}} {
		c := exec.Command(tool, args...)
		c.Dir = contrib
		out, err := c.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "SUCCESS")
	}
}

// families are the names of all metrics that the gate writes.
func families(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\S+) (\S+)$`).FindAllStringSubmatch(string(New(codes()).Text(sample())), -1) {
		out[m[1]] = true
		if m[2] == histogram {
			out[m[1]+"_bucket"] = true
		}
	}
	return out
}

// A rule or panel over a metric that the gate does not write would never say anything.
func TestRulesAndDashboardKnowTheirMetrics(t *testing.T) {
	known, name := families(t), regexp.MustCompile(`\bgated_[a-z_]+`)
	for _, file := range []string{"gated.rules.yml", "gated.rules.test.yml", "gated-dashboard.json"} {
		text, err := os.ReadFile(filepath.Join(contrib, file))
		require.NoError(t, err)
		used := name.FindAllString(string(text), -1)
		require.NotEmpty(t, used)
		for _, n := range used {
			require.True(t, known[n], "%s has %s, which the gate does not write", file, n)
		}
	}
}

func TestTheDashboard(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(contrib, "gated-dashboard.json"))
	require.NoError(t, err)
	var d struct {
		Title  string `json:"title"`
		Panels []struct {
			ID      int    `json:"id"`
			Title   string `json:"title"`
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
			GridPos struct {
				X int `json:"x"`
				Y int `json:"y"`
				W int `json:"w"`
				H int `json:"h"`
			} `json:"gridPos"`
		} `json:"panels"`
	}
	require.NoError(t, json.Unmarshal(text, &d))
	require.Equal(t, "gated", d.Title)
	require.Greater(t, len(d.Panels), 10)
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		require.False(t, ids[p.ID], "the id %d is there twice", p.ID)
		ids[p.ID] = true
		require.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			require.Contains(t, target.Expr, "$instance", p.Title)
			require.NoError(t, validQuery(t, target.Expr), target.Expr)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				require.Empty(t, taken[[2]int{x, y}], "%s lies over another panel", p.Title)
				taken[[2]int{x, y}] = p.Title
			}
		}
		require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24)
	}
}

// validQuery has promtool read a query as the expression of a rule.
func validQuery(t *testing.T, expr string) error {
	t.Helper()
	file := filepath.Join(t.TempDir(), "r.yml")
	rule := fmt.Sprintf("groups:\n  - name: g\n    rules:\n      - record: x\n        expr: %q\n", expr)
	require.NoError(t, os.WriteFile(file, []byte(rule), 0o600))
	out, err := exec.Command(prometheus(t, "promtool"), "check", "rules", file).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// systemd-analyze finds nothing wrong with the units that write the textfile.
func TestTheUnitsAreVerified(t *testing.T) {
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("needs systemd-analyze")
	}
	dir := t.TempDir()
	var files []string
	for _, name := range []string{"gated-metrics.service", "gated-metrics.timer"} {
		text, err := os.ReadFile(filepath.Join("../../../contrib/systemd", name))
		require.NoError(t, err)
		// The program is not installed here, and the verification looks for it.
		text = []byte(strings.ReplaceAll(string(text), "/usr/bin/gated ", "/bin/true "))
		files = append(files, filepath.Join(dir, name))
		require.NoError(t, os.WriteFile(files[len(files)-1], text, 0o644))
	}
	c := exec.Command(tool, append([]string{"verify", "--man=no"}, files...)...)
	c.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+dir+":", "SYSTEMD_LOG_LEVEL=warning")
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NotContains(t, string(out), "gated-metrics")
}

// A real Prometheus scrapes the text and answers questions about it.
func TestARealPrometheusScrapesIt(t *testing.T) {
	program := prometheus(t, "prometheus")
	gate := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write(New(codes()).Text(sample()))
	}))
	defer gate.Close()
	at := fmt.Sprintf("127.0.0.1:%d", ports.Free(t))
	dir := t.TempDir()
	rules, err := filepath.Abs(filepath.Join(contrib, "gated.rules.yml"))
	require.NoError(t, err)
	config := fmt.Sprintf("global: {scrape_interval: 1s}\nrule_files: [%q]\nscrape_configs:\n  - {job_name: gated, static_configs: [{targets: [%q]}]}\n",
		rules, strings.TrimPrefix(gate.URL, "http://"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "p.yml"), []byte(config), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	said := &strings.Builder{}
	c := exec.CommandContext(ctx, program, "--config.file="+filepath.Join(dir, "p.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+at)
	c.Stderr = said
	require.NoError(t, c.Start())
	defer func() {
		cancel()
		_ = c.Wait() // it was killed
	}()
	var last string
	require.Eventually(t, func() bool {
		r, err := http.Get("http://" + at + "/api/v1/query?query=gated_audit_entries_total")
		if err != nil {
			last = err.Error()
			return false
		}
		defer r.Body.Close()
		b, _ := io.ReadAll(r.Body)
		last = string(b)
		return strings.Contains(last, `"812"]`)
	}, time.Minute, 50*time.Millisecond, "%s\n%s", last, said)
	require.Contains(t, last, `"job":"gated"`)
}
