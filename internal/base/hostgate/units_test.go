package hostgate

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// shown is what systemctl show prints of the two units: fields that differ from those of a unit that was stopped.
func shown(socket, service map[string]string) string {
	block := func(id string, fields map[string]string) string {
		all := map[string]string{"Id": id, "LoadState": "loaded", "UnitFileState": "enabled", "ActiveState": "inactive", "SubState": "dead", "Result": "success"}
		if id == "gated.service" {
			all["ExecMainStatus"] = "0"
		}
		maps.Copy(all, fields)
		text := ""
		for _, name := range slices.Sorted(maps.Keys(all)) {
			text += name + "=" + all[name] + "\n"
		}
		return text
	}
	return block("gated.socket", socket) + "\n" + block("gated.service", service)
}

type fields = map[string]string

const stopped = "the gate of this host does not run: systemctl start gated\nsystemctl status gated\njournalctl -u gated -n 20"

// Each state of the two units has its sentence. None that systemctl start cannot mend names that command first.
func TestWhatTheUnitsSay(t *testing.T) {
	masked := fields{"LoadState": "masked", "UnitFileState": "masked"}
	unrunnable := fields{"ActiveState": "activating", "SubState": "auto-restart", "Result": "exit-code", "ExecMainStatus": "203"}
	failed := fields{"ActiveState": "failed", "SubState": "failed", "Result": "exit-code", "ExecMainStatus": "1"}
	const (
		unmask  = "the gate of this host cannot start, because gated.%[1]s is masked:\nsystemctl unmask gated.%[1]s\nsystemctl start gated"
		because = "the gate of this host does not run, because gated.%[1]s failed (%[2]s). First see why; start it when that is mended:\n" +
			"journalctl -u gated.%[1]s -n 20\nsystemctl reset-failed gated.socket gated\nsystemctl start gated"
		reinstall = "systemd cannot run the program of gated.service (exit-code, status 203/EXEC). Install the package again:\n" +
			"apt install --reinstall gated\njournalctl -u gated.service -n 20\nsystemctl start gated"
		again = "gated.socket is active, and nobody listens at its path:\nsystemctl restart gated.socket\nsystemctl start gated"
	)
	of := func(text, unit, result string) string {
		return strings.NewReplacer("%[1]s", unit, "%[2]s", result).Replace(text)
	}
	active := fields{"ActiveState": "active", "SubState": "running"}
	for name, c := range map[string]struct {
		socket, service fields
		next, failed    string // what is said if nobody listens, and of a call that is connected
	}{
		"stopped":            {nil, nil, stopped, ""},
		"a group is missing": {fields{"ActiveState": "failed", "Result": "exit-code"}, nil, of(because, "socket", "exit-code"), ""},
		"the socket gave up": {fields{"ActiveState": "failed", "Result": "service-start-limit-hit"}, failed,
			of(because, "service", "exit-code, status 1"), of(because, "service", "exit-code, status 1")},
		"the socket is masked":  {masked, nil, of(unmask, "socket", ""), ""},
		"the service is masked": {nil, masked, of(unmask, "service", ""), of(unmask, "service", "")},
		"masked until the boot": {fields{"LoadState": "masked", "UnitFileState": "masked-runtime"}, nil,
			strings.Replace(of(unmask, "socket", ""), "unmask", "unmask --runtime", 1), ""},
		"masked while it runs": {fields{"ActiveState": "active", "LoadState": "masked"}, fields{"ActiveState": "active", "LoadState": "masked"}, again, ""},
		"a unit file is wrong": {nil, fields{"LoadState": "bad-setting"}, "the gate of this host cannot start, because systemd cannot use the file of " +
			"gated.service (bad-setting):\nsystemctl status gated.service\nsystemctl cat gated.service", "the gate of this host cannot start, because systemd cannot use the file of " +
			"gated.service (bad-setting):\nsystemctl status gated.service\nsystemctl cat gated.service"},
		"no socket file": {active, active, again, ""},
		"without gated.socket": {fields{"LoadState": "not-found"}, active,
			"gated.service is active, and nobody listens at this path:\nsystemctl restart gated", ""},
		"no program":         {fields{"ActiveState": "failed", "Result": "service-start-limit-hit"}, unrunnable, reinstall, reinstall},
		"a start that fails": {nil, fields{"ActiveState": "activating", "SubState": "auto-restart", "Result": "exit-code", "ExecMainStatus": "1"}, stopped, ""},
		"the user is missing": {nil, fields{"ActiveState": "activating", "SubState": "auto-restart", "Result": "exit-code", "ExecMainStatus": "217"},
			of(because, "service", "exit-code, status 217/USER"), of(because, "service", "exit-code, status 217/USER")},
	} {
		h := with(t, systemd, service, socket, state)
		h.Show = func() (string, error) { return shown(c.socket, c.service), nil }
		plain := func(text string) string { return strings.ReplaceAll(text, "sudo ", "") }
		require.Equal(t, c.next, plain(h.Next()), name)
		require.Equal(t, c.failed, plain(h.Failed()), name)
	}
}

// How the daemon ended before is said of a start that goes on, and of no other.
func TestHowItEndedLast(t *testing.T) {
	h := with(t, systemd, service, socket, state)
	require.Empty(t, h.Last(), "systemd does not answer")
	h.Show = func() (string, error) { return shown(nil, nil), nil }
	require.Empty(t, h.Last())
	h.Show = func() (string, error) {
		return shown(nil, fields{"ActiveState": "activating", "SubState": "auto-restart", "Result": "exit-code", "ExecMainStatus": "1"}), nil
	}
	require.Equal(t, "gated.service is activating (auto-restart); it last ended with exit-code, status 1", h.Last())
}

// If systemd does not answer, what the files say stands.
func TestAHostThatSystemdSaysNothingOf(t *testing.T) {
	for _, show := range []func() (string, error){
		func() (string, error) { return "", errors.New("no time") },
		func() (string, error) { return "no such thing\n", nil },
	} {
		h := with(t, systemd, service, socket, state)
		h.Show = show
		require.Equal(t, stopped, h.Next())
		require.Empty(t, h.Failed())
	}
	h := with(t, service, socket, state)
	h.Show = func() (string, error) { return shown(fields{"LoadState": "masked"}, nil), nil }
	require.NotContains(t, h.Next(), "masked", "systemd does not run")
}

// Each unit that is read is one whose Id stands in the text.
func FuzzUnits(f *testing.F) {
	f.Add(shown(nil, fields{"ExecMainStatus": "203"}))
	f.Add("Id=a\n\nId=b\nExecMainStatus=x\n")
	f.Fuzz(func(t *testing.T, text string) {
		for name, u := range parseUnits(text) {
			require.Equal(t, name, u.name)
			require.True(t, name == "" || strings.Contains(text, "Id="+name))
		}
	})
}
