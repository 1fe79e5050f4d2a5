package op

import (
	"fmt"
	"sort"
	"strings"

	"gated/internal/base/refusal"
	"gated/internal/base/spelling"
)

// MaxParams bounds the parameters of a step whose target names them.
const MaxParams = 32

// MaxLines bounds the lines of a parameter of type TLines. The gate parses a
// rotation's lines at each look at its request.
const MaxLines = 64

// maxLinesText bounds the bytes of these lines, because a larger payload could not
// be signed.
const maxLinesText = MaxPayload / 2

// operatorOnly has the names that only the operator's configuration may set for a
// guest. As a parameter, each is NotAllowed rather than BadParams.
var operatorOnly = map[string]bool{"environment": true, "env": true, "user": true, "argv": true, "mounts": true,
	"mount": true, "disk": true, "disks": true, "path": true}

// Check refuses parameters that do not fit. An unknown or missing parameter, a wrong
// type or range is BadParams. A name that only the operator's configuration may set
// is NotAllowed. A bad target name, and text that a terminal would not show as it
// is, are Malformed. Labels beyond MaxLabels are Oversized.
func (s Spec) Check(t Target, p Params) error {
	if t.Kind != s.Kind {
		return refusal.New(refusal.BadParams, "%s acts on a %s, not on %q", s.Name, s.Kind, t.String())
	}
	// The name of a target that was not parsed is not checked yet.
	if err := CheckName(t.Name); err != nil {
		return err
	}
	if t.Kind == KindTrust && t != Signers {
		return refusal.New(refusal.BadParams, "%s acts on %s alone, not on %s", s.Name, Signers, t)
	}
	if s.Free {
		return s.checkFree(p)
	}
	for _, name := range sortedKeys(p) {
		d, ok := s.Param(name)
		switch {
		case ok:
			if err := d.check(s.Name, p[name]); err != nil {
				return err
			}
		case operatorOnly[name]:
			return refusal.New(refusal.NotAllowed, "%s: %q is for the operator's configuration alone", s.Name, name).
				WithHint("name an entry of local.commands with command")
		default:
			return s.noParam(name)
		}
	}
	for _, d := range s.Params {
		if d.Required && !p.Has(d.Name) {
			return refusal.New(refusal.BadParams, "%s needs the parameter %q", s.Name, d.Name)
		}
	}
	return nil
}

// noParam refuses, with BadParams, a parameter that the operation does not have. It says which is spelt almost so.
func (s Spec) noParam(name string) error {
	r := refusal.New(refusal.BadParams, "%s has no parameter %q", s.Name, name)
	names := make([]string, len(s.Params))
	for i, d := range s.Params {
		names[i] = d.Name
	}
	switch meant, ok := spelling.Nearest(name, names); {
	case ok:
		return r.WithHint("is %s meant? gated ops lists the parameters", meant)
	case len(names) == 0:
		return r.WithHint("it has none")
	}
	return r.WithHint("it has %s; gated ops says more", strings.Join(names, ", "))
}

// checkFree checks what does not depend on the target: names, and text that a
// terminal shows as it is. The driver checks the rest.
func (s Spec) checkFree(p Params) error {
	if len(p) > MaxParams {
		return refusal.New(refusal.BadParams, "%s has %d parameters, more than %d", s.Name, len(p), MaxParams)
	}
	for _, name := range sortedKeys(p) {
		if CheckName(name) != nil {
			return refusal.New(refusal.BadParams, "%s: %q is not the name of a parameter", s.Name, Shown(name))
		}
		str, ok := p[name].(string)
		if !ok {
			return refusal.New(refusal.BadParams, "%s: %s is not a string", s.Name, name).
				WithHint("numbers are written as text too: \"42\"")
		}
		if err := CheckText(s.Name+": "+name, str); err != nil {
			return err
		}
	}
	return nil
}

func (d Param) check(op string, v any) error {
	bad := func(why string) error { return refusal.New(refusal.BadParams, "%s: %s %s", op, d.Name, why) }
	switch d.Type {
	case TString:
		str, ok := v.(string)
		if !ok {
			return bad("is not a string")
		}
		return d.checkString(op, str, bad)
	case TInt:
		if n, ok := v.(int64); !ok {
			return bad("is not an integer")
		} else if n < d.Min || n > d.Max {
			return bad(strings.TrimSpace(fmt.Sprintf("is %d, outside %d to %d %s", n, d.Min, d.Max, d.Unit)))
		}
	case TBool:
		if _, ok := v.(bool); !ok {
			return bad("is not true or false")
		}
	case TLabels:
		m, ok := v.(map[string]any)
		if !ok {
			return bad("is not an object of strings")
		}
		size := 0
		for k, e := range m {
			str, ok := e.(string)
			if !ok || CheckName(k) != nil {
				return bad("is not an object of names and strings")
			}
			if err := CheckText(op+": the label "+k, str); err != nil {
				return err
			}
			size += len(k) + len(str)
		}
		if size > MaxLabels {
			return refusal.New(refusal.Oversized, "%s: %s have %d bytes of text, more than %d", op, d.Name, size, MaxLabels)
		}
	case TLines:
		return checkLines(op+": "+d.Name, v, bad)
	}
	return nil
}

// checkString checks a text by the meaning of its parameter.
func (d Param) checkString(op, str string, bad func(string) error) error {
	if err := CheckText(op+": "+d.Name, str); err != nil {
		return err
	}
	switch d.Name {
	case "reservation":
		if _, err := ParseReservationID(str); err != nil {
			return bad("is not the id of a reservation like r12")
		}
	case "snapshot", "command", "to", "template", "from", "disk", "backup":
		// An empty command means a guest without a process.
		if d.Name == "command" && str == "" {
			return nil
		}
		if CheckName(str) != nil {
			return bad("is not a name ([A-Za-z0-9][A-Za-z0-9._-]{0,127})")
		}
		if op == "guest.snapshot" && strings.EqualFold(str, "none") {
			return bad("is what people read where a guest has no snapshot: choose another name")
		}
	case "state":
		if str != "running" && str != "stopped" {
			return bad("is neither running nor stopped")
		}
	}
	return nil
}

func checkLines(what string, v any, bad func(string) error) error {
	list, ok := v.([]any)
	if !ok {
		return bad("is not an array of strings")
	}
	if len(list) > MaxLines {
		return bad(fmt.Sprintf("has %d lines, more than %d", len(list), MaxLines))
	}
	seen, size := map[string]bool{}, 0
	for _, e := range list {
		line, ok := e.(string)
		if !ok || line == "" {
			return bad("is not an array of strings with something in them")
		}
		if seen[line] {
			return bad("has a line twice")
		}
		seen[line] = true
		if size += len(line); size > maxLinesText {
			return refusal.New(refusal.Oversized, "%s has more than %d bytes", what, maxLinesText)
		}
		if err := CheckText(what, line); err != nil {
			return err
		}
	}
	return nil
}

func sortedKeys(p Params) []string {
	keys := make([]string, 0, len(p))
	for k := range p {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
