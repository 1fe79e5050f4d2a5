// Package catalogue is the operator's configuration of commands: which program runs with which
// words, and which values a caller may give. It only has values and text, and does not look at
// the machine.
package catalogue

import (
	"time"

	"gated/internal/base/op"
)

// The bounds and defaults of an entry.
const (
	DefaultTimeout      = 10 * time.Minute
	MinTimeout          = time.Second
	MaxTimeout          = 50 * time.Minute // less than the time that reconcile gives a step
	DefaultProbeTimeout = 10 * time.Second
	MaxProbeTimeout     = time.Minute
	MinOutput           = 256 // bytes
	MaxOutput           = 64 << 10
	DefaultLength       = 256 // bytes of a string
	MaxLength           = 4096
	MaxWords            = 256 // of a template
	MaxValues           = 256 // of an enum
)

// Entry is one command of the catalogue.
type Entry struct {
	Argv  []string // a template; the first word is an absolute path
	Probe []string // the template of the probe, which looks first; nil means no probe
	Dir   string   // an absolute path; empty means /
	Env   map[string]string
	User  string // a name or a number; empty means the daemon's own

	Timeout      time.Duration
	ProbeTimeout time.Duration
	Output       int // the most bytes of its output that gated keeps

	Benign bool // it loses nothing, with any parameters
	Params map[string]Param
}

// Fault says what is wrong with an entry, and with which word of a template.
type Fault struct {
	Word int // from 0; -1 if no single word is wrong
	Why  string
}

// Error returns the reason.
func (f *Fault) Error() string { return f.Why }

// Check returns nil, or the first Fault in an entry's templates. The Fault is in Argv, or in
// Probe if probe is true.
func (e Entry) Check() (fault *Fault, probe bool) {
	if f := e.check(e.Argv); f != nil {
		return f, false
	}
	used := map[string]bool{}
	for _, name := range placeholders(e.Argv) {
		used[name] = true
	}
	for _, name := range sorted(e.Params) {
		if !used[name] {
			return &Fault{-1, "the parameter " + name + " is in no word of argv"}, false
		}
	}
	if e.Probe == nil {
		return nil, false
	}
	return e.check(e.Probe), true
}

func (e Entry) check(words []string) *Fault {
	if f := checkTemplate(words); f != nil {
		return f
	}
	for i, word := range words {
		parts, _ := split(word)
		for _, p := range parts {
			if _, declared := e.Params[p.text]; p.placeholder && !declared {
				return &Fault{i, "there is no parameter " + p.text + "; a brace that is meant as one is doubled: {{"}
			}
		}
	}
	return nil
}

// Text returns the entry as parameters, with every member, so that a digest of their canonical
// form covers the whole entry.
func (e Entry) Text() op.Params {
	env, params := map[string]any{}, map[string]any{}
	for k, v := range e.Env {
		env[k] = v
	}
	for k, p := range e.Params {
		params[k] = map[string]any{"type": string(p.Type), "pattern": p.Pattern, "min": p.Min, "max": p.Max,
			"values": list(p.Values), "below": p.Below}
	}
	return op.Params{"argv": list(e.Argv), "probe": list(e.Probe), "dir": e.Dir, "env": env, "user": e.User,
		"timeout": int64(e.Timeout / time.Millisecond), "probe_timeout": int64(e.ProbeTimeout / time.Millisecond),
		"output": int64(e.Output), "benign": e.Benign, "params": params}
}

func list(words []string) []any {
	out := make([]any, len(words))
	for i, w := range words {
		out[i] = w
	}
	return out
}
