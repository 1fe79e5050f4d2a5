package policy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/people/policy"
	"gated/internal/test/must"
)

func window(t require.TestingT, s string) *op.Window {
	w := must.Get(op.ParseWindow(s))(t)
	return &w
}

// stars returns n different patterns that match every operation.
func stars(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = strings.Repeat("*", i+1)
	}
	return out
}

// TestRuleBoundsBelowAtAndAbove is the policy's part of matrix row S16.
func TestRuleBoundsBelowAtAndAbove(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*policy.Rule)
		key    string // the key at fault, or ""
	}{
		{"the least", func(*policy.Rule) {}, ""},
		{"threshold negative", func(r *policy.Rule) { r.Threshold = -1 }, "threshold"},
		{"threshold 0", func(r *policy.Rule) { r.Threshold = 0 }, "threshold"},
		{"threshold 16", func(r *policy.Rule) { r.Threshold = 16 }, ""},
		{"threshold 17", func(r *policy.Rule) { r.Threshold = 17 }, "threshold"},
		{"touch", func(r *policy.Rule) { r.Touch = op.TouchPresent }, ""},
		{"verification", func(r *policy.Rule) { r.Touch = op.TouchVerified }, ""},
		{"no such touch", func(r *policy.Rule) { r.Touch = "none" }, "touch"},
		{"cool_off negative", func(r *policy.Rule) { r.CoolOff = -time.Second }, "cool_off"},
		{"cool_off of less than a second", func(r *policy.Rule) { r.CoolOff = 1500 * time.Millisecond }, "cool_off"},
		{"cool_off below the validity", func(r *policy.Rule) { r.CoolOff = 2*time.Hour - time.Second }, ""},
		{"cool_off at the validity", func(r *policy.Rule) { r.CoolOff = 2 * time.Hour }, "cool_off"},
		{"cool_off below the rule's validity", func(r *policy.Rule) { r.CoolOff, r.MaxValidity = time.Hour-time.Second, time.Hour }, ""},
		{"cool_off at the rule's validity", func(r *policy.Rule) { r.CoolOff, r.MaxValidity = time.Hour, time.Hour }, "cool_off"},
		{"validity negative", func(r *policy.Rule) { r.MaxValidity = -time.Hour }, "max_validity"},
		{"validity below a second", func(r *policy.Rule) { r.MaxValidity = time.Second - 1 }, "max_validity"},
		{"validity of a second", func(r *policy.Rule) { r.MaxValidity = time.Second }, ""},
		{"validity at the policy's", func(r *policy.Rule) { r.MaxValidity = 2 * time.Hour }, ""},
		{"validity above the policy's", func(r *policy.Rule) { r.MaxValidity = 2*time.Hour + time.Second }, "max_validity"},
		{"an empty window", func(r *policy.Rule) { r.Window = &op.Window{} }, "window"},
		{"signed", func(r *policy.Rule) { r.Signed = []string{"guest.stop", "guest.re*"} }, ""},
		{"signed and op", func(r *policy.Rule) { r.Op, r.Signed = "guest.destroy", []string{"guest.stop"} }, "signed"},
		{"signed twice", func(r *policy.Rule) { r.Signed = []string{"guest.stop", "guest.stop"} }, "signed"},
		{"signed of nothing", func(r *policy.Rule) { r.Signed = []string{"guest.stop", ""} }, "signed"},
		{"signed of no operation", func(r *policy.Rule) { r.Signed = []string{"guest.stop", "guest.halt"} }, "signed"},
		{"signed of no pattern", func(r *policy.Rule) { r.Signed = []string{"guest.[st]*"} }, "signed"},
		{"signed of another kind", func(r *policy.Rule) { r.Signed, r.Target = []string{"guest.stop"}, "command/*" }, "signed"},
		{"signed of no target", func(r *policy.Rule) { r.Signed, r.Target = []string{"guest.stop"}, "db-*" }, "target"},
		{"signed as a role that may not", func(r *policy.Rule) { r.Signed, r.Role = []string{"guest.stop"}, op.Recovery }, "role"},
		{"signed in a role of our own", func(r *policy.Rule) { r.Signed, r.Role = []string{"guest.stop"}, "manager" }, ""},
		{"signed with labels", func(r *policy.Rule) { r.Signed, r.Labels = []string{"guest.*"}, map[string]string{"a": "b"} }, ""},
		{"signed of what has no labels yet", func(r *policy.Rule) { r.Signed, r.Labels = []string{"guest.create"}, map[string]string{"a": "b"} }, "signed"},
		{"signed of what is new by its name", func(r *policy.Rule) { r.Signed, r.Target = []string{"guest.create"}, "guest/db-*" }, ""},
		{"as many signed as there may be", func(r *policy.Rule) { r.Signed = stars(policy.MaxSigned) }, ""},
		{"one signed more", func(r *policy.Rule) { r.Signed = stars(policy.MaxSigned + 1) }, "signed"},
		{"every operation", func(r *policy.Rule) { r.Op = "*" }, ""},
		{"no operation", func(r *policy.Rule) { r.Op = "guest.destroyed" }, "op"},
		{"no pattern of an operation", func(r *policy.Rule) { r.Op = "guest.{destroy,wipe}" }, "op"},
		{"an operation with a slash", func(r *policy.Rule) { r.Op = "guest/destroy" }, "op"},
		{"the longest pattern", func(r *policy.Rule) { r.Op = strings.Repeat("*", 256) }, ""},
		{"a longer pattern", func(r *policy.Rule) { r.Op = strings.Repeat("*", 257) }, "op"},
		{"a target", func(r *policy.Rule) { r.Target = "guest/db-*" }, ""},
		{"a target without its kind", func(r *policy.Rule) { r.Target = "db-*" }, "target"},
		{"a target of any kind", func(r *policy.Rule) { r.Target = "*/db-?" }, ""},
		{"a target that is no name", func(r *policy.Rule) { r.Target = "guest/" }, "target"},
		{"two targets", func(r *policy.Rule) { r.Target = "guest/a guest/b" }, "target"},
		{"the trust file", func(r *policy.Rule) { r.Target = "trust/s*" }, ""},
		{"another trust file", func(r *policy.Rule) { r.Target = "trust/t*" }, "target"},
		{"an operation on another kind", func(r *policy.Rule) { r.Op, r.Target = "guest.*", "trust/signers" }, "op"},
		{"labels of what has none", func(r *policy.Rule) { r.Op, r.Labels = "trust.rotate", map[string]string{"a": "b"} }, "op"},
		{"a label", func(r *policy.Rule) { r.Labels = map[string]string{"tier": "prod, and more"} }, ""},
		{"a label without a value", func(r *policy.Rule) { r.Labels = map[string]string{"tier": ""} }, "labels"},
		{"a label that is no name", func(r *policy.Rule) { r.Labels = map[string]string{"": "prod"} }, "labels"},
		{"a class of characters", func(r *policy.Rule) { r.Labels = map[string]string{"tier": "[a-z]"} }, "labels"},
		{"a role that signs all", func(r *policy.Rule) { r.Role = op.Operational }, ""},
		{"a role that does not sign all", func(r *policy.Rule) { r.Role = op.Recovery }, "role"},
		{"recovery for what is its own", func(r *policy.Rule) { r.Role, r.Op = op.Recovery, "trust.*" }, ""},
		{"recovery by the target", func(r *policy.Rule) { r.Role, r.Target = op.Recovery, "trust/*" }, ""},
		{"recovery for a guest", func(r *policy.Rule) { r.Role, r.Op = op.Recovery, "guest.destroy" }, "role"},
		{"coordination for a guest", func(r *policy.Rule) { r.Role, r.Op = op.Coordination, "guest.destroy" }, "role"},
		{"a role of our own", func(r *policy.Rule) { r.Role = "manager" }, ""},
		{"a role that is not ours", func(r *policy.Rule) { r.Role = "director" }, "role"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := policy.Default()
			p.MaxValidity, p.Roles = 2*time.Hour, []op.Role{"manager"}
			r := policy.Rule{Where: "gated.yaml:12", Threshold: 1}
			c.change(&r)
			p.Rules = []policy.Rule{{Where: "gated.yaml:9", Threshold: 2}, r}
			f, err := p.Fault(), p.Validate()
			if c.key == "" {
				require.Nil(t, f)
				require.NoError(t, err)
				return
			}
			require.NotNil(t, f)
			require.Equal(t, 1, f.Rule)
			require.Equal(t, c.key, f.Key, f.Why)
			require.ErrorIs(t, err, refusal.BadParams)
			require.Equal(t, "gated.yaml:12: "+f.Why, refusal.As(err).Detail)
		})
	}
}

