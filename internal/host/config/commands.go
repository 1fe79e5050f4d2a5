package config

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"gated/internal/agents/steer"
	"gated/internal/base/op"
	"gated/internal/base/strictyaml"
	"gated/internal/driver/command/catalogue"
)

// program reads the program of a guest, with its arguments.
func program(v strictyaml.Value) []string {
	argv := words(v)
	if len(argv) > 0 && (!filepath.IsAbs(argv[0]) || filepath.Clean(argv[0]) != argv[0]) {
		v.List()[0].Fail("the program %q is not an absolute path without . and .. and double slashes", argv[0])
	}
	return argv
}

// patterns reads patterns over guests' names. An empty list would match no guest.
func patterns(v strictyaml.Value) []string {
	out := words(v)
	for i, s := range out {
		if op.CheckName(strings.NewReplacer("*", "x", "?", "x").Replace(s)) != nil {
			v.List()[i].Fail("%q is not a pattern over guests' names: tmp-*, db?", s)
		}
	}
	return out
}

// words reads a list of texts that is not empty; an absent one is nil.
func words(v strictyaml.Value) []string {
	var out []string
	for _, e := range v.List() {
		out = append(out, e.Text())
	}
	if v.IsList() && len(out) == 0 {
		v.Fail("the list is empty")
	}
	return out
}

var variable = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
})

func environment(v strictyaml.Value) map[string]string {
	out := map[string]string{}
	for k, e := range v.Each() {
		if !variable().MatchString(k) {
			e.Fail("%q is not a variable's name ([A-Za-z_][A-Za-z0-9_]*)", k)
		}
		out[k] = e.Text()
	}
	return out
}

// entries reads the catalogue of commands; nil if there is none.
func entries(m strictyaml.Value) (out map[string]catalogue.Entry) {
	patterns := 0
	for k, v := range m.Each() {
		checkName(v, k)
		if out == nil {
			out = map[string]catalogue.Entry{}
		}
		out[k] = entry(v)
		if patterns += len(out[k].InsteadOf); patterns > steer.MaxPatterns {
			v.Fail("all entries together have more than %d patterns in instead_of", steer.MaxPatterns)
		}
	}
	return out
}

// insteadOf reads the shell's commands for which an entry stands.
func insteadOf(v strictyaml.Value, params map[string]catalogue.Param) []steer.Pattern {
	var out []steer.Pattern
	for i, text := range words(v) {
		p, err := steer.ParsePattern(text)
		if err != nil {
			v.List()[i].Fail("%q is no pattern over commands: %v", op.Shown(text), err)
		}
		for _, hole := range p.Holes() {
			if _, declared := params[hole]; !declared {
				v.List()[i].Fail("there is no parameter %s, for {%s}", hole, hole)
			}
		}
		out = append(out, p)
	}
	return out
}

func entry(m strictyaml.Value) catalogue.Entry {
	argv, probe := m.Need("argv"), m.Get("probe")
	e := catalogue.Entry{
		Argv:         words(argv),
		Probe:        words(probe),
		Env:          environment(m.Get("env")),
		Timeout:      m.Get("timeout").Duration(catalogue.DefaultTimeout, catalogue.MinTimeout, catalogue.MaxTimeout),
		ProbeTimeout: m.Get("probe_timeout").Duration(catalogue.DefaultProbeTimeout, time.Second, catalogue.MaxProbeTimeout),
		Output:       catalogue.MaxOutput,
		Benign:       m.Get("benign").Bool(),
		Params:       params(m.Get("params")),
	}
	e.InsteadOf = insteadOf(m.Get("instead_of"), e.Params)
	if v := m.Get("dir"); v.Present() {
		e.Dir = path(v)
	}
	if v := m.Get("user"); v.Present() {
		e.User = account(v)
	}
	if v := m.Get("output"); v.Present() {
		e.Output = int(v.Int(catalogue.MinOutput, catalogue.MaxOutput))
	}
	probing(m, &e)
	fault, inProbe := e.Check()
	if fault == nil || !m.Sound() {
		return e
	}
	at := argv
	if inProbe {
		at = probe
	}
	if list := at.List(); fault.Word >= 0 && fault.Word < len(list) {
		at = list[fault.Word]
	}
	at.Fail("%s", fault.Why)
	return e
}

