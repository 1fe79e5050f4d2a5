package reconcile

import (
	"cmp"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/base/op"
	"gated/internal/test/must"
	"gated/internal/wire/desired"
)

func observed(name, state string, spec op.Params) op.Observed {
	o := op.Observed{Target: op.Target{Kind: "guest", Name: name}, Present: true, Running: state, Incarnation: "i1", Spec: spec}
	o.Protected = spec.Bool("protected")
	o.Labels = spec.Labels("labels")
	return o
}

func nothing(name string) op.Observed {
	return op.Observed{Target: op.Target{Kind: "guest", Name: name}, Running: absent}
}

type params = op.Params

func labels(kv ...string) map[string]any {
	m := map[string]any{}
	for i := 0; i < len(kv); i += 2 {
		m[kv[i]] = kv[i+1]
	}
	return m
}

func TestPlan(t *testing.T) {
	for name, c := range map[string]struct {
		want desired.Guest
		have op.Observed
		plan []op.Ask
	}{
		"make it": {desired.Guest{State: "running", Fields: params{"cpus": int64(2)}}, nothing("g"),
			[]op.Ask{{Op: "guest.create", Params: params{"cpus": int64(2), "state": "running"}}}},
		"make it, stopped":           {desired.Guest{State: "stopped"}, nothing("g"), []op.Ask{{Op: "guest.create", Params: params{"state": "stopped"}}}},
		"no state, nothing there":    {desired.Guest{Fields: params{"cpus": int64(2)}}, nothing("g"), nil},
		"absent, nothing there":      {desired.Guest{State: "absent"}, nothing("g"), nil},
		"absent, there":              {desired.Guest{State: "absent"}, observed("g", running, nil), []op.Ask{{Op: "guest.destroy", Params: params{}}}},
		"as wished":                  {desired.Guest{State: "running", Fields: params{"cpus": int64(2)}}, observed("g", running, params{"cpus": int64(2)}), nil},
		"nothing wished":             {desired.Guest{}, observed("g", running, params{"cpus": int64(2), "protected": true}), nil},
		"start":                      {desired.Guest{State: "running"}, observed("g", stopped, nil), []op.Ask{{Op: "guest.start", Params: params{}}}},
		"stop":                       {desired.Guest{State: "stopped"}, observed("g", running, nil), []op.Ask{{Op: "guest.stop", Params: params{}}}},
		"no state, stopped":          {desired.Guest{}, observed("g", stopped, nil), nil},
		"unknown state":              {desired.Guest{State: "running", Fields: params{"cpus": int64(2)}}, observed("g", "unknown", nil), nil},
		"unknown state, absent":      {desired.Guest{State: "absent"}, observed("g", "unknown", nil), nil},
		"protect":                    {desired.Guest{Fields: params{"protected": true}}, observed("g", running, nil), []op.Ask{{Op: "guest.set-config", Params: params{"protected": true}}}},
		"unprotect":                  {desired.Guest{Fields: params{"protected": false}}, observed("g", running, params{"protected": true}), []op.Ask{{Op: "guest.set-config", Params: params{"protected": false}}}},
		"unprotected already":        {desired.Guest{Fields: params{"protected": false}}, observed("g", running, nil), nil},
		"no command, none wished":    {desired.Guest{Fields: params{"command": ""}}, observed("g", running, nil), nil},
		"command away":               {desired.Guest{Fields: params{"command": ""}}, observed("g", running, params{"command": "web"}), []op.Ask{{Op: "guest.set-config", Params: params{"command": ""}}}},
		"other labels stay":          {desired.Guest{Fields: params{"labels": labels("a", "1")}}, observed("g", running, params{"labels": labels("a", "1", "b", "2")}), nil},
		"no labels wished is none":   {desired.Guest{Fields: params{"labels": labels()}}, observed("g", running, params{"labels": labels("b", "2")}), nil},
		"a label more keeps the old": {desired.Guest{Fields: params{"labels": labels("a", "1")}}, observed("g", running, params{"labels": labels("b", "2")}), []op.Ask{{Op: "guest.set-config", Params: params{"labels": labels("a", "1", "b", "2")}}}},
		"what takes comes last": {
			desired.Guest{State: "running", Fields: params{"cpus": int64(2), "protected": false, "labels": labels("a", "2")}},
			observed("g", stopped, params{"cpus": int64(1), "protected": true, "labels": labels("a", "1")}),
			[]op.Ask{{Op: "guest.set-config", Params: params{"cpus": int64(2)}}, {Op: "guest.start", Params: params{}},
				{Op: "guest.set-config", Params: params{"protected": false, "labels": labels("a", "2")}}}},
	} {
		t.Run(name, func(t *testing.T) {
			c.want.Name = "g"
			for i := range c.plan {
				c.plan[i].Target = c.want.Target()
			}
			before := maps.Clone(c.want.Fields)
			require.Equal(t, c.plan, Plan(c.want, c.have))
			require.Equal(t, before, c.want.Fields, "the wish is not changed")
			for _, a := range c.plan {
				spec := must.Get(op.Lookup(a.Op))(t)
				require.NoError(t, spec.Check(a.Target, a.Params))
			}
		})
	}
}

