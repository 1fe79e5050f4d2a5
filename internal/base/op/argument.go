package op

import (
	"strconv"
	"strings"

	"gated/internal/base/refusal"
)

// mebibytes are the units in which a parameter of unit MiB may be written on a
// command line.
var mebibytes = map[string]int64{"MiB": 1, "GiB": 1 << 10, "TiB": 1 << 20}

// ParseArgs reads parameters as they are typed on a command line, "name=value",
// each value by its type in the catalogue:
//
//	memory=512   memory=2GiB   protected=true   command=web
//	labels.tier=prod           labels={"tier":"prod"}
//	remove=SHA256:…            and again for each further line
//
// Labels given one by one are joined with those of an object. A name that the
// catalogue does not know stays a string, and the gate refuses it. A value of
// another type, a repeated name and an argument without "=" are BadParams. Text that
// a terminal would not show as it is, is Malformed. Check checks the ranges.
func (s Spec) ParseArgs(args []string) (Params, error) {
	p := Params{}
	for _, arg := range args {
		if err := CheckText("a parameter", arg); err != nil {
			return nil, err // such text could not be sent either
		}
		name, text, ok := strings.Cut(arg, "=")
		if !ok || name == "" {
			return nil, refusal.New(refusal.BadParams, "%q is not name=value", arg)
		}
		outer, label, isLabel := strings.Cut(name, ".")
		d, known := s.Param(name)
		if l, ok := s.Param(outer); isLabel && ok && l.Type == TLabels {
			if err := p.addLabel(outer, label, text); err != nil {
				return nil, err
			}
			continue
		}
		if p.Has(name) && !(known && (d.Type == TLabels || d.Type == TLines)) {
			return nil, refusal.New(refusal.BadParams, "%s is given twice", name)
		}
		if !known {
			p[name] = text
			continue
		}
		if err := p.addArg(d, text); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// addArg puts the text of one known parameter into p.
func (p Params) addArg(d Param, text string) error {
	switch d.Type {
	case TInt:
		n, err := d.number(text)
		if err != nil {
			return err
		}
		p[d.Name] = n
	case TBool:
		if text != "true" && text != "false" {
			return refusal.New(refusal.BadParams, "%s is %q, neither true nor false", d.Name, text)
		}
		p[d.Name] = text == "true"
	case TLabels:
		given, err := ParseParams([]byte(text))
		if err != nil {
			return refusal.New(refusal.BadParams, "%s is not a JSON object of strings", d.Name).
				WithHint(`write %s.KEY=VALUE, or %s='{"KEY":"VALUE"}'`, d.Name, d.Name)
		}
		if !p.Has(d.Name) {
			p[d.Name] = map[string]any{}
		}
		for _, k := range sortedKeys(given) {
			v, ok := given[k].(string)
			if !ok {
				return refusal.New(refusal.BadParams, "the value of %s.%s is not a string", d.Name, k)
			}
			if err := p.addLabel(d.Name, k, v); err != nil {
				return err
			}
		}
	case TLines:
		list, _ := p[d.Name].([]any)
		p[d.Name] = append(list, text)
	default:
		p[d.Name] = text
	}
	return nil
}

func (p Params) addLabel(name, key, value string) error {
	m, ok := p[name].(map[string]any)
	if !ok {
		m = map[string]any{}
		p[name] = m
	}
	if _, twice := m[key]; twice {
		return refusal.New(refusal.BadParams, "%s.%s is given twice", name, key)
	}
	m[key] = value
	return nil
}

// number reads an integer in the parameter's unit.
func (d Param) number(text string) (int64, error) {
	digits, factor := text, int64(1)
	if d.Unit == "MiB" && len(text) > 3 {
		if f, ok := mebibytes[text[len(text)-3:]]; ok {
			digits, factor = text[:len(text)-3], f
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > MaxInt/factor || n < -MaxInt/factor {
		r := refusal.New(refusal.BadParams, "%s is %q, not an integer", d.Name, text)
		if d.Unit != "" {
			r = r.WithHint("the unit is %s", d.Unit)
		}
		return 0, r
	}
	return n * factor, nil
}
