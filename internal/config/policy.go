package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"gated/internal/op"
	"gated/internal/policy"
	"gated/internal/strictyaml"
)

// tightened starts from the built-in rules; the bounds are the rules
// themselves, so that a looser value is refused at its line.
func tightened(file string, m *strictyaml.Map) policy.Policy {
	p := policy.Default()
	p.MaxValidity = atMost(m.Get("max_validity"), p.MaxValidity, time.Second)
	p.ScratchMaxAge = atMost(m.Get("scratch_max_age"), p.ScratchMaxAge, 0)
	if v := m.Get("open_requests_per_source"); v.Present() {
		n := int(v.Int(1, 1<<31-1))
		if n > p.OpenPerSource {
			v.Fail("open_requests_per_source is %d, and the built-in rule is at most %d; it can only be tightened", n, p.OpenPerSource)
		}
		p.OpenPerSource = n
	}
	p.Roles = roles(m.Get("roles"))
	longest := p.MaxValidity
	if !m.Sound() {
		longest = policy.MaxValidity // the error is said already, and rules may stand before it
	}
	var places []*strictyaml.Map
	for _, v := range m.List("rules") {
		rule := v.Named("the rule").Map()
		line, _ := v.At()
		places = append(places, rule)
		p.Rules = append(p.Rules, asked(rule, longest, fmt.Sprintf("%s:%d", filepath.Base(file), line)))
	}
	if !m.Sound() {
		return p
	}
	if f := p.Fault(); f != nil {
		if at := places[f.Rule].Get(f.Key); at.Present() {
			at.Fail("%s", f.Why)
		} else {
			places[f.Rule].Fail("%s", f.Why)
		}
	}
	return p
}

// roles reads the names of the roles that this gate has beside the built-in
// ones.
func roles(v strictyaml.Value) []op.Role {
	var out []op.Role
	for _, e := range v.List() {
		e = e.Named("a role")
		role := op.Role(e.String())
		switch {
		case !role.Valid():
			e.Fail("%q is not a role's name ([a-z][a-z0-9-]{0,31})", string(role))
		case role.BuiltIn():
			e.Fail("the role %s is built in", role)
		case slices.Contains(out, role):
			e.Fail("the role %s is there twice", role)
		}
		out = append(out, role)
	}
	return out
}

// asked reads one rule, bounds and all that needs no look at other rules.
func asked(m *strictyaml.Map, longest time.Duration, where string) policy.Rule {
	r := policy.Rule{
		Where:     where,
		Op:        said(m.Get("op")),
		Target:    said(m.Get("target")),
		Role:      op.Role(said(m.Get("role"))),
		Threshold: int(m.Need("threshold").Int(1, policy.MaxThreshold)),
		Touch:     touch(m.Get("touch")),
		CoolOff:   duration(m.Get("cool_off"), 0, time.Second, longest),
		Window:    window(m.Get("window")),
	}
	if v := m.Get("max_validity"); v.Present() {
		r.MaxValidity = duration(v, 0, time.Second, policy.MaxValidity)
		if r.MaxValidity > longest {
			v.Fail("%s is longer than the policy's max_validity, %s; it can only be tightened", short(r.MaxValidity), short(longest))
		}
	}
	if v := m.Get("labels"); v.Present() {
		observed := v.Map()
		r.Labels = map[string]string{}
		for _, k := range observed.Keys() {
			r.Labels[k] = said(observed.Get(k).Named("the label " + k))
		}
		if len(r.Labels) == 0 {
			v.Fail("labels is empty; leave it out to look at none")
		}
	}
	return r
}

// said reads a text that is not empty, which would look as if it matched
// nothing.
func said(v strictyaml.Value) string {
	s := v.String()
	if v.Present() && s == "" {
		v.Fail("an empty text; leave the key out")
	}
	return s
}

func touch(v strictyaml.Value) op.Touch {
	s := v.String()
	if t := op.Touch(s); s != "" && t.Valid() {
		return t
	}
	if v.Present() && s != "none" {
		v.Fail("%q is none of none, touch and verification", s)
	}
	return op.TouchNone
}

func window(v strictyaml.Value) *op.Window {
	if !v.Present() {
		return nil
	}
	w, err := op.ParseWindow(v.String())
	if err != nil {
		v.Fail("%s", op.AsRefusal(err).Detail)
	}
	return &w
}
