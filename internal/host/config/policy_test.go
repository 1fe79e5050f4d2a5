package config_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/config"
	"gated/internal/people/policy"
	"gated/internal/test/must"
)

func window(t *testing.T, s string) *op.Window {
	t.Helper()
	w := must.Get(op.ParseWindow(s))(t)
	return &w
}

func TestParseOfRules(t *testing.T) {
	c := must.Get(config.Parse("/etc/gated/gated.yaml", []byte(`host: pve1
revocation_file: /etc/gated/revoked
policy:
  max_validity: 2h
  rules:
    - op: guest.destroy
      target: guest/db-*
      labels: {tier: prod, "8": "?*"}
      role: operational
      threshold: 2
      touch: verification
      cool_off: 10m
      window: mon-fri 08:00-18:00Z
      max_validity: 1h
    - threshold: 1
      touch: touch
    -
      role: manager
      threshold: 16
      touch: none
    - {threshold: 1, window: 22:00-24:00Z, op: "guest.*", target: "guest/web-*"}
    - {labels: {tier: prod}, signed: [guest.stop, "guest.re*"]}
    - {signed: [command.run], threshold: 2}
  roles: [manager, on-call]
`)))(t)
	require.Equal(t, "/etc/gated/revoked", c.RevocationFile)
	want := policy.Default()
	want.Commands = []string{}
	want.MaxValidity = 2 * time.Hour
	want.Roles = []op.Role{"manager", "on-call"}
	want.Rules = []policy.Rule{
		{Where: "gated.yaml:6", Op: "guest.destroy", Target: "guest/db-*", Labels: map[string]string{"tier": "prod", "8": "?*"},
			Role: op.Operational, Threshold: 2, Touch: op.TouchVerified, CoolOff: 10 * time.Minute,
			Window: window(t, "mon-fri 08:00-18:00Z"), MaxValidity: time.Hour},
		{Where: "gated.yaml:15", Threshold: 1, Touch: op.TouchPresent},
		{Where: "gated.yaml:18", Role: "manager", Threshold: 16},
		{Where: "gated.yaml:21", Threshold: 1, Op: "guest.*", Target: "guest/web-*", Window: window(t, "22:00-24:00Z")},
		{Where: "gated.yaml:22", Threshold: 1, Labels: map[string]string{"tier": "prod"}, Signed: []string{"guest.stop", "guest.re*"}},
		{Where: "gated.yaml:23", Threshold: 2, Signed: []string{"command.run"}},
	}
	require.Equal(t, want, c.Policy)
	require.NoError(t, c.Policy.Validate())
}