// apply is what a faithful driver makes of a step.
func apply(have op.Observed, a op.Ask) op.Observed {
	switch a.Op {
	case "guest.create":
		spec := maps.Clone(a.Params)
		state := cmp.Or(spec.Str("state"), stopped)
		delete(spec, "state")
		delete(spec, "scratch")
		return observed(have.Target.Name, state, spec)
	case "guest.destroy":
		return nothing(have.Target.Name)
	case "guest.start":
		have.Running = running
	case "guest.stop":
		have.Running = stopped
	case "guest.set-config":
		spec := maps.Clone(have.Spec)
		if spec == nil {
			spec = op.Params{}
		}
		maps.Copy(spec, a.Params)
		return observed(have.Target.Name, have.Running, spec)
	}
	return have
}

func drawFields(t *rapid.T, label string) op.Params {
	p := op.Params{}
	for name, values := range map[string][]any{
		"memory": {int64(1), int64(512)}, "cpus": {int64(1), int64(2)}, "command": {"", "web"}, "protected": {true, false},
		"labels": {labels(), labels("a", "1"), labels("a", "2", "b", "1"), labels("c", "")},
	} {
		if v := rapid.SampledFrom(append(values, nil)).Draw(t, label+" "+name); v != nil {
			p[name] = v
		}
	}
	return p
}

func drawHave(t *rapid.T) op.Observed {
	if rapid.IntRange(0, 3).Draw(t, "there") == 0 {
		return nothing("g")
	}
	return observed("g", rapid.SampledFrom([]string{running, stopped}).Draw(t, "running"), drawFields(t, "have"))
}

func drawWant(t *rapid.T) desired.Guest {
	g := desired.Guest{Name: "g", State: rapid.SampledFrom([]string{"", "running", "stopped", "absent"}).Draw(t, "state")}
	if g.State != desired.Absent {
		g.Fields = drawFields(t, "want")
	}
	return g
}

func TestPlanConvergesInOnePass(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want, have := drawWant(t), drawHave(t)
		for _, a := range Plan(want, have) {
			have = apply(have, a)
		}
		require.Empty(t, Plan(want, have))
	})
}

// What a document does not say is left alone: nothing outside the wished-for
// fields is in a step, no label is lost, and only the word absent destroys.
func TestPlanTouchesOnlyWhatIsWishedFor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want, have := drawWant(t), drawHave(t)
		for _, a := range Plan(want, have) {
			require.Equal(t, want.Target(), a.Target)
			require.False(t, a.Op == "guest.destroy" && want.State != desired.Absent)
			for name := range a.Params {
				if name == "state" {
					require.Equal(t, "guest.create", a.Op)
					continue
				}
				require.Contains(t, want.Fields, name)
			}
			if a.Params.Has("labels") {
				for k := range have.Labels {
					require.Contains(t, a.Params.Labels("labels"), k)
				}
			}
			if a.Params.Has("protected") && !a.Params.Bool("protected") {
				require.Equal(t, false, want.Fields["protected"], "protection is taken away by its own word alone")
			}
		}
	})
}
