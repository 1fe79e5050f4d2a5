package config

import (
	"sort"
	"strconv"
	"time"

	"gated/internal/driver/command/catalogue"
	"gated/internal/op"
	"gated/internal/strictyaml"
)

// entries reads the catalogue of commands; nil where there is none.
func entries(m *strictyaml.Map) map[string]catalogue.Entry {
	var out map[string]catalogue.Entry
	for _, name := range m.Keys() {
		v := m.Get(name).Named("command " + name)
		if op.CheckName(name) != nil {
			v.Fail("%q is not a command's name ([A-Za-z0-9][A-Za-z0-9._-]{0,127})", name)
		}
		if out == nil {
			out = map[string]catalogue.Entry{}
		}
		out[name] = entry(v.Map())
	}
	return out
}

func entry(m *strictyaml.Map) catalogue.Entry {
	argv, probe := m.Need("argv"), m.Get("probe")
	e := catalogue.Entry{
		Argv:         words(argv),
		Probe:        words(probe),
		Dir:          path(m.Get("dir")),
		Env:          environment(m.Map("env")),
		User:         accountOrNumber(m.Get("user")),
		Timeout:      duration(m.Get("timeout"), catalogue.DefaultTimeout, catalogue.MinTimeout, catalogue.MaxTimeout),
		ProbeTimeout: duration(m.Get("probe_timeout"), catalogue.DefaultProbeTimeout, time.Second, catalogue.MaxProbeTimeout),
		Output:       catalogue.MaxOutput,
		Benign:       m.Bool("benign"),
		Params:       params(m.Map("params")),
	}
	if m.Has("output") {
		e.Output = int(m.Int("output", catalogue.MinOutput, catalogue.MaxOutput))
	}
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

// words reads a template; of nothing it is nil.
func words(v strictyaml.Value) []string {
	var out []string
	for _, e := range v.List() {
		out = append(out, e.Named("a word").String())
	}
	if v.IsList() && len(out) == 0 {
		v.Fail("the list is empty")
	}
	return out
}

func environment(m *strictyaml.Map) map[string]string {
	out := map[string]string{}
	for _, k := range m.Keys() {
		v := m.Get(k).Named("variable " + k)
		if !variable(k) {
			v.Fail("%q is not a variable's name ([A-Za-z_][A-Za-z0-9_]*)", k)
		}
		out[k] = v.String()
	}
	return out
}

func accountOrNumber(v strictyaml.Value) string {
	if v.IsInt() {
		return strconv.FormatInt(v.Int(0, 1<<32-2), 10)
	}
	return account(v)
}

func params(m *strictyaml.Map) map[string]catalogue.Param {
	out := map[string]catalogue.Param{}
	for _, name := range m.Keys() {
		v := m.Get(name).Named("parameter " + name)
		if why := catalogue.CheckParamName(name); why != "" {
			v.Fail("%s", why)
		}
		out[name] = param(v.Map())
	}
	if len(out) > op.MaxParams {
		m.Fail("there are %d parameters, more than %d", len(out), op.MaxParams)
	}
	return out
}

// param reads what its type has a word for; any other key is unknown.
func param(m *strictyaml.Map) catalogue.Param {
	kind := m.Need("type")
	p := catalogue.Param{Type: catalogue.Type(kind.String())}
	switch p.Type {
	case catalogue.String:
		p.Pattern, p.Max = m.Need("pattern").String(), catalogue.DefaultLength
		if m.Has("max") {
			p.Max = m.Int("max", 1, catalogue.MaxLength)
		}
	case catalogue.Integer:
		p.Min = m.Need("min").Int(-op.MaxInt, op.MaxInt)
		p.Max = m.Need("max").Int(-op.MaxInt, op.MaxInt)
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

// harmless names the commands of the catalogue that lose nothing.
func harmless(entries map[string]catalogue.Entry) []string {
	var out []string
	for name, e := range entries {
		if e.Benign {
			out = append(out, name)
		}
	}
	sort.Strings(out)
	return out
}