// TestParseOfRulesThatLoosen is the half of matrix row S16 about the policy,
// and every other way in which a rule would be less than it looks.
func TestParseOfRulesThatLoosen(t *testing.T) {
	// The ^ is where the error is.
	for marked, want := range map[string]string{
		`roles: ^manager`:                "roles is not a list",
		`roles: [manager, ^recovery]`:    "the role recovery is built in",
		`roles: [manager, ^manager]`:     "the role manager is there twice",
		`roles: [^Manager]`:              `"Manager" is not a role's name`,
		`roles: [^1]`:                    "a value of roles is not text",
		`rules: ^{threshold: 2}`:         "rules is not a list",
		`rules: [^two]`:                  "the rule is not a map",
		`rules: [^{}]`:                   "threshold is missing",
		`rules: [^{role: recovery}]`:     "threshold is missing",
		`rules: [{threshold: ^0}]`:       "threshold is 0, outside 1 to 16",
		`rules: [{threshold: ^-1}]`:      "threshold is -1, outside 1 to 16",
		`rules: [{threshold: ^17}]`:      "threshold is 17, outside 1 to 16",
		`rules: [{threshold: ^1.5}]`:     "threshold is not a whole number",
		`rules: [{threshold: ^2.0}]`:     "threshold is not a whole number",
		`rules: [{threshold: ^two}]`:     "threshold is not a whole number",
		`rules: [{threshold: ^"2"}]`:     "threshold is not a whole number",
		`rules: [{threshold: ^010}]`:     "threshold is not a whole number",
		`rules: [{threshold: ^[2]}]`:     "threshold is not a whole number",
		`rules: [{threshold: ^true}]`:    "threshold is not a whole number",
		`rules: [{^threshold: }]`:        "threshold has no value",
		`rules: [{^treshold: 2}]`:        `unknown key treshold in the rule; is "threshold" meant?`,
		`^require_touch: true`:           "unknown key require_touch in policy",
		`rules: [{threshold: 1, ^x: 1}]`: "unknown key x in the rule",

		`rules: [{signed: ^guest.stop}]`:                           "signed is not a list",
		`rules: [{signed: ^[]}]`:                                   "signed is empty",
		`rules: [{threshold: 2, signed: ^[]}]`:                     "signed is empty",
		`rules: [{signed: [^""]}]`:                                 "an empty text",
		`rules: [{signed: [^1]}]`:                                  "a value of signed is not text",
		`rules: [{signed: ^[guest.halt]}]`:                         `the pattern "guest.halt" matches no operation`,
		`rules: [{signed: ^[guest.stop, guest.stop]}]`:             `the pattern "guest.stop" is empty or there twice`,
		`rules: [{op: guest.*, signed: ^[guest.stop]}]`:            "a rule has op or signed, and not both",
		`rules: [{signed: [guest.stop], threshold: ^0}]`:           "threshold is 0, outside 1 to 16",
		`rules: [{labels: {a: b}, signed: ^[guest.create]}]`:       `"guest.create" makes a target, which has no labels before`,
		`rules: [{signed: [guest.stop], role: ^recovery}]`:         "the role recovery may not sign guest.stop",
		`rules: [{threshold: 1, op: ^""}]`:                         "an empty text; leave the key out",
		`rules: [{threshold: 1, op: ^guest.explode}]`:              `the pattern "guest.explode" matches no operation`,
		`rules: [{threshold: 1, op: ^Guest.destroy}]`:              `the pattern "Guest.destroy" matches no operation`,
		`rules: [{threshold: 1, op: ^"guest.d?"}]`:                 `the pattern "guest.d?" matches no operation`,
		`rules: [{threshold: 1, op: ^"guest.[dw]*"}]`:              `"guest.[dw]*" is not a pattern`,
		`rules: [{threshold: 1, op: ^"guest.destroy,guest.wipe"}]`: `"guest.destroy,guest.wipe" is not a pattern`,
		`rules: [{threshold: 1, op: ^[guest.destroy]}]`:            "op is not text",

		`rules: [{threshold: 1, target: ^""}]`:                        "an empty text; leave the key out",
		`rules: [{threshold: 1, target: ^db-1}]`:                      `the pattern "db-1" matches no target`,
		`rules: [{threshold: 1, target: ^"host/*"}]`:                  `the pattern "host/*" matches no target`,
		`rules: [{threshold: 1, target: ^trust/other}]`:               `the pattern "trust/other" matches no target`,
		`rules: [{threshold: 1, target: ^"guest/{a}"}]`:               `"guest/{a}" is not a pattern`,
		`rules: [{threshold: 1, op: ^trust.rotate, target: guest/a}]`: "no operation that the rule's op matches",
		`rules: [{threshold: 1, op: ^trust.*, labels: {a: b}}]`:       "no operation that the rule's op matches",

		`rules: [{threshold: 1, labels: ^{}}]`:           "labels is empty",
		`rules: [{threshold: 1, labels: ^prod}]`:         "labels is not a map",
		`rules: [{threshold: 1, labels: {a: ^""}}]`:      "an empty text",
		`rules: [{threshold: 1, labels: {a: ^1}}]`:       "a is not text",
		`rules: [{threshold: 1, labels: ^{a: "!b"}}]`:    `"!b" is not a pattern`,
		`rules: [{threshold: 1, labels: ^{"a b": "c"}}]`: `"a b" is not a label's name`,

		`rules: [{threshold: 1, role: ^""}]`:                                       "an empty text",
		`rules: [{threshold: 1, role: ^manager}]`:                                  `there is no role "manager"`,
		`rules: [{threshold: 1, role: ^recovery}]`:                                 "the role recovery may not sign command.",
		`rules: [{threshold: 1, role: ^coordination}]`:                             "the role coordination may not sign command.",
		`rules: [{threshold: 1, role: ^coordination, op: trust.rotate}]`:           "the role coordination may not sign trust.rotate",
		`rules: [{threshold: 1, role: ^recovery, op: guest.destroy}]`:              "the role recovery may not sign guest.destroy",
		`rules: [{threshold: 1, role: ^Operational}]`:                              `there is no role "Operational"`,
		`rules: [{threshold: 1, touch: ^true}]`:                                    "touch is not text",
		`rules: [{threshold: 1, batch: ^never}]`:                                   `"never" is none of allow, refuse`,
		`rules: [{threshold: 1, batch: ^false}]`:                                   "batch is not text",
		`rules: [{threshold: 1, touch: ^required}]`:                                `"required" is none of none, touch, verification`,
		`rules: [{threshold: 1, touch: ^""}]`:                                      `"" is none of`,
		`rules: [{threshold: 1, window: ^always}]`:                                 `"always" is not a window`,
		`rules: [{threshold: 1, window: ^"08:00-18:00"}]`:                          `"08:00-18:00" is not a window`,
		`rules: [{threshold: 1, cool_off: ^10}]`:                                   "cool_off is not text",
		`rules: [{threshold: 1, cool_off: ^0s}]`:                                   "0s is outside 1s to 24h",
		`rules: [{threshold: 1, cool_off: ^-1m}]`:                                  `"-1m" is not a length of time`,
		`rules: [{threshold: 1, cool_off: ^24h}]`:                                  "the cool_off of 24h0m0s is no shorter than the policy's max_validity",
		`rules: [{threshold: 1, cool_off: ^24h1s}]`:                                "24h0m1s is outside 1s to 24h",
		`rules: [{threshold: 1, cool_off: ^1h, max_validity: 1h}]`:                 "the cool_off of 1h0m0s is no shorter than the max_validity of 1h0m0s at f:2",
		`rules: [{threshold: 1, max_validity: ^0s}]`:                               "0s is outside 1s to 24h",
		`rules: [{threshold: 1, max_validity: ^24h1s}]`:                            "24h0m1s is outside",
		`max_validity: 1h, rules: [{threshold: 1, max_validity: ^1h1s}]`:           "1h0m1s is outside 1s to 1h",
		`rules: [{threshold: 1, max_validity: ^1h1s}], max_validity: 1h`:           "1h0m1s is outside 1s to 1h",
		`rules: [{threshold: 1, cool_off: 2h}], max_validity: ^none`:               `"none" is not a length of time`,
		`rules: [{threshold: 1, cool_off: ^1h}, {threshold: 1, max_validity: 1h}]`: "the cool_off of 1h0m0s is no shorter than the max_validity",
		`break_glass: ^{}`: "threshold is missing",
		`break_glass: {ops: ["*"], threshold: 1, at_most: 1, delay: ^59s}`:                  "59s is outside 1m to 24h",
		`break_glass: {ops: ["*"], threshold: ^0, at_most: 1, delay: 1m}`:                   "threshold is 0, outside 1 to 16",
		`break_glass: {ops: ["*"], threshold: 1, at_most: ^17, delay: 1m}`:                  "at_most is 17, outside 1 to 16",
		`break_glass: {ops: ^["trust.*"], threshold: 1, at_most: 1, delay: 1m}`:             `the pattern "trust.*" matches no operation`,
		`break_glass: {ops: [^""], threshold: 1, at_most: 1, delay: 1m}`:                    "an empty text",
		`max_validity: 1h, break_glass: {ops: ["*"], threshold: 1, at_most: 1, delay: ^1h}`: "the delay of 1h0m0s is no shorter than the policy's max_validity",
		`roles: [^breakglass]`:                       "the role breakglass is built in",
		`rules: [{threshold: 1, role: ^breakglass}]`: "the role breakglass may not sign command.",
		`rules: [{threshold: 1, window: ^"sat 08:00-18:00Z"}, {threshold: 1, window: "sun 08:00-18:00Z"}]`: "the window sat 08:00-18:00Z and the window sun 08:00-18:00Z",
	} {
		line := "policy: {" + marked + "}"
		refused(t, "host: h\n"+strings.Replace(line, "^", "", 1), fmt.Sprintf("f:2:%d: %s", strings.IndexByte(line, '^')+1, want))
	}
}