func TestRolesOfOurOwn(t *testing.T) {
	for _, c := range []struct {
		roles []op.Role
		ok    bool
	}{
		{nil, true}, {[]op.Role{"manager", "on-call"}, true}, {[]op.Role{"manager", "manager"}, false}, {[]op.Role{""}, false},
		{[]op.Role{"Manager"}, false}, {[]op.Role{"manager@gated"}, false}, {[]op.Role{op.Recovery}, false}, {[]op.Role{op.Operational}, false},
	} {
		p := policy.Default()
		p.Roles = c.roles
		if c.ok {
			require.NoError(t, p.Validate())
		} else {
			require.ErrorIs(t, p.Validate(), refusal.BadParams, c.roles)
		}
	}
}

// TestRulesThatCannotBothBe: of two rules that match one step, each must leave time
// for the other.
func TestRulesThatCannotBothBe(t *testing.T) {
	slow, brief := policy.Rule{Threshold: 1, CoolOff: time.Hour}, policy.Rule{Threshold: 1, MaxValidity: time.Hour}
	sat, sun := policy.Rule{Threshold: 1, Window: window(t, "sat 08:00-18:00Z")}, policy.Rule{Threshold: 1, Window: window(t, "sun 08:00-18:00Z")}
	with := func(r policy.Rule, operation, target string, labels map[string]string) policy.Rule {
		r.Where, r.Op, r.Target, r.Labels = "f:"+operation, operation, target, labels
		return r
	}
	prod, test := map[string]string{"tier": "prod"}, map[string]string{"tier": "test*"}
	for _, pair := range [][2]policy.Rule{{slow, brief}, {sat, sun}} {
		for _, c := range []struct {
			name string
			a, b policy.Rule
			ok   bool
		}{
			{"all", with(pair[0], "", "", nil), with(pair[1], "", "", nil), false},
			{"one operation of both", with(pair[0], "guest.*", "", nil), with(pair[1], "*.wipe", "", nil), false},
			{"other operations", with(pair[0], "guest.destroy", "", nil), with(pair[1], "guest.wipe", "", nil), true},
			{"one target of both", with(pair[0], "", "guest/db-*", nil), with(pair[1], "", "*-1", nil), false},
			{"other targets", with(pair[0], "", "guest/db-*", nil), with(pair[1], "", "guest/web-*", nil), true},
			{"the same labels", with(pair[0], "", "", prod), with(pair[1], "", "", prod), false},
			{"labels of one", with(pair[0], "", "", prod), with(pair[1], "", "", nil), false},
			{"other labels", with(pair[0], "", "", prod), with(pair[1], "", "", test), true},
			{"another label", with(pair[0], "", "", prod), with(pair[1], "", "", map[string]string{"site": "x"}), false},
			// A change of labels escapes the first rule, and the second rule is about it.
			{"an escape", with(pair[0], "guest.destroy", "", prod), with(pair[1], "guest.set-config", "", nil), false},
		} {
			for _, rules := range [][]policy.Rule{{c.a, c.b}, {c.b, c.a}} {
				p := policy.Default()
				p.Rules = rules
				if c.ok {
					require.NoError(t, p.Validate(), c.name)
				} else {
					require.ErrorIs(t, p.Validate(), refusal.BadParams, c.name)
					require.Contains(t, refusal.As(p.Validate()).Detail, "it could never run", c.name)
				}
			}
		}
	}
}

func TestTheNumberOfRulesIsBounded(t *testing.T) {
	for n, ok := range map[int]bool{policy.MaxRules - 1: true, policy.MaxRules: true, policy.MaxRules + 1: false} {
		p := policy.Default()
		for range n {
			p.Rules = append(p.Rules, policy.Rule{Where: "f:1", Threshold: 1})
		}
		if ok {
			require.NoError(t, p.Validate())
		} else {
			require.ErrorIs(t, p.Validate(), refusal.BadParams)
		}
	}
}
