package hostgate

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// askFor is how long systemd may take to say what the gate's units are.
const askFor = time.Second

// again starts the gate after a unit failed. A unit that reached a limit of starts needs the first command.
const again = "systemctl reset-failed gated.socket gated\n" + Start

// unit is what systemctl show says of a unit.
type unit struct {
	name   string
	load   string // LoadState
	file   string // UnitFileState
	active string // ActiveState
	sub    string // SubState
	result string // Result
	status int    // ExecMainStatus, 0 for a socket
}

// ask has systemctl show the two units. Any user may.
func ask() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askFor)
	defer cancel()
	cmd := exec.CommandContext(ctx, "systemctl", "show", "--property=Id,LoadState,UnitFileState,ActiveState,SubState,Result,ExecMainStatus",
		"gated.socket", "gated.service")
	cmd.WaitDelay = askFor
	out, err := cmd.Output()
	return string(out), err
}

// units returns the gate's two units, with no state if systemd does not say it.
func (h Host) units() (socket, service unit) {
	if !h.Booted() {
		return unit{}, unit{}
	}
	show := h.Show
	if show == nil {
		show = ask
	}
	text, err := show()
	if err != nil {
		return unit{}, unit{}
	}
	all := parseUnits(text)
	return all["gated.socket"], all["gated.service"]
}

// parseUnits reads what systemctl show prints: lines of NAME=VALUE, and an empty line between units.
func parseUnits(text string) map[string]unit {
	all := map[string]unit{}
	for _, block := range strings.Split(text, "\n\n") {
		var u unit
		for line := range strings.Lines(block) {
			name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
			switch name {
			case "Id":
				u.name = value
			case "LoadState":
				u.load = value
			case "UnitFileState":
				u.file = value
			case "ActiveState":
				u.active = value
			case "SubState":
				u.sub = value
			case "Result":
				u.result = value
			case "ExecMainStatus":
				u.status, _ = strconv.Atoi(value) // 0 says nothing
			}
		}
		all[u.name] = u
	}
	return all
}

// ended is how the unit ended last. systemd's own statuses have names there (systemd.exec(5)).
func (u unit) ended() string {
	if u.status == 0 {
		return u.result
	}
	name := map[int]string{203: "/EXEC", 216: "/GROUP", 217: "/USER", 226: "/NAMESPACE", 238: "/STATE_DIRECTORY"}[u.status]
	return fmt.Sprintf("%s, status %d%s", u.result, u.status, name)
}

// trouble says why systemd does not start the unit, and what comes next; "" if systemd could. If systemd cannot run the
// program (a status from 200 to 243), the next try is no better.
func (u unit) trouble() string {
	own := u.result == "exit-code" && u.status >= 200 && u.status <= 243
	switch {
	case u.active == "active":
		return ""
	case u.load == "masked":
		flag := ""
		if u.file == "masked-runtime" {
			flag = "--runtime "
		}
		return "the gate of this host cannot start, because " + u.name + " is masked:\n" + asRoot("systemctl unmask "+flag+u.name+"\n"+Start)
	case u.load == "bad-setting" || u.load == "error":
		return "the gate of this host cannot start, because systemd cannot use the file of " + u.name + " (" + u.load + "):\n" +
			asRoot("systemctl status "+u.name+"\nsystemctl cat "+u.name)
	case own && u.status == 203:
		return "systemd cannot run the program of " + u.name + " (" + u.ended() + "). Install the package again:\n" +
			asRoot("apt install --reinstall gated\njournalctl -u "+u.name+" -n 20\n"+Start)
	case u.active == "failed" || own:
		return "the gate of this host does not run, because " + u.name + " failed (" + u.ended() + "). First see why; start it when that is mended:\n" +
			asRoot("journalctl -u "+u.name+" -n 20\n"+again)
	}
	return ""
}

// asRoot writes commands, one a line, for this user to type.
func asRoot(commands string) string {
	if os.Geteuid() == 0 {
		return commands
	}
	return "sudo " + strings.ReplaceAll(commands, "\n", "\nsudo ")
}

// unheard says why nobody listens at the socket, and what comes next; "" if systemd knows of no reason. A socket unit that
// fails with its service is not the cause.
func (h Host) unheard() string {
	socket, service := h.units()
	first, second := socket, service
	if strings.HasPrefix(socket.result, "service-") {
		first, second = service, socket
	}
	for _, u := range []unit{first, second} {
		if why := u.trouble(); why != "" {
			return why
		}
	}
	switch {
	case socket.active == "active":
		return "gated.socket is active, and nobody listens at its path:\n" + asRoot("systemctl restart gated.socket\n"+Start)
	case socket.load == "not-found" && service.active == "active":
		return "gated.service is active, and nobody listens at this path:\n" + asRoot("systemctl restart gated")
	}
	return ""
}

// Failed says why a call that is connected will have no answer, and what comes next; "" if systemd still starts the daemon.
func (h Host) Failed() string {
	_, service := h.units()
	return service.trouble()
}

// Last says how the daemon ended before the start that goes on; "" if it did not fail.
func (h Host) Last() string {
	_, service := h.units()
	if service.result == "" || service.result == "success" {
		return ""
	}
	return fmt.Sprintf("gated.service is %s (%s); it last ended with %s", service.active, service.sub, service.ended())
}
