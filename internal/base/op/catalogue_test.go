package op_test

import (
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

var web1 = op.Target{Kind: "guest", Name: "web-1"}

func lookup(t *testing.T, name string) op.Spec {
	t.Helper()
	return must.Get(op.Lookup(name))(t)
}

func TestCatalogueRowsAreComplete(t *testing.T) {
	all := op.Catalogue()
	require.NotEmpty(t, all)
	require.True(t, sort.SliceIsSorted(all, func(i, j int) bool { return all[i].Name < all[j].Name }))
	for _, s := range all {
		require.Equal(t, s.Name, lookup(t, s.Name).Name)
		kind, verb, ok := strings.Cut(s.Name, ".")
		require.True(t, ok, s.Name)
		require.Equal(t, s.Kind, kind, s.Name)
		require.NotEmpty(t, verb)
		require.Equal(t, strings.ToLower(s.Name), s.Name)
		require.NotEmpty(t, s.Doc, s.Name)
		require.NotEmpty(t, s.Covers, s.Name)
		require.NotEmpty(t, s.Roles, "%s could never be approved", s.Name)
		must.Get(op.ParseTarget(kind + "/x"))(t)
		for _, p := range s.Params {
			got, ok := s.Param(p.Name)
			require.True(t, ok)
			require.Equal(t, p, got)
			require.NotEmpty(t, p.Doc, "%s %s", s.Name, p.Name)
			if p.Type == op.TInt {
				require.Equal(t, p.Name == "epoch", p.Unit == "", "%s %s: all but an ordinal has a unit", s.Name, p.Name)
				require.Less(t, p.Min, p.Max, "%s %s", s.Name, p.Name)
				require.LessOrEqual(t, p.Max, int64(op.MaxInt))
			}
		}
	}
}

// TestUnknownOps is the first half of matrix row P08.
func TestUnknownOps(t *testing.T) {
	for _, s := range []string{"", "guest", "guest.", ".destroy", "destroy", "guest.explode", "Guest.destroy", "guest.Destroy",
		"GUEST.DESTROY", "guest.destroy ", " guest.destroy", "guest.destroy\x00", "guest/destroy", "guest.destr0y", "guest.*"} {
		_, err := op.Lookup(s)
		requireRefusal(t, err, refusal.UnknownOp, s)
	}
}

func TestGuestStepsAreForTheOperationalRole(t *testing.T) {
	for _, s := range op.Catalogue() {
		if s.Kind != "guest" {
			continue
		}
		require.True(t, s.MayApprove(op.Operational), s.Name)
		require.False(t, s.MayApprove(op.Recovery), s.Name)
		require.False(t, s.MayApprove(op.Coordination), s.Name)
		require.False(t, s.MayApprove(""), s.Name)
	}
}

func TestParamsThatFit(t *testing.T) {
	for _, c := range []struct{ op, params string }{
		{"guest.create", `{}`},
		{"guest.create", `{"scratch":true,"state":"running","memory":512,"cpus":2,"command":"web","labels":{"tier":"prod"},"protected":false}`},
		{"guest.create", `{"command":""}`}, // a guest without a process
		{"guest.create", `{"state":"stopped","labels":{}}`},
		{"guest.set-config", `{"memory":1}`},
		{"guest.set-config", `{"memory":67108864}`},
		{"guest.set-config", `{"cpus":1}`},
		{"guest.set-config", `{"cpus":4096}`},
		{"guest.set-config", `{"labels":{"tier":""}}`},
		{"guest.snapshot", `{"snapshot":"before"}`},
		{"guest.snapshot-delete", `{"snapshot":"none"}`}, // one that other hands made
		{"guest.undelete", `{"incarnation":"0b7f:12:34"}`},
		{"guest.destroy", `{}`},
	} {
		p := must.Get(op.ParseParams([]byte(c.params)))(t)
		require.NoError(t, lookup(t, c.op).Check(web1, p), "%s %s", c.op, c.params)
	}
}

func TestRolesThatRotateKeys(t *testing.T) {
	s := lookup(t, "trust.rotate")
	require.Equal(t, []op.Role{op.Operational, op.Recovery}, s.Roles)
	require.False(t, s.Creates)
	for _, c := range op.Catalogue() {
		require.Equal(t, c.Kind == op.KindTrust, c.MayApprove(op.Recovery), "%s: recovery signs key rotation only", c.Name)
		for _, role := range c.Roles {
			require.True(t, role.BuiltIn(), "%s: a role of the configuration's own signs what rules ask of it alone", c.Name)
		}
	}
}

// TestRotationParams has parameters at their limits, and parameters that do not fit.
func TestRotationParams(t *testing.T) {
	s := lookup(t, "trust.rotate")
	for _, c := range []struct {
		params string
		want   refusal.Code // or ""
	}{
		{`{"epoch":1}`, ""}, // the trust file decides what it would change
		{`{"epoch":9007199254740991,"add":[],"remove":[]}`, ""},
		{`{"epoch":2,"add":["a \"b\" c","x"],"remove":["SHA256:x"]}`, ""},
		{`{}`, refusal.BadParams},
		{`{"add":["x"]}`, refusal.BadParams},
		{`{"epoch":0}`, refusal.BadParams},
		{`{"epoch":-1}`, refusal.BadParams},
		{`{"epoch":"2"}`, refusal.BadParams},
		{`{"epoch":2,"add":"x"}`, refusal.BadParams},
		{`{"epoch":2,"add":{"x":"y"}}`, refusal.BadParams},
		{`{"epoch":2,"add":[1]}`, refusal.BadParams},
		{`{"epoch":2,"add":[["x"]]}`, refusal.BadParams},
		{`{"epoch":2,"add":["x",true]}`, refusal.BadParams},
		{`{"epoch":2,"add":[""]}`, refusal.BadParams},
		{`{"epoch":2,"remove":["x",""]}`, refusal.BadParams},
		{`{"epoch":2,"remove":["x","y","x"]}`, refusal.BadParams},
		{`{"epoch":2,"keys":["x"]}`, refusal.BadParams},
		{`{"epoch":2,"path":"/etc/passwd"}`, refusal.NotAllowed},
	} {
		p := must.Get(op.ParseParams([]byte(c.params)))(t, c.params)
		if err := s.Check(op.Signers, p); c.want == "" {
			require.NoError(t, err, c.params)
		} else {
			requireRefusal(t, err, c.want, c.params)
		}
	}
	requireRefusal(t, s.Check(op.Signers, op.Params{"epoch": int64(2), "add": []any{"a\u202eb"}}), refusal.Malformed)
	requireRefusal(t, s.Check(op.Signers, op.Params{"epoch": int64(2), "add": []any{"a\nb"}}), refusal.Malformed)
	refused := requireRefusal(t, s.Check(op.Signers, op.Params{"epoch": int64(0)}), refusal.BadParams)
	require.Equal(t, "trust.rotate: epoch is 0, outside 1 to 9007199254740991", refused.Detail)
}

func TestThereIsOneTrustFile(t *testing.T) {
	for _, name := range []string{"signer", "Signers", "signers2", "allowed_signers"} {
		err := lookup(t, "trust.rotate").Check(op.Target{Kind: op.KindTrust, Name: name}, op.Params{"epoch": int64(2)})
		requireRefusal(t, err, refusal.BadParams, name)
	}
	must.Get(op.ParseTarget(op.Signers.String()))(t)
}

func TestLabelsHaveALimit(t *testing.T) {
	for n, fits := range map[int]bool{op.MaxLabels - 1: true, op.MaxLabels: true, op.MaxLabels + 1: false} {
		p := op.Params{"labels": map[string]any{"tier": "prod", "x": strings.Repeat("\"", n-len("tierprodx"))}}
		err := lookup(t, "guest.set-config").Check(web1, p)
		if !fits {
			require.ErrorIs(t, err, refusal.Oversized)
			continue
		}
		require.NoError(t, err)
		require.Less(t, len(p.Canonical()), op.MaxPayload*3/4, "a payload has room for it")
	}
}

func TestParamsThatDoNotFit(t *testing.T) {
	for _, c := range []struct {
		op, params string
		want       refusal.Code
	}{
		// The second half of P08: a known operation with an unknown parameter.
		{"guest.destroy", `{"force":true}`, refusal.BadParams},
		{"guest.create", `{"Memory":512}`, refusal.BadParams},
		{"guest.destroy", `{"memory":512}`, refusal.BadParams},
		// P01: provenance is ours.
		{"guest.destroy", `{"scratch":true}`, refusal.BadParams},
		{"guest.set-config", `{"scratch":true}`, refusal.BadParams},
		{"guest.create", `{"provenance":"mine"}`, refusal.BadParams},
		{"guest.create", `{"created_by":"uid:0"}`, refusal.BadParams},
		{"guest.create", `{"class":"benign"}`, refusal.BadParams},
		{"guest.create", `{"benign":true}`, refusal.BadParams},
		// P13: only the operator's configuration may say this.
		{"guest.create", `{"environment":{"A":"b"}}`, refusal.NotAllowed},
		{"guest.create", `{"env":{}}`, refusal.NotAllowed},
		{"guest.create", `{"user":"root"}`, refusal.NotAllowed},
		{"guest.create", `{"argv":["sh"]}`, refusal.NotAllowed},
		{"guest.set-config", `{"mounts":[]}`, refusal.NotAllowed},
		{"guest.set-config", `{"disk":"/dev/sda"}`, refusal.NotAllowed},
		{"guest.start", `{"path":"/"}`, refusal.NotAllowed},
		// A command is a name, never a line for a shell.
		{"guest.create", `{"command":"/bin/sh"}`, refusal.BadParams},
		{"guest.create", `{"command":"web; rm -r x"}`, refusal.BadParams},
		{"guest.create", `{"command":["web"]}`, refusal.BadParams},
		// Below and above the limits.
		{"guest.create", `{"memory":0}`, refusal.BadParams},
		{"guest.create", `{"memory":-1}`, refusal.BadParams},
		{"guest.create", `{"memory":67108865}`, refusal.BadParams},
		{"guest.create", `{"cpus":0}`, refusal.BadParams},
		{"guest.create", `{"cpus":4097}`, refusal.BadParams},
		// Types.
		{"guest.create", `{"memory":"512MiB"}`, refusal.BadParams},
		{"guest.create", `{"memory":true}`, refusal.BadParams},
		{"guest.create", `{"cpus":[2]}`, refusal.BadParams},
		{"guest.create", `{"protected":"true"}`, refusal.BadParams},
		{"guest.create", `{"protected":1}`, refusal.BadParams},
		{"guest.create", `{"scratch":{}}`, refusal.BadParams},
		{"guest.create", `{"command":7}`, refusal.BadParams},
		{"guest.create", `{"labels":"tier=prod"}`, refusal.BadParams},
		{"guest.create", `{"labels":["tier"]}`, refusal.BadParams},
		{"guest.create", `{"labels":{"tier":1}}`, refusal.BadParams},
		{"guest.create", `{"labels":{"tier":{}}}`, refusal.BadParams},
		{"guest.create", `{"labels":{"":"x"}}`, refusal.BadParams},
		{"guest.create", `{"labels":{"../x":"y"}}`, refusal.BadParams},
		{"guest.create", `{"state":"absent"}`, refusal.BadParams},
		{"guest.create", `{"state":"Running"}`, refusal.BadParams},
		{"guest.create", `{"state":""}`, refusal.BadParams},
		// A required parameter, and misleading names.
		{"guest.snapshot", `{}`, refusal.BadParams},
		{"guest.restore", `{}`, refusal.BadParams},
		{"guest.snapshot-delete", `{}`, refusal.BadParams},
		{"guest.snapshot", `{"snapshot":""}`, refusal.BadParams},
		{"guest.snapshot", `{"snapshot":"None"}`, refusal.BadParams}, // what people read where there is none
		{"guest.snapshot", `{"snapshot":"../web-2"}`, refusal.BadParams},
		{"guest.snapshot", `{"snapshot":"a/b"}`, refusal.BadParams},
		{"guest.snapshot-delete", `{"snapshot":"*"}`, refusal.BadParams},
		{"guest.restore", `{"snapshot":["a"]}`, refusal.BadParams},
	} {
		p := must.Get(op.ParseParams([]byte(c.params)))(t, c.params)
		requireRefusal(t, lookup(t, c.op).Check(web1, p), c.want, c.op, c.params)
	}
}

func TestOpIsForItsKindOnly(t *testing.T) {
	for _, s := range op.Catalogue() {
		for _, kind := range []string{"", "guest", "command", "scope", "trust", "gate"} {
			if kind == s.Kind {
				continue
			}
			err := s.Check(op.Target{Kind: kind, Name: "web-1"}, op.Params{})
			requireRefusal(t, err, refusal.BadParams, s.Name, kind)
		}
	}
}

// TestCheckLooksAtTheTargetsName is matrix row B15 for a target that ParseTarget did
// not make.
func TestCheckLooksAtTheTargetsName(t *testing.T) {
	for _, name := range []string{"", "..", "a/b", "/etc", "*", "web-1 ", "wеb-1"} {
		err := lookup(t, "guest.destroy").Check(op.Target{Kind: "guest", Name: name}, op.Params{})
		requireRefusal(t, err, refusal.Malformed, name)
	}
}

// TestTextThatDoesNotShowAsItIs is matrix row B11 for values that ParseParams did
// not make: a flag, a desired-state file.
func TestTextThatDoesNotShowAsItIs(t *testing.T) {
	for _, bad := range []string{"\x1b[2J", "a\nb", "a\u200bb", "a\u202eb", "a\u2028b", "\xff", "\x00", "\ufeff"} {
		err := lookup(t, "guest.create").Check(web1, op.Params{"labels": map[string]any{"tier": bad}})
		requireRefusal(t, err, refusal.Malformed, bad)
		err = lookup(t, "guest.undelete").Check(web1, op.Params{"incarnation": bad})
		requireRefusal(t, err, refusal.Malformed, bad)
	}
}

// requireRefusal asserts that err is a refusal of exactly that code, with a
// sentence for people.
func requireRefusal(t require.TestingT, err error, code refusal.Code, what ...any) *refusal.Refusal {
	if h, ok := t.(interface{ Helper() }); ok {
		h.Helper()
	}
	var r *refusal.Refusal
	require.ErrorAs(t, err, &r, what...)
	require.Equal(t, code, r.Code, "%v: %s", what, r.Detail)
	require.NotEmpty(t, r.Detail, what...)
	return r
}
