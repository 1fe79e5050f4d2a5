package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"gated/client/api"
	"gated/internal/agents/hook"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// Gate is a daemon, as one caller sees it.
type Gate interface {
	Where() string // the address at which it answered last
	Status(context.Context) (api.Status, error)
	Backends(context.Context) ([]api.Backend, error)
	Self(context.Context) (api.Caller, error)
	Agents(context.Context) ([]api.Agent, error)
	RegisterAgent(context.Context, api.RegisterAgent) (api.RegisteredAgent, error)
	Unregister(context.Context, string) (api.Agent, error)
	Reserve(context.Context, api.Reserve) (api.Reservation, error)
	Release(context.Context, string) (api.Reservation, error)
	Steering(context.Context) (api.Steering, error)
	Close()
}

// Doctor looks at one directory.
type Doctor struct {
	Place   api.Place
	Program string // this program's absolute path; no other program is run as a hook
	Socket  string // of the daemon to look at; "" is the one that the environment names
	// Connect returns the daemon of a socket, "" as above. It calls with an agent's token, or as the process itself.
	Connect func(socket, token string) (Gate, error)
	Caller  func(context.Context) (api.Caller, error) // whom that of Socket takes the caller for, with the token that it has
	// Reserved reports whether there is any reservation in the directory, which hooks would have to respect. Nil means
	// none.
	Reserved func(context.Context) bool
	// Config reads the daemon's configuration as the daemon does. It returns the path, "" if the caller cannot tell,
	// and why it is refused.
	Config   func() (path string, refused error)
	Settings []hook.Settings               // files of agents' settings that count here
	Home     func(socket string) hook.Home // of this user's hooks
	Env      []string                      // of the caller; see environment
	Now      func() time.Time
	Deadline time.Duration // of one trial of a git hook; settings have their own
}

// asks bounds each question to the daemon.
const asks = 5 * time.Second

// Run checks everything. It always returns a report. If other users could have written to a checkout, Run reads nothing
// of it, says so, and does the work of RunBackends.
func (d Doctor) Run(ctx context.Context) Report {
	if why := d.foreignCheckout(); why != nil {
		r := d.RunBackends(ctx)
		d.configuration(&r)
		r.weigh()
		r.add(whatCheckout, Note,
			"gated doctor read nothing of this checkout and tried no hook, because other users could have written it: %s", op.Shown(why.Detail)).
			hint("run gated doctor as its owner; or: %s", op.Shown(why.Hint))
		return r
	}
	r := &Report{Scope: d.Place.Path, Findings: []Finding{}}
	trials := append(d.gitHooks(ctx, r), d.toolHooks(ctx, r)...)
	r.asked = len(trials) > 0
	if !r.asked && d.Reserved != nil {
		ctx, cancel := context.WithTimeout(ctx, asks)
		r.hooks = d.Reserved(ctx) || r.hooks
		cancel()
	}
	groups := bySocket(trials)
	if d.daemon(ctx, r, groups) {
		d.backends(ctx, r)
	}
	d.configuration(r)
	d.failures(r, groups)
	for _, g := range groups {
		d.tryAt(ctx, r, g)
	}
	r.conclude()
	return *r
}

// RunBackends checks only the daemon's back ends.
func (d Doctor) RunBackends(ctx context.Context) Report {
	r := &Report{Scope: d.Place.Path, Findings: []Finding{}, Blind: []string{}}
	asked, cancel := context.WithTimeout(ctx, asks)
	_, where, err := d.status(asked, d.Socket)
	cancel()
	if err != nil {
		r.add(whatDaemon, Bad, wordsNoDaemon, short(err)).hint(hintNoDaemon)
	} else {
		r.Socket = where
		d.backends(ctx, r)
	}
	r.weigh()
	return *r
}

