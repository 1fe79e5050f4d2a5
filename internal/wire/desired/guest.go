package desired

import (
	"strconv"
	"strings"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/strictyaml"
)

// inGuest is the name of a guest's entry in errors.
const inGuest = "a guest"

// setConfig is the operation that changes the fields of a guest. Its table of parameters has the fields and their
// limits.
var setConfig = func() op.Spec {
	spec, err := op.Lookup("guest.set-config")
	if err != nil {
		panic("desired: " + err.Error())
	}
	return spec
}()

// anyGuest is a target to check parameters against.
var anyGuest = op.Target{Kind: "guest", Name: "any"}

// guest reads one entry.
func guest(m strictyaml.Value) Guest {
	g := Guest{Fields: op.Params{}}
	g.Line, g.Column = m.At()
	name := m.Need("name")
	g.Name = name.Text()
	if err := op.CheckName(g.Name); err != nil {
		name.Fail("%s", refusal.As(err).Detail)
	}
	state := m.Get("state")
	g.State = state.Text()
	if state.Present() && g.State != Running && g.State != Stopped && g.State != Absent {
		state.Fail("state must be running, stopped or absent")
	}
	for _, p := range setConfig.Params {
		f := m.Get(p.Name)
		if !f.Present() {
			continue
		}
		if g.State == Absent {
			// An absent guest can have no other wish. A guest that is protected and absent would be a contradiction,
			// and the gate must not guess which half was meant.
			f.Fail("a guest that is to be absent has no %s", p.Name)
		}
		g.Fields[p.Name] = field(p, f)
		if err := setConfig.Check(anyGuest, op.Params{p.Name: g.Fields[p.Name]}); err != nil {
			f.Fail("%s", strings.TrimPrefix(refusal.As(err).Detail, setConfig.Name+": "))
		}
	}
	return g
}

// field reads one field in the unit and type of the catalogue.
func field(p op.Param, v strictyaml.Value) any {
	switch {
	case p.Unit == "MiB":
		return mebibytes(v)
	case p.Type == op.TInt:
		return v.Int(p.Min, p.Max)
	case p.Type == op.TBool:
		return v.Bool()
	case p.Type == op.TLabels:
		return labels(v)
	default:
		return v.Text()
	}
}

// mebibytes reads a size such as 512MiB and returns it in MiB. It does not round: only whole MiB are a size.
func mebibytes(v strictyaml.Value) int64 {
	s := v.Text()
	for _, u := range []struct {
		suffix string
		factor int64
	}{{"MiB", 1}, {"GiB", 1 << 10}, {"TiB", 1 << 20}} {
		digits, ok := strings.CutSuffix(s, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n < 1 || n > op.MaxInt/u.factor || strconv.FormatInt(n, 10) != digits {
			break
		}
		return n * u.factor
	}
	v.Fail("a size is a whole number with MiB, GiB or TiB, such as 512MiB")
	return 1
}

func labels(v strictyaml.Value) map[string]any {
	out := map[string]any{}
	for k, label := range v.Each() {
		if op.CheckName(k) != nil {
			label.Fail("%q is not a label's name ([A-Za-z0-9][A-Za-z0-9._-]{0,127})", k)
			continue
		}
		out[k] = label.Named("label " + k).Text()
	}
	return out
}
