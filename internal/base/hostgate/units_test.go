package hostgate

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

type fields = map[string]string

// shown is what systemctl show prints of the two units: fields that differ from those of a unit that was stopped.
func shown(socket, service fields) string {
	block := func(all, differ fields) string {
		maps.Copy(all, fields{"LoadState": "loaded", "UnitFileState": "enabled", "ActiveState": "inactive", "SubState": "dead", "Result": "success"})
		maps.Copy(all, differ)
		text := ""
		for _, name := range slices.Sorted(maps.Keys(all)) {
			text += name + "=" + all[name] + "\n"
		}
		return text
	}
	return block(fields{"Id": "gated.socket", "Listen": path + " (Stream)"}, socket) + "\n" + block(fields{"Id": "gated.service", "ExecMainStatus": "0"}, service)
}

const stopped = "the gate of this host does not run: systemctl start gated\nsystemctl status gated\njournalctl -u gated -n 20"

// Each state of the two units has its sentence. None that systemctl start cannot mend names that command first. Who is not root
// reads the same commands with sudo.
func TestWhatTheUnitsSay(t *testing.T) {
	masked, briefly := fields{"LoadState": "masked", "UnitFileState": "masked"}, fields{"LoadState": "masked", "UnitFileState": "masked-runtime"}
	unrunnable := fields{"ActiveState": "activating", "SubState": "auto-restart", "Result": "exit-code", "ExecMainStatus": "203"}
	gaveUp := maps.Clone(unrunnable)
	gaveUp["ActiveState"] = "failed"
	failed := fields{"ActiveState": "failed", "SubState": "failed", "Result": "exit-code", "ExecMainStatus": "1"}
	active := fields{"ActiveState": "active", "SubState": "running"}
	const (
		mask    = "the gate of this host cannot start, because somebody masked gated."
		start   = "\nsystemctl start gated"
		because = "the gate of this host does not run, because gated.%[1]s failed (%[2]s). First see why; start it when that is mended:\n" +
			"journalctl -u gated.%[1]s -n 20\nsystemctl reset-failed gated.socket gated" + start
		putBack = "systemd cannot run the program of gated.service (exit-code, status 203/EXEC). Put back the one that ExecStart= names; " +
			"a package's with apt install --reinstall gated:\nsystemctl cat gated.service\njournalctl -u gated.service -n 20\nsystemctl reset-failed gated.socket gated" + start
		again   = "gated.socket is active, and nobody listens at its path:\nsystemctl restart gated.socket" + start
		passing = "systemd starts or stops the gate of this host just now (auto-restart; it last ended with exit-code, status 1). " +
			"Ask again in a few seconds, or see why:\njournalctl -u gated -n 20"
	)
	of := func(unit, result string) string {
		return strings.NewReplacer("%[1]s", unit, "%[2]s", result).Replace(because)
	}
	for name, c := range map[string]struct {
		socket, service fields
		next            string // what is said if nobody listens
	}{
		"stopped":            {nil, nil, stopped},
		"a group is missing": {fields{"ActiveState": "failed", "Result": "exit-code"}, nil, of("socket", "exit-code")},
		"the socket gave up": {fields{"ActiveState": "failed", "Result": "service-start-limit-hit"}, failed,
			of("service", "exit-code, status 1")},
		"the socket is masked":  {masked, nil, mask + "socket:\nsystemctl unmask gated.socket" + start},
		"the service is masked": {nil, masked, mask + "service:\nsystemctl unmask gated.service" + start},
		"both are masked": {masked, masked,
			"the gate of this host cannot start, because somebody masked gated.socket and gated.service:\nsystemctl unmask gated.socket gated.service" + start},
		"a unit that is damaged": {nil, fields{"LoadState": "bad-setting"}, "the gate of this host cannot start, because systemd cannot read gated.service:\n" +
			"systemctl status gated.service\nsystemctl daemon-reload    # when that is mended" + start},
		"damaged while it runs": {active, fields{"ActiveState": "active", "LoadState": "bad-setting"}, again},
		"a first start": {active, fields{"ActiveState": "activating", "SubState": "start"},
			"systemd starts or stops the gate of this host just now (start). Ask again in a few seconds, or see why:\njournalctl -u gated -n 20"},
		"masked for now":                     {nil, briefly, mask + "service:\nsystemctl unmask --runtime gated.service" + start},
		"masked beside a failure":            {failed, masked, mask + "service:\nsystemctl unmask gated.service" + start},
		"masked while it runs":               {fields{"ActiveState": "active", "LoadState": "masked"}, fields{"ActiveState": "active", "LoadState": "masked"}, again},
		"masked while it starts":             {nil, fields{"ActiveState": "activating", "LoadState": "masked", "SubState": "auto-restart", "Result": "exit-code", "ExecMainStatus": "1"}, passing},
		"masked while it ends":               {nil, fields{"ActiveState": "deactivating", "LoadState": "masked", "SubState": "auto-restart", "Result": "exit-code", "ExecMainStatus": "1"}, passing},
		"masked while it reads its settings": {active, fields{"ActiveState": "reloading", "LoadState": "masked", "SubState": "auto-restart", "Result": "exit-code", "ExecMainStatus": "1"}, passing},
		"masked, and failed":                 {nil, fields{"ActiveState": "failed", "LoadState": "masked"}, mask + "service:\nsystemctl unmask gated.service" + start},
		"no socket file":                     {active, active, again},
		"without gated.socket": {fields{"LoadState": "not-found", "Listen": ""}, active,
			"gated.service is active, and nobody listens at " + path + ":\nsystemctl restart gated"},
		"a socket elsewhere": {fields{"ActiveState": "active", "Listen": "/run/g (Stream)\nListen=/run/g2 (Stream)"}, unrunnable,
			putBack},
		"a socket elsewhere, and well": {fields{"ActiveState": "active", "Listen": "/run/g (Stream)\nListen=/run/g2 (Stream)"}, active,
			"gated.socket is set to listen at /run/g (Stream), /run/g2 (Stream), and not at " + path + ". Name that path in /etc/gated/client.yaml, or correct ListenStream=:\n" +
				"systemctl cat gated.socket"},
		"a socket here and elsewhere":     {fields{"ActiveState": "active", "Listen": "/run/g (Stream)\nListen=" + path + " (Stream)"}, active, again},
		"no program":                      {fields{"ActiveState": "failed", "Result": "service-start-limit-hit"}, unrunnable, putBack},
		"no program, and systemd gave up": {nil, gaveUp, putBack},
		"no program, and stopped":         {nil, fields{"Result": "exit-code", "ExecMainStatus": "203"}, stopped},
		"a start that fails":              {nil, fields{"ActiveState": "activating", "SubState": "auto-restart", "Result": "exit-code", "ExecMainStatus": "1"}, passing},
		"the user is missing": {nil, fields{"ActiveState": "activating", "SubState": "auto-restart", "Result": "exit-code", "ExecMainStatus": "217"},
			of("service", "exit-code, status 217/USER")},
	} {
		h := with(t, systemd, service, socket, state)
		h.show = func(context.Context) (string, error) { return shown(c.socket, c.service), nil }
		if sentence, commands, found := strings.Cut(c.next, "\n"); found && c.next != stopped && os.Geteuid() != 0 {
			c.next = sentence + "\nsudo " + strings.ReplaceAll(commands, "\n", "\nsudo ")
		}
		require.Equal(t, c.next, h.Next(t.Context(), path), name)
	}
}

// If systemd does not answer, what the files say stands.
func TestAHostThatSystemdSaysNothingOf(t *testing.T) {
	for _, show := range []func(context.Context) (string, error){
		func(context.Context) (string, error) { return "", errors.New("no time") },
		func(context.Context) (string, error) { return "no such thing\n", nil },
	} {
		h := with(t, systemd, service, socket, state)
		h.show = show
		require.Equal(t, stopped, h.Next(t.Context(), path))
	}
	h := with(t, service, socket, state)
	h.show = func(context.Context) (string, error) { return shown(fields{"LoadState": "masked"}, nil), nil }
	require.NotContains(t, h.Next(t.Context(), path), "masked", "systemd does not run")
}

// Each unit that is read is one whose Id stands in the text.
func FuzzUnits(f *testing.F) {
	f.Add(shown(nil, fields{"ExecMainStatus": "203"}))
	f.Add("Id=a\n\nId=b\nExecMainStatus=x\n")
	f.Fuzz(func(t *testing.T, text string) {
		for name, u := range parseUnits(text) {
			require.Equal(t, name, u["Id"])
			first, _, _ := strings.Cut(name, ", ")
			require.True(t, first == "" || strings.Contains(text, "Id="+first))
		}
	})
}