// daemon says which socket answers, and which agent it takes the caller for. It reports whether one answers.
func (d Doctor) daemon(ctx context.Context, r *Report, groups []group) bool {
	ctx, cancel := context.WithTimeout(ctx, asks)
	defer cancel()
	s, where, err := d.status(ctx, d.Socket)
	if err != nil {
		// If all hooks have sockets of their own, they do not ask this one.
		if d.Socket == "" && len(groups) > 0 && groups[0].socket != "" {
			r.add(whatDaemon, Note,
				"the socket of the environment does not answer, and the hooks here ask at %s: %s", op.Shown(groups[0].socket), short(err)).
				hint("for gated reservation and the like: export GATED_SOCKET=%s", op.ShellWords(groups[0].socket))
			return false
		}
		r.add(whatDaemon, Bad, wordsNoDaemon, short(err)).hint(hintNoDaemon)
		return false
	}
	r.Socket = where
	f := r.add(whatDaemon, OK, "answers at %s; isolation: %s", op.Shown(r.Socket), op.Shown(s.Isolation))
	if len(s.Remedies) > 0 {
		f.State = Note
		f.hint("%s", op.Shown(strings.Join(s.Remedies, "; ")))
	}
	for _, h := range s.Health {
		if !h.OK {
			r.add(whatDaemon+": "+op.Shown(h.Name), Bad, "%s", op.Shown(h.Detail))
		}
	}
	r.hub(s.Hub)
	me, err := d.Caller(ctx)
	if err != nil {
		r.add(whatCaller, Bad,
			"the daemon does not answer this caller, so no hook that starts from here can ask it: %s", short(err))
		return true
	}
	r.Caller = &me
	if me.Agent != nil {
		r.add(whatCaller, OK, "agent %s, bound to a %s", op.Shown(me.Agent.Name), op.Shown(me.Agent.Bound))
	} else {
		r.add(whatCaller, Note, "uid:%s, no agent: %s", op.Shown(me.Account()), op.Shown(me.Why)).
			hint("gated agent register NAME")
	}
	return true
}

// status asks a socket's daemon for its state and address.
func (d Doctor) status(ctx context.Context, socket string) (s api.Status, where string, err error) {
	g, err := d.Connect(socket, "")
	if err != nil {
		return s, "", err
	}
	defer g.Close()
	s, err = g.Status(ctx)
	return s, g.Where(), err
}

// configuration says whether a daemon that starts now accepts its configuration.
func (d Doctor) configuration(r *Report) {
	if d.Config == nil {
		return
	}
	path, err := d.Config()
	switch {
	case err != nil:
		why := refusal.As(err)
		r.add(whatConfig, Bad,
			"the daemon refuses it: it does not start with it, and a reload changes nothing: %s: %s", why.Code, op.Shown(why.Detail)).
			hint("%s", op.Shown(why.Hint))
	case path != "":
		r.add(whatConfig, OK, "the daemon accepts %s", op.Shown(path))
	}
}

// failures says how earlier hooks did, and whether hooks now leave out a question to one of their gates.
func (d Doctor) failures(r *Report, groups []group) {
	s := d.Home(d.Socket).Status(d.Now(), 1)
	for _, g := range groups {
		if other := d.Home(g.socket).Status(d.Now(), 0); other.Open && !s.Open {
			s.Open, s.Until = true, other.Until
		}
	}
	r.Hooks = s
	switch {
	case s.Open:
		r.add(whatFailures, Bad,
			"hooks do not ask the daemon until %s, because it did not answer several times", s.Until.Format("15:04:05Z")).
			hint(hintNoDaemon)
	case len(s.Last) > 0:
		last := s.Last[0]
		r.add(whatFailures, Note, "%d so far; the last one: %s, %s: %s", s.Failures, last.Hook,
			last.Time.UTC().Format(time.RFC3339), op.Shown(last.Detail))
	default:
		r.add(whatFailures, OK, "none")
	}
}