// probing reads what an entry makes of its probe beside showing it.
func probing(m strictyaml.Value, e *catalogue.Entry) {
	ok, input := m.Get("probe_ok"), m.Get("input")
	for _, v := range ok.List() {
		status := int(v.Int(0, catalogue.MaxStatus))
		if slices.Contains(e.ProbeOK, status) {
			v.Fail("the exit status %d is there twice", status)
		}
		e.ProbeOK = append(e.ProbeOK, status)
	}
	if ok.IsList() && len(e.ProbeOK) == 0 {
		ok.Fail("the list is empty")
	}
	e.Input = input.Present() && input.OneOf("probe") != ""
	benignIf := m.Get("benign_if")
	if benignIf.Present() {
		benignIf.Need("probe_exit").Int(0, 0)
		e.BenignIf = true
		if e.ProbeOK == nil {
			e.ProbeOK = []int{0, 1} // 1 is for a run that has to be signed; what else there is means that the probe failed
		}
		if e.Benign {
			benignIf.Fail("the entry is benign whatever its probe says")
		}
	}
	for name, v := range map[string]strictyaml.Value{"probe_ok": ok, "input": input, "benign_if": benignIf} {
		if v.Present() && e.Probe == nil {
			v.Fail("%s is about the probe, and there is none", name)
		}
	}
}

func params(m strictyaml.Value) map[string]catalogue.Param {
	out := map[string]catalogue.Param{}
	for k, v := range m.Each() {
		if why := catalogue.CheckParamName(k); why != "" {
			v.Fail("%s", why)
		}
		out[k] = param(v)
	}
	if len(out) > op.MaxParams {
		m.Fail("there are %d parameters, more than %d", len(out), op.MaxParams)
	}
	return out
}

// param reads the keys of its type; any other key is unknown.
func param(m strictyaml.Value) catalogue.Param {
	kind := m.Need("type")
	p := catalogue.Param{Type: catalogue.Type(kind.Text())}
	switch p.Type {
	case catalogue.String:
		p.Pattern, p.Max = m.Need("pattern").Text(), catalogue.DefaultLength
		if v := m.Get("max"); v.Present() {
			p.Max = v.Int(1, catalogue.MaxLength)
		}
	case catalogue.Integer:
		p.Min, p.Max = m.Need("min").Int(-op.MaxInt, op.MaxInt), m.Need("max").Int(-op.MaxInt, op.MaxInt)
	case catalogue.Enum:
		p.Values = words(m.Need("values"))
	case catalogue.Path:
		p.Below = path(m.Need("below"))
	}
	if why := p.Check(); why != "" && m.Sound() {
		kind.Fail("%s", why)
	}
	return p
}

// allowed returns for the policy: the commands that guests may run, sorted; the patterns of those that are not for all
// guests; the commands that lose nothing, sorted; and those whose probe may say so, sorted.
func (c Config) allowed() (names []string, guests map[string][]string, benign, benignIf []string) {
	names = []string{}
	for k, command := range c.Local.Commands {
		names = append(names, k)
		if len(command.Guests) > 0 {
			if guests == nil {
				guests = map[string][]string{}
			}
			guests[k] = command.Guests
		}
	}
	for k, e := range c.Commands {
		if e.Benign {
			benign = append(benign, k)
		}
		if e.BenignIf {
			benignIf = append(benignIf, k)
		}
	}
	slices.Sort(names)
	slices.Sort(benign)
	slices.Sort(benignIf)
	return names, guests, benign, benignIf
}
