package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/life"
	"gated/internal/host/server"
)

// saysWhyFor is how long a daemon that cannot start tells its callers so. Each call starts it again. If it ended at once, a few
// calls would make the service manager give the socket up, and a daemon whose fault was mended would get no calls.
const saysWhyFor = 5 * time.Second

// lastAnswers is how long callers may then take to read an answer. A daemon whose fault was mended is to start soon.
const lastAnswers = 3 * time.Second

// sayWhy tells the callers of the service manager's socket why this daemon cannot start, for a while. No other part of the
// gate runs meanwhile. It leaves a socket alone that a daemon must not serve, or that another daemon serves.
func (o ServeOptions) sayWhy(ctx context.Context, passed []*os.File, why error) {
	if len(passed) == 0 {
		return
	}
	o.Logger.Error("this daemon cannot start, and tells its callers so before it ends", "for", saysWhyFor, "error", why)
	socket, err := server.Adopt(passed, "") // also if the settings name another path
	if err == nil {
		toRoot, toOthers := o.cannotStart(why)
		limited, cancel := context.WithTimeout(ctx, saysWhyFor)
		defer cancel()
		answers := server.New(server.Config{Limits: server.Limits{Drain: lastAnswers}, Now: now, Logger: o.Logger})
		err = answers.ServeRefusal(limited, socket, func(uid uint32) error {
			if uid == 0 {
				return toRoot
			}
			return toOthers
		})
	}
	if err != nil {
		o.Logger.Warn("callers were not told why this daemon cannot start", "error", err)
	}
}

// cannotStart is what callers are told: root the reason, others where root finds it. The reason may quote what only the gate's
// user may read. That user is one of the others, because guests may have its uid.
func (o ServeOptions) cannotStart(why error) (toRoot, toOthers *refusal.Refusal) {
	const words = "the daemon cannot start: %s"
	r, short := refusal.As(why), "only its log says why"
	detail, hint := r.Detail, r.Hint
	if !errors.As(why, new(*refusal.Refusal)) {
		detail = why.Error()
	}
	asRoot, first := "sudo ", ""
	s, err := o.unit.Service()
	name, manager, own := strings.TrimSuffix(s.Name, ".service"), "", life.SystemStateDir
	switch {
	case err != nil || name == "":
		name = "gated"
	case s.User:
		manager, own, asRoot = " --user", life.DefaultStateDir(), ""
	}
	if _, refused := life.CheckConfig(o.StateDir); refused != nil {
		short, first = "its settings are refused. Only root may see more", "gated config check"
		if o.StateDir != own {
			first += " --state " + op.ShellWords(o.StateDir)
		}
		first += "\n"
		if what := refusal.As(refused).Detail; what == detail {
			hint = strings.TrimSuffix("mend "+lineOf(what)+"; the gate starts by itself within seconds\n"+hint, "\n") // the unit tries again
		}
	}
	then := fmt.Sprintf("systemctl%s status %s\n", manager, name)
	last := fmt.Sprintf("journalctl%s -u %s -n 20", manager, name)
	toRoot = refusal.New(refusal.Unavailable, words, detail).WithHint("%s", lines(hint, first+then+last))
	switch {
	case first != "":
		first = asRoot + first
	case asRoot != "": // root's call is told the reason
		short, first = "only root may see why", "sudo gated status\n"
	}
	return toRoot, refusal.New(refusal.Unavailable, words, short).WithHint("%s", first+then+asRoot+last)
}

// lineOf names the line of "FILE:LINE:COLUMN: ...", of anything else "it".
func lineOf(what string) string {
	if parts := strings.SplitN(what, ":", 4); len(parts) == 4 {
		if _, err := strconv.Atoi(parts[1]); err == nil {
			return "line " + parts[1]
		}
	}
	return "it"
}

// lines puts a hint before others, unless it is empty.
func lines(hint, others string) string {
	if hint == "" {
		return others
	}
	return hint + "\n" + others
}