// gitHooks says how git's hooks are installed, and returns their trials.
func (d Doctor) gitHooks(ctx context.Context, r *Report) []trial {
	dir, err := hook.FindHooks(ctx, d.Place.Path, d.environment())
	if err != nil {
		r.add(whatGit, Note, "there is no repository here: %s", short(err))
		return nil
	}
	if why := foreignHooks(dir); why != nil {
		r.add(whatGit, Bad, wordsNotOwn, op.Shown(why.Detail)).hint("%s", op.Shown(why.Hint))
		return nil
	}
	states, err := dir.Hooks()
	left, leftErr := dir.Left()
	if err := errors.Join(err, leftErr); err != nil {
		r.add(whatGit, Bad, "%s", short(err))
		return nil
	}
	var out []trial
	for _, s := range states {
		r.hooks = r.hooks || s.There && (s.Ours || s.Edited || s.Names)
		what, path := whatGit+" "+s.Name, op.Shown(s.Path)
		dead := slices.IndexFunc(left, func(l hook.GitState) bool { return l.Name == s.Name })
		switch {
		case dead >= 0 && !s.Ours && !s.Names:
			r.add(what, Bad, "git itself does not run %s any more: core.hooksPath has it look in %s", op.Shown(left[dead].Path), op.Shown(dir.Path)).
				hint(hintMoved, s.Name)
		case !s.There:
			r.add(what, Note, "is not installed").hint(hintInstallGit)
		case s.Edited:
			r.add(what, Bad, "%s was edited after gated wrote it: not tried, because it may do anything now", path).
				hint("move the lines that are not gated's to %s.gated-chained (mode 0755), remove it, then gated hook install --git", path)
		case s.Names:
			r.add(what, Note,
				"%s is not gated's and seems to run gated hook %s: not tried, because it may do anything", path, s.Name).
				hint(hintNotOurs)
		case !s.Ours:
			r.add(what, Note, "%s is not gated's: not tried, because it may do anything", path).hint(hintNotOurs)
		case !s.Runs:
			r.add(what, Bad, "%s has no execute permission: git does not run it", path).
				hint("gated hook install --git")
		case !s.Known:
			r.add(what, Bad, "%s differs from what this gated writes, so gated doctor did not run it", path).
				hint(hintInstallGit)
		case !d.isThisProgram(s.Program):
			r.add(what, Bad, wordsOtherProgram, path, op.Shown(s.Program), op.Shown(d.Program)).
				hint(hintOtherProgram, op.ShellWords(s.Program))
		default:
			out = append(out, trial{what: what, limit: d.Deadline, setup: setupOf(s.Setup, hook.GitDeadline),
				run: d.gitTrial(s, dir.WorkTree)})
		}
	}
	return out
}

// toolHooks says how the agents' hooks are installed, and returns their trials, one for each tool that they match.
func (d Doctor) toolHooks(ctx context.Context, r *Report) []trial {
	files := d.readSettings(r)
	var out []trial
	all := map[hook.Dialect]*coverage{}
	for _, file := range files {
		r.hooks = r.hooks || len(file.Hooks) > 0
		speaks := file.Dialect()
		for _, h := range file.Hooks {
			if all[speaks] == nil {
				all[speaks] = &coverage{file: file.Path, deaf: d.deaf(r, speaks, files)}
			}
			all[speaks].add(h)
			if all[speaks].deaf == "" {
				out = append(out, d.toolTrials(r, file.Settings, h)...)
			}
		}
		if c := all[speaks]; len(file.Hooks) > 0 {
			c.files = append(c.files, file)
			if c.deaf != "" {
				r.add(whatTools, Bad, "%s does not block: %s", op.Shown(file.Path), c.deaf)
			}
		}
	}
	if len(all) == 0 {
		r.add(whatTools, Note, "none of %s asks gated", op.Shown(strings.Join(paths(d.Settings), ", "))).
			hint("gated hook install")
	}
	for _, speaks := range hook.Dialects() {
		if c := all[speaks]; c != nil {
			c.say(r, speaks)
			d.limits(ctx, r, speaks, c.files)
		}
	}
	return out
}

// readSettings reads the files of settings that the doctor may read, and says which it may not.
func (d Doctor) readSettings(r *Report) []hook.FileState {
	var out []hook.FileState
	for _, file := range d.Settings {
		worst := Bad
		if file.Switches {
			worst = Note // it has no hook
		}
		if why := foreign(file.Path); why != nil {
			r.add(whatTools, worst, wordsNotOwn, op.Shown(why.Detail)).hint("%s", op.Shown(why.Hint))
			continue
		}
		s, err := file.State()
		if err != nil {
			r.add(whatTools, worst, "%s cannot be read: %s", op.Shown(file.Path), short(err))
			continue
		}
		out = append(out, hook.FileState{Settings: file, SettingsState: s})
	}
	for _, speaks := range hook.Dialects() {
		asks := slices.ContainsFunc(out, func(f hook.FileState) bool { return f.Dialect() == speaks && len(f.Hooks) > 0 })
		if path, member := hook.SwitchedOff(speaks, out); member != "" && asks {
			r.add(whatTools, Bad, "%s has %s: the agent runs no hook", op.Shown(path), member).hint("take it out")
		}
	}
	return out
}

