package op

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

func TestParseArgs(t *testing.T) {
	create := must.Get(Lookup("guest.create"))(t)
	for _, c := range []struct {
		args []string
		want Params
	}{
		{nil, Params{}},
		{[]string{"memory=512"}, Params{"memory": int64(512)}},
		{[]string{"memory=512MiB"}, Params{"memory": int64(512)}},
		{[]string{"memory=2GiB", "cpus=2"}, Params{"memory": int64(2048), "cpus": int64(2)}},
		{[]string{"protected=true", "scratch=false"}, Params{"protected": true, "scratch": false}},
		{[]string{"command=web", "state=running"}, Params{"command": "web", "state": "running"}},
		{[]string{"command="}, Params{"command": ""}},
		{[]string{"command=a=b"}, Params{"command": "a=b"}},
		{[]string{"labels.tier=prod", "labels.a.b=c=d"}, Params{"labels": map[string]any{"tier": "prod", "a.b": "c=d"}}},
		{[]string{`labels={"tier":"prod"}`, "labels.x=y"}, Params{"labels": map[string]any{"tier": "prod", "x": "y"}}},
		{[]string{"labels.x=y", `labels={"tier":"prod"}`}, Params{"labels": map[string]any{"tier": "prod", "x": "y"}}},
		{[]string{"labels={}"}, Params{"labels": map[string]any{}}},
		{[]string{"argv=rm -rf", "user.name=x"}, Params{"argv": "rm -rf", "user.name": "x"}},
	} {
		got := must.Get(create.ParseArgs(c.args))(t, c.args)
		require.Equal(t, c.want, got, c.args)
	}
}

func TestParseArgsOfLines(t *testing.T) {
	rotate := must.Get(Lookup("trust.rotate"))(t)
	line := `bob@example.com namespaces="operational@gated" ssh-ed25519 AAAA= a=b`
	p, err := rotate.ParseArgs([]string{"add=" + line, "epoch=2", "remove=SHA256:a", "remove=SHA256:b", "add=x"})
	require.NoError(t, err)
	require.Equal(t, Params{"add": []any{line, "x"}, "remove": []any{"SHA256:a", "SHA256:b"}, "epoch": int64(2)}, p)
	require.Equal(t, []string{line, "x"}, p.Lines("add"), "in the order in which they are typed")
	require.NoError(t, rotate.Check(Signers, p))

	// Check decides what a line is. ParseArgs refuses only what could not be sent.
	for _, args := range [][]string{{"epoch=2", "epoch=3"}, {"epoch=two"}, {"add"}} {
		must.Fail(rotate.ParseArgs(args))(t, refusal.BadParams, args)
	}
	must.Fail(rotate.ParseArgs([]string{"add=a\nb"}))(t, refusal.Malformed)
	p = must.Get(rotate.ParseArgs([]string{"epoch=2", "remove="}))(t)
	require.ErrorIs(t, rotate.Check(Signers, p), refusal.BadParams)
	p = must.Get(rotate.ParseArgs([]string{"epoch=2", "remove=a", "remove=a"}))(t)
	require.ErrorIs(t, rotate.Check(Signers, p), refusal.BadParams)
}

func TestParseArgsRefuses(t *testing.T) {
	create := must.Get(Lookup("guest.create"))(t)
	for _, args := range [][]string{
		{"memory"}, {"=1"}, {"memory=lots"}, {"memory="}, {"memory=1.5"}, {"memory=0x10"}, {"memory=512MB"}, {"cpus=1GiB"},
		{"memory=9007199254740991TiB"}, {"memory=9007199254740992"}, {"memory=1", "memory=1"}, {"protected=yes"},
		{"protected=TRUE"}, {"labels=x"}, {"labels=[1]"}, {`labels={"a":1}`}, {`labels={"a":"1","a":"2"}`},
		{"labels.a=1", "labels.a=1"}, {"labels.a=1", `labels={"a":"2"}`}, {"unknown=1", "unknown=2"},
	} {
		must.Fail(create.ParseArgs(args))(t, refusal.BadParams, args)
	}
}

// TestParseArgsOfTextThatDoesNotShow: such parameters have no JSON form.
func TestParseArgsOfTextThatDoesNotShow(t *testing.T) {
	create := must.Get(Lookup("guest.create"))(t)
	for _, arg := range []string{"command=\xff", "labels.a=\xff", "labels.\xff=a", "unknown=\x1b[2J", "\xff=1", "state=a\u202eb"} {
		must.Fail(create.ParseArgs([]string{arg}))(t, refusal.Malformed, "%q", arg)
	}
}

func TestParseArgsOfAnUnknownOperationAreStrings(t *testing.T) {
	p := must.Get(Spec{}.ParseArgs([]string{"memory=1", "labels.a=b"}))(t)
	require.Equal(t, Params{"memory": "1", "labels.a": "b"}, p)
}

func TestShown(t *testing.T) {
	require.Equal(t, "grün", Shown("grün"))
	require.Equal(t, `"\x1b[2Jred"`, Shown("\x1b[2Jred"))
	require.Equal(t, `"a\nb"`, Shown("a\nb"))
	require.Equal(t, `"\u202etxt"`, Shown("\u202etxt"))
	require.Equal(t, `"\xff"`, Shown("\xff"))
}

// TestTheExampleOfANumber: whoever types the example of a hint asks for what fits most machines.
func TestTheExampleOfANumber(t *testing.T) {
	for _, s := range Catalogue() {
		for _, d := range s.Params {
			if d.Unit == "" {
				continue
			}
			_, err := s.ParseArgs([]string{d.Name + "=0.5"})
			_, example, ok := strings.Cut(refusal.As(err).Hint, ": ")
			require.True(t, ok, d.Name)
			n := must.Get(s.ParseArgs([]string{example}))(t).Int(d.Name)
			require.GreaterOrEqual(t, n, d.Min, d.Name)
			require.LessOrEqual(t, n, map[string]int64{"MiB": 512, "CPUs": 2}[d.Unit], d.Name)
		}
	}
}
