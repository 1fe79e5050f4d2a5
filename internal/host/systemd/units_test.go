package systemd

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

const contrib = "../../../contrib/systemd"

// dropIns are drop-ins of gated.service, and the version of systemd that each needs.
var dropIns = map[string]int{"commands.conf": 0, "guests.conf": 0, "usr-local.conf": 0, "limits.conf": 254}

func unitText(t *testing.T, name string) string {
	return string(must.Get(os.ReadFile(filepath.Join(contrib, name)))(t))
}

// version is that of the systemd of this machine, 0 for none.
func version(t *testing.T) int {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		return 0
	}
	out := must.Get(exec.Command("systemd-analyze", "--version").Output())(t)
	m := regexp.MustCompile(`^systemd (\d+)`).FindSubmatch(out)
	require.NotNil(t, m, "%s", out)
	n := 0
	for _, c := range m[1] {
		n = 10*n + int(c-'0')
	}
	return n
}

// systemd-analyze finds nothing wrong with the units, alone and with each drop-in.
func TestTheUnitsAreVerified(t *testing.T) {
	have := version(t)
	if have == 0 {
		t.Skip("needs systemd-analyze")
	}
	alone := map[string]int{"": 0}
	maps.Copy(alone, dropIns)
	for name, needs := range alone {
		if needs > have {
			continue // gated.service may not have such a key, and the drop-in says which version has it
		}
		dir := t.TempDir()
		write := func(path, text string) {
			// The program is not installed here, and the verification looks for it.
			text = regexp.MustCompile(`/usr/(local/)?bin/gated\b`).ReplaceAllString(text, "/bin/true")
			require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(dir, path), []byte(text), 0o644))
		}
		write("gated.service", unitText(t, "gated.service"))
		write("gated.socket", unitText(t, "gated.socket"))
		if name != "" {
			write("gated.service.d/"+name, unitText(t, name))
		}
		cmd := exec.Command("systemd-analyze", "verify", "--man=no", filepath.Join(dir, "gated.service"), filepath.Join(dir, "gated.socket"))
		cmd.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+dir+":", "SYSTEMD_LOG_LEVEL=warning")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", name, out)
		require.NotRegexp(t, `gated\.(service|socket)`, string(out), name)
	}
}

// Each drop-in of the directory is in the table above.
func TestEveryDropInIsVerified(t *testing.T) {
	found := must.Get(filepath.Glob(filepath.Join(contrib, "*.conf")))(t)
	require.Len(t, found, len(dropIns))
	for _, path := range found {
		require.Contains(t, dropIns, filepath.Base(path))
	}
}

// The two units and the drop-in for /usr/local/bin name one socket and one state.
func TestTheUnitsAgree(t *testing.T) {
	service, socket := unitText(t, "gated.service"), unitText(t, "gated.socket")
	at := regexp.MustCompile(`(?m)^ListenStream=(.*)$`).FindAllStringSubmatch(socket, -1)
	require.Len(t, at, 1)
	for _, line := range []string{
		"ExecStart=/usr/bin/gated serve --state /var/lib/gated --socket " + at[0][1],
		"ExecReload=+/usr/bin/gated reload --socket " + at[0][1],
	} {
		require.Contains(t, service, "\n"+line+"\n")
		require.Contains(t, unitText(t, "usr-local.conf"), "\n"+strings.Replace(line, "/usr/bin/", "/usr/local/bin/", 1)+"\n")
	}
	require.Contains(t, service, "\nRequires=gated.socket\n")
	require.Contains(t, service, "\nNonBlocking=yes\n")
	require.NotContains(t, service, "\nRuntimeDirectory", "it would take the socket away from root")
	require.Contains(t, service, "\nType=notify\n")
}

// TestNoCallSwitchesTheSocketOff: each call asks systemd for a start, so neither unit may have a limit of starts. A pause keeps the
// tries apart, which holds after every end but a good one. make demo-debian shows it.
func TestNoCallSwitchesTheSocketOff(t *testing.T) {
	service, socket := unitText(t, "gated.service"), unitText(t, "gated.socket")
	for _, text := range []string{service, socket} {
		require.Contains(t, text, "\nStartLimitIntervalSec=0\n")
	}
	require.Contains(t, service, "\nRestart=on-failure\nRestartSec=2s\n")
	require.NotRegexp(t, `(?m)^(RestartPreventExitStatus|SuccessExitStatus|StartLimitAction|StartLimitBurst)=`, service)
	require.NotRegexp(t, `(?m)^(Condition|Assert)`, service, "a start that it skips would be asked for again at once")
	require.Contains(t, socket, "\nTriggerLimitIntervalSec=0\n")
}

// The clients that units start find the gate as each client of the host does. A socket on the command line, or a uid in
// the unit, would pass over client.yaml, and so over the uid of a gate that listens without gated.socket.
func TestTheUnitsOfClientsTakeTheHostsFile(t *testing.T) {
	for _, name := range []string{"gated-notify.service", "gated-metrics.service"} {
		text := unitText(t, name)
		require.Regexp(t, `(?m)^ExecStart=/usr/(local/)?bin/gated (notify run|metrics) `, text, name)
		require.NotRegexp(t, `(?m)^ExecStart=.*--socket`, text, name)
		require.NotRegexp(t, `(?m)^Environment=.*GATED_`, text, name)
		require.Regexp(t, `(?m)^SupplementaryGroups=gated$`, text, name)
	}
}