// deaf says why a product runs none of its hooks here; empty if nothing is known. It adds what the doctor found of the
// product's trust.
func (d Doctor) deaf(r *Report, speaks hook.Dialect, files []hook.FileState) string {
	if path, member := hook.SwitchedOff(speaks, files); member != "" {
		return op.Shown(path) + " has " + member
	}
	if _, ok := speaks.(hook.Gemini); ok && !d.geminiTrusts(r) {
		return "Gemini CLI does not trust this directory"
	}
	return ""
}

// paths returns the files of settings.
func paths(list []hook.Settings) []string {
	var out []string
	for _, s := range list {
		if !s.Switches {
			out = append(out, s.Path)
		}
	}
	return out
}

// coverage is what the hooks of one product are asked about.
type coverage struct {
	file            string
	files           []hook.FileState
	deaf            string // why the product runs none of its hooks
	asked, matchers []string
	steers          bool // one of them steers
}

func (c *coverage) add(h hook.ToolState) {
	c.matchers = append(c.matchers, fmt.Sprintf("%q", h.Matcher))
	if h.Lame == "" {
		c.asked = append(append(c.asked, h.Tools...), h.Shells...)
	}
	c.steers = c.steers || h.Setup.Steers()
}

// say says which tools of a product no hook is asked about.
func (c *coverage) say(r *Report, d hook.Dialect) {
	var missed []string
	tools := hook.ToolsOf(d)
	if c.steers {
		tools = append(tools, hook.ShellsOf(d)...)
	}
	for _, tool := range tools {
		if !slices.Contains(c.asked, tool) && !slices.Contains(missed, tool) {
			missed = append(missed, tool)
		}
	}
	if len(missed) > 0 {
		r.add(whatTools, Bad, "no hook of %s is asked about %s (matcher %s)", d.Product(), strings.Join(missed, ", "),
			strings.Join(c.matchers, ", ")).hint("%s", reinstall(hook.Settings{Path: c.file, For: d}))
	}
}

// reinstall returns the command that installs a product's hook in a file again.
func reinstall(s hook.Settings) string {
	return fmt.Sprintf(hintReinstall, s.Dialect().Name(), op.ShellWords(s.Path))
}

// toolTrials returns a trial for each tool of one entry of an agent's settings, or says why it is not tried.
func (d Doctor) toolTrials(r *Report, file hook.Settings, h hook.ToolState) []trial {
	path := op.Shown(file.Path)
	switch {
	case h.Lame != "":
		r.add(whatTools, Bad, "%s: %s", path, h.Lame).hint("%s", reinstall(file))
		return nil
	case !h.Known:
		r.add(whatTools, Bad, "%s has a line that gated hook install does not write, so gated doctor did not run it: %s",
			path, op.Shown(h.Command)).hint("%s", reinstall(file))
		return nil
	case !d.isThisProgram(h.Program):
		r.add(whatTools, Bad, wordsOtherProgram, path, op.Shown(h.Program), op.Shown(d.Program)).
			hint(hintOtherProgram, op.ShellWords(h.Program))
		return nil
	}
	var out []trial
	for _, tool := range h.Tools {
		out = append(out, trial{what: path + " " + tool, limit: toolLimit(h), setup: setupOf(h.Setup, hook.ToolDeadline),
			run: d.toolTrial(h.Setup, tool)})
	}
	for _, tool := range h.Shells {
		out = append(out, trial{what: path + " " + tool + whatSteering, limit: toolLimit(h), steers: true,
			setup: setupOf(h.Setup, hook.ToolDeadline), run: d.shellTrial(h.Setup, tool)})
	}
	return out
}

// short returns an error's text on one line.
func short(err error) string {
	text := op.Shown(err.Error())
	if !utf8.ValidString(text) || len(text) > 400 {
		text = strings.ToValidUTF8(text[:min(len(text), 400)], "")
	}
	return text
}
