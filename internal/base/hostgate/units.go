package hostgate

import (
	"context"
	"os/exec"
	"strings"
	"time"
)

// askFor is how long systemd may take to say what the gate's units are, if the caller's time is not over before.
const askFor = time.Second

// ask has systemctl show the gate's two units. Any user may. Root's PATH may name another program.
func ask(ctx context.Context) (string, error) {
	limit := askFor
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(end)/2) // what nobody says about the units must not hide that nobody listens
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/systemctl", "show", "gated.socket", "gated.service",
		"--property=Id,LoadState,UnitFileState,ActiveState,SubState,Result,ExecMainStatus,Listen")
	cmd.Env, cmd.WaitDelay = []string{}, askFor
	out, err := cmd.Output()
	return string(out), err
}

// unit is what systemctl show says of a unit, by property; nil if it says nothing.
type unit map[string]string

// parseUnits reads what systemctl show prints: lines of NAME=VALUE, and an empty line between units. A socket unit has a
// Listen= for each path.
func parseUnits(text string) map[string]unit {
	all := map[string]unit{}
	for block := range strings.SplitSeq(text, "\n\n") {
		u := unit{}
		for line := range strings.Lines(block) {
			name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
			if was, more := u[name]; more {
				value = was + ", " + value
			}
			u[name] = value
		}
		all[u["Id"]] = u
	}
	return all
}

// off reports whether the unit neither runs nor is about to.
func (u unit) off() bool { return u["ActiveState"] == "inactive" || u["ActiveState"] == "failed" }

// ended is how the unit ended last. systemd's own statuses have names there (systemd.exec(5)).
func (u unit) ended() string {
	status := u["ExecMainStatus"]
	if status == "" || status == "0" {
		return u["Result"]
	}
	names := map[string]string{"203": "/EXEC", "216": "/GROUP", "217": "/USER", "226": "/NAMESPACE", "238": "/STATE_DIRECTORY"}
	return u["Result"] + ", status " + status + names[status]
}

// trouble says why systemd does not start the unit, and the commands that come next; "" if it could. If systemd cannot run the
// program (a status from 200 to 243), the next try is no better.
func (u unit) trouble() (why, commands string) {
	name, active, status := u["Id"], u["ActiveState"], u["ExecMainStatus"]
	next := "journalctl -u " + name + " -n 20\nsystemctl reset-failed gated.socket gated\n" + Start // a limit of starts may count
	own := strings.HasSuffix(active, "ing") && u["Result"] == "exit-code" && len(status) == 3 && status >= "200" && status <= "243"
	switch {
	case u.off() && (u["LoadState"] == "bad-setting" || u["LoadState"] == "error"):
		return "the gate of this host cannot start, because systemd cannot read " + name,
			"systemctl status " + name + "\nsystemctl daemon-reload    # when that is mended\n" + Start
	case status == "203" && (own || active == "failed"):
		return "systemd cannot run the program of " + name + " (" + u.ended() + "). Put back the one that ExecStart= names; " +
			"a package's with apt install --reinstall gated", "systemctl cat " + name + "\n" + next
	case own || active == "failed":
		return "the gate of this host does not run, because " + name + " failed (" + u.ended() + "). First see why; start it when that is mended", next
	}
	return "", ""
}

// unheard says why nobody listens at a path, and the commands that come next; "" if systemd knows of no reason. A socket
// unit that fails with its service is not the cause.
func (h Host) unheard(ctx context.Context, path string) (why, commands string) {
	show := h.show
	if show == nil {
		show = ask
	}
	text, err := show(ctx)
	if err != nil {
		return "", ""
	}
	all := parseUnits(text)
	socket, service := all["gated.socket"], all["gated.service"]
	units := []unit{socket, service}
	if strings.HasPrefix(socket["Result"], "service-") {
		units = []unit{service, socket}
	}
	runtime, masked := "", []string{}
	for _, u := range units {
		if u.off() && u["LoadState"] == "masked" {
			masked = append(masked, u["Id"])
			if u["UnitFileState"] == "masked-runtime" {
				runtime = "--runtime "
			}
		}
	}
	if len(masked) > 0 { // a start fails at each of them
		return "the gate of this host cannot start, because somebody masked " + strings.Join(masked, " and "),
			"systemctl unmask " + runtime + strings.Join(masked, " ") + "\n" + Start
	}
	for _, u := range units {
		if why, commands = u.trouble(); why != "" {
			return why, commands
		}
	}
	passes := strings.HasSuffix(socket["ActiveState"], "ing") || strings.HasSuffix(service["ActiveState"], "ing")
	switch listen := socket["Listen"]; {
	case listen != "" && !strings.Contains(", "+listen, ", "+path+" ("):
		return "gated.socket is set to listen at " + listen + ", and not at " + path + ". Name that path in /etc/gated/client.yaml, or correct ListenStream=",
			"systemctl cat gated.socket"
	case passes:
		last := ""
		if how := service.ended(); how != "success" { // systemd says that of a first start, too
			last = "; it last ended with " + how
		}
		return "systemd starts or stops the gate of this host just now (" + service["SubState"] + last +
			"). Ask again in a few seconds, or see why", "journalctl -u gated -n 20"
	case socket["ActiveState"] == "active":
		return "gated.socket is active, and nobody listens at its path", "systemctl restart gated.socket\n" + Start
	case service["ActiveState"] == "active":
		return "gated.service is active, and nobody listens at " + path, "systemctl restart gated"
	}
	return "", ""
}
