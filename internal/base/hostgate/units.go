package hostgate

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"time"
)

// askFor is how long systemd may take to say what the gate's units are, and how long it is left alone before it is asked again.
const askFor = time.Second

// unit is what systemctl show says of a unit, by property; nil if it says nothing.
type unit map[string]string

// ask has systemctl show the two units, after a pause if it was asked before. Any user may. Root's PATH may name another program.
func ask(before bool) (string, error) {
	if before {
		<-time.After(askFor)
	}
	program := "/usr/bin/systemctl"
	if _, err := os.Stat(program); err != nil {
		program = "/bin/systemctl"
	}
	ctx, cancel := context.WithTimeout(context.Background(), askFor)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "show", "gated.socket", "gated.service",
		"--property=Id,LoadState,UnitFileState,ActiveState,SubState,Result,ExecMainStatus,ExecStart,Listen")
	cmd.Env, cmd.WaitDelay = []string{}, askFor
	out, err := cmd.Output()
	return string(out), err
}

// units returns the gate's two units, nil if systemd does not say them. A state that passes is looked at once more.
func (h Host) units() (socket, service unit) {
	show := h.Show
	if show == nil {
		show = ask
	}
	for before := false; h.Booted(); before = true {
		text, err := show(before)
		if err != nil {
			return nil, nil
		}
		all := parseUnits(text)
		socket, service = all["gated.socket"], all["gated.service"]
		if before || !socket.passes() && !service.passes() {
			break
		}
	}
	return socket, service
}

// passes reports whether the unit is activating, deactivating or reloading.
func (u unit) passes() bool { return strings.HasSuffix(u["ActiveState"], "ing") }

// parseUnits reads what systemctl show prints: lines of NAME=VALUE, and an empty line between units. A socket unit has a
// Listen= for each path.
func parseUnits(text string) map[string]unit {
	all := map[string]unit{}
	for _, block := range strings.Split(text, "\n\n") {
		u := unit{}
		for line := range strings.Lines(block) {
			name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
			u[name] += value + "\n"
		}
		for name, value := range u {
			u[name] = strings.TrimSuffix(value, "\n")
		}
		all[u["Id"]] = u
	}
	return all
}

// ended is how the unit ended last. systemd's own statuses have names there (systemd.exec(5)).
func (u unit) ended() string {
	status := u["ExecMainStatus"]
	if status == "" || status == "0" {
		return u["Result"]
	}
	names := map[string]string{"203": "/EXEC", "216": "/GROUP", "217": "/USER", "226": "/NAMESPACE", "238": "/STATE_DIRECTORY"}
	return u["Result"] + ", status " + status + names[status]
}

// trouble says why systemd does not start one of the units, and what comes next; "" if systemd could.
func (h Host) trouble(units ...unit) string {
	var masked []string
	unmask := ""
	for _, u := range units {
		if u["LoadState"] == "masked" && u["ActiveState"] != "active" {
			masked = append(masked, u["Id"])
			flag := map[bool]string{true: "--runtime "}[u["UnitFileState"] == "masked-runtime"]
			unmask += "systemctl unmask " + flag + u["Id"] + "\n"
		}
	}
	if masked != nil {
		return "the gate of this host cannot start, because somebody masked " + strings.Join(masked, " and ") + ":\n" +
			h.asRoot(unmask+Start)
	}
	for _, u := range units {
		if why := h.failed(u); why != "" {
			return why
		}
	}
	return ""
}

// failed is trouble of a unit that nobody masked. If systemd cannot run the program (a status from 200 to 243), the next
// try is no better.
func (h Host) failed(u unit) string {
	name, active, status := u["Id"], u["ActiveState"], u["ExecMainStatus"]
	own := active != "inactive" && u["Result"] == "exit-code" && len(status) == 3 && status >= "200" && status <= "243"
	look := "journalctl -u " + name + " -n 20\n"
	switch {
	case active == "active":
		return ""
	case own && status == "203" && h.at("/var/lib/dpkg/info/gated.list") && strings.Contains(u["ExecStart"], "path=/usr/bin/gated "):
		return "systemd cannot run the program of " + name + " (" + u.ended() + "). Install the package again, from its file if apt has no other:\n" +
			h.asRoot("apt install --reinstall gated\n"+look+Start)
	case own && status == "203":
		return "systemd cannot run the program of " + name + " (" + u.ended() + "). Put back the one that ExecStart= names:\n" +
			h.asRoot("systemctl cat "+name+"\n"+look+Start)
	case active == "failed" || own:
		return "the gate of this host does not run, because " + name + " failed (" + u.ended() + "). First see why; start it when that is mended:\n" +
			h.asRoot(look+"systemctl reset-failed gated.socket gated\n"+Start) // without the reset, a limit of starts still counts
	}
	return ""
}

// asRoot writes commands, one a line, for the user who asks to type.
func (h Host) asRoot(commands string) string {
	if h.euid == nil && os.Geteuid() == 0 || h.euid != nil && h.euid() == 0 {
		return commands
	}
	return "sudo " + strings.ReplaceAll(commands, "\n", "\nsudo ")
}

// unheard says why nobody listens at a path, and what comes next; "" if systemd knows of no reason. A socket unit that
// fails with its service is not the cause.
func (h Host) unheard(path string) string {
	socket, service := h.units()
	first, second := socket, service
	if strings.HasPrefix(socket["Result"], "service-") {
		first, second = service, socket
	}
	why := h.trouble(first, second)
	switch {
	case why != "":
		return why
	case socket.elsewhere(path):
		return "gated.socket listens at " + strings.ReplaceAll(socket["Listen"], "\n", ", ") + ", and not at " + path +
			". Name that path in /etc/gated/client.yaml, or correct ListenStream=:\n" + h.asRoot("systemctl cat gated.socket")
	case socket.passes() || service.passes():
		return "systemd starts or stops the gate of this host just now (" + service["SubState"] + "; it last ended with " + service.ended() +
			"). Ask again in a few seconds, or see why:\n" + h.asRoot("journalctl -u gated -n 20")
	case socket["ActiveState"] == "active":
		return "gated.socket is active, and nobody listens at its path:\n" + h.asRoot("systemctl restart gated.socket\n"+Start)
	case socket["LoadState"] == "not-found" && service["ActiveState"] == "active":
		return "gated.service is active, and nobody listens at " + path + ":\n" + h.asRoot("systemctl restart gated")
	}
	return ""
}

// elsewhere reports whether the socket unit is for other paths alone.
func (u unit) elsewhere(path string) bool {
	return u["Listen"] != "" && !strings.Contains("\n"+u["Listen"], "\n"+path+" (")
}

// Failed says why a call to systemd's socket at a path will have no answer, and what comes next; "" if systemd still starts the
// daemon.
func (h Host) Failed(path string) string {
	socket, service := h.units()
	if socket.elsewhere(path) {
		return ""
	}
	return h.trouble(service)
}
