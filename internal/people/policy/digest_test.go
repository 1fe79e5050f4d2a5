package policy_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/people/policy"
	"gated/internal/test/must"
)

// TestDigestIsOfAllThatIsSaid: every field of a policy and of a rule counts, except
// the place of the rule.
func TestDigestIsOfAllThatIsSaid(t *testing.T) {
	window := must.Get(op.ParseWindow("08:00-18:00Z"))(t)
	other := map[string]any{"MaxValidity": time.Minute, "ScratchMaxAge": time.Minute, "OpenPerSource": 7, "RejectHolds": time.Minute, "Commands": []string{"a"},
		"CommandGuests": map[string][]string{"a": {"b"}}, "Benign": []string{"a"}, "BenignIf": []string{"a"},
		"Roles": []op.Role{"manager"}, "Rules": []policy.Rule{{Threshold: 1}},
		"Op": "guest.*", "Signed": []string{"guest.stop"}, "Target": "guest/*", "Labels": map[string]string{"a": "b"}, "Role": op.Role("manager"), "Threshold": 3,
		"Touch": op.TouchPresent, "CoolOff": time.Minute, "Window": &window, "Single": true, "NoPasskey": true, "Apart": true,
		"BreakGlass": &policy.BreakGlass{Ops: []string{"guest.*"}, Threshold: 1, Delay: time.Minute, AtMost: 1},
		"People":     policy.People{"alice@example.com": {{UID: 1000}}}, "Passkeys": op.Passkeys{Origins: []string{"https://a.example.com"}, Synced: true}}
	seen := map[string]string{}
	note := func(name string, p policy.Policy) {
		d := p.Digest()
		require.Len(t, d, 64)
		require.NotContains(t, seen, d, "%s says something else than %s", name, seen[d])
		seen[d] = name
	}
	note("the built-in rules", policy.Default())
	all := reflect.TypeFor[policy.Policy]()
	for i := range all.NumField() {
		p := policy.Default()
		reflect.ValueOf(&p).Elem().Field(i).Set(reflect.ValueOf(other[all.Field(i).Name]))
		note(all.Field(i).Name, p)
	}
	noteBreakGlass(note)
	rule := reflect.TypeFor[policy.Rule]()
	for i := range rule.NumField() {
		r, p := policy.Rule{Threshold: 1}, policy.Default()
		p.Rules = []policy.Rule{r}
		before := p.Digest()
		if rule.Field(i).Name == "Where" {
			p.Rules[0].Where = "gated.yaml:12"
			require.Equal(t, before, p.Digest())
			continue
		}
		reflect.ValueOf(&p.Rules[0]).Elem().Field(i).Set(reflect.ValueOf(other[rule.Field(i).Name]))
		note("a rule's "+rule.Field(i).Name, p)
	}
}

// noteBreakGlass changes one field of the section after another.
func noteBreakGlass(note func(string, policy.Policy)) {
	section := reflect.TypeFor[policy.BreakGlass]()
	changed := map[string]any{"Ops": []string{"guest.stop"}, "Threshold": 2, "Delay": 2 * time.Minute, "AtMost": 2}
	for i := range section.NumField() {
		if section.Field(i).Name == "Where" {
			continue
		}
		p := policy.Default()
		p.BreakGlass = &policy.BreakGlass{Ops: []string{"guest.*"}, Threshold: 1, Delay: time.Minute, AtMost: 1}
		reflect.ValueOf(p.BreakGlass).Elem().Field(i).Set(reflect.ValueOf(changed[section.Field(i).Name]))
		note("break-glass's "+section.Field(i).Name, p)
	}
}

func TestDigestIsOfNoOrder(t *testing.T) {
	a := policy.Default()
	a.Commands, a.Roles = []string{"a", "b"}, []op.Role{"x", "y"}
	a.Rules = []policy.Rule{{Op: "guest.*", Threshold: 1}, {Op: "guest.stop", Threshold: 2, Labels: map[string]string{"a": "b", "c": "d"}}}
	b := a
	b.Commands, b.Roles, b.Rules = slices.Clone(a.Commands), slices.Clone(a.Roles), slices.Clone(a.Rules)
	slices.Reverse(b.Commands)
	slices.Reverse(b.Roles)
	slices.Reverse(b.Rules)
	require.Equal(t, a.Digest(), b.Digest())
	require.Equal(t, []string{"a", "b"}, a.Commands, "nothing is sorted in place")
	// A name cannot look like another line.
	c, d := policy.Default(), policy.Default()
	c.Commands, d.Commands = []string{"a\"\ncommand \"b"}, []string{"a", "b"}
	require.NotEqual(t, c.Digest(), d.Digest())
}
