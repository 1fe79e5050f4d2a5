package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/strictyaml"
	"gated/internal/people/policy"
)

// tightened begins with the built-in rules. Their values are the bounds, so that a looser value is refused at its line.
func tightened(file string, m strictyaml.Value) policy.Policy {
	p := policy.Default()
	p.MaxValidity = m.Get("max_validity").Duration(p.MaxValidity, time.Second, p.MaxValidity)
	p.ScratchMaxAge = m.Get("scratch_max_age").Duration(p.ScratchMaxAge, 0, p.ScratchMaxAge)
	if v := m.Get("open_requests_per_source"); v.Present() {
		p.OpenPerSource = int(v.Int(1, int64(p.OpenPerSource)))
	}
	p.RejectHolds = m.Get("reject_holds").Duration(p.RejectHolds, 0, policy.MaxRejectHolds)
	p.Roles = roles(m.Get("roles"))
	rules := m.Get("rules").List()
	for _, v := range rules {
		line, _ := v.At()
		p.Rules = append(p.Rules, asked(v.Named("the rule"), p.MaxValidity, fmt.Sprintf("%s:%d", filepath.Base(file), line)))
	}
	if v := m.Get("break_glass"); v.Present() {
		p.BreakGlass = breakGlass(v, p.MaxValidity, filepath.Base(file))
	}
	if !m.Sound() {
		return p
	}
	if f := p.Fault(); f != nil {
		at := rules[f.Rule]
		if key := at.Get(f.Key); key.Present() {
			at = key
		}
		at.Fail("%s", f.Why)
	}
	if f := p.BreakGlass.Fault(p); f != nil {
		m.Get("break_glass").Get(f.Key).Fail("%s", f.Why)
	}
	return p
}

// breakGlass reads the way without operators. Each key has to be there, because no value suits every gate.
func breakGlass(m strictyaml.Value, longest time.Duration, file string) *policy.BreakGlass {
	line, _ := m.At()
	b := &policy.BreakGlass{Where: fmt.Sprintf("%s:%d", file, line),
		Threshold: int(m.Need("threshold").Int(1, policy.MaxThreshold)),
		Delay:     m.Need("delay").Duration(0, policy.MinDelay, longest),
		AtMost:    int(m.Need("at_most").Int(1, policy.MaxIncidents))}
	for _, e := range m.Need("ops").List() {
		b.Ops = append(b.Ops, said(e))
	}
	return b
}

// roles reads the names of this gate's own roles.
func roles(v strictyaml.Value) []op.Role {
	var out []op.Role
	for _, e := range v.List() {
		role := op.Role(e.Text())
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

// asked reads one rule, with its bounds and every check that needs no other rule.
func asked(m strictyaml.Value, longest time.Duration, where string) policy.Rule {
	r := policy.Rule{
		Where:       where,
		Op:          said(m.Get("op")),
		Target:      said(m.Get("target")),
		Role:        op.Role(said(m.Get("role"))),
		Threshold:   1,
		CoolOff:     m.Get("cool_off").Duration(0, time.Second, longest),
		MaxValidity: m.Get("max_validity").Duration(0, time.Second, longest),
	}
	if v := m.Get("signed"); v.Present() {
		r.Signed = signed(v)
	}
	if m.Get("threshold").Present() || !m.Get("signed").Present() {
		r.Threshold = int(m.Need("threshold").Int(1, policy.MaxThreshold))
	}
	if v := m.Get("touch"); v.Present() {
		if s := v.OneOf("none", string(op.TouchPresent), string(op.TouchVerified)); s != "none" {
			r.Touch = op.Touch(s)
		}
	}
	if v := m.Get("batch"); v.Present() {
		r.Single = v.OneOf("allow", "refuse") == "refuse"
	}
	if v := m.Get("passkeys"); v.Present() {
		r.NoPasskey = v.OneOf("allow", "refuse") == "refuse"
	}
	r.Apart = m.Get("not_requester").Present() && m.Get("not_requester").Bool()
	if v := m.Get("window"); v.Present() {
		w, err := op.ParseWindow(v.Text())
		if err != nil {
			v.Fail("%s", refusal.As(err).Detail)
		}
		r.Window = &w
	}
	if v := m.Get("labels"); v.Present() {
		r.Labels = map[string]string{}
		for k, e := range v.Each() {
			r.Labels[k] = said(e)
		}
		if len(r.Labels) == 0 {
			v.Fail("labels is empty; leave it out to look at none")
		}
	}
	return r
}

// signed reads the patterns of the operations that a rule wants signed.
func signed(v strictyaml.Value) []string {
	var out []string
	for _, e := range v.List() {
		out = append(out, said(e))
	}
	if len(out) == 0 {
		v.Fail("signed is empty; leave it out to name no operation")
	}
	return out
}

// said reads a text that is not empty, because an empty one would look as if it matched nothing.
func said(v strictyaml.Value) string {
	s := v.Text()
	if v.Present() && s == "" {
		v.Fail("an empty text; leave the key out")
	}
	return s
}