func TestARuleIsRefusedAtItsOwnLine(t *testing.T) {
	_, err := config.Parse("/etc/gated/gated.yaml", []byte(`host: h
policy:
  rules:
    - op: guest.destroy
      threshold: 2
    - op: guest.wipe
      threshold: 1
      role: recovery
`))
	require.ErrorIs(t, err, refusal.Malformed)
	require.Contains(t, refusal.As(err).Detail,
		"/etc/gated/gated.yaml:8:13: the role recovery may not sign guest.wipe, which the rule matches, in: role: recovery")
}

func TestRulesHaveALimit(t *testing.T) {
	for n, fits := range map[int]bool{policy.MaxRules - 1: true, policy.MaxRules: true, policy.MaxRules + 1: false} {
		c, err := config.Parse("f", []byte("host: h\npolicy:\n  rules:\n"+strings.Repeat("    - threshold: 2\n", n)))
		if !fits {
			require.ErrorIs(t, err, refusal.Malformed)
			require.Contains(t, refusal.As(err).Detail, "f:260:7: there are 257 rules, more than 256")
			continue
		}
		require.NoError(t, err)
		require.Len(t, c.Policy.Rules, n)
	}
}

func TestRevocationFileIsAPath(t *testing.T) {
	for _, bad := range []string{"revoked", "/run/../revoked", "\"\"", "/etc/gated/"} {
		refused(t, "host: h\nrevocation_file: "+bad, "f:2:18: ")
	}
}
