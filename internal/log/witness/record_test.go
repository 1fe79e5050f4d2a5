package witness_test

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/log/witness"
	"gated/internal/test/must"
)

// file is the file on disk after a gate grew and then showed another log.
func file(t testing.TB) []byte {
	d := witness.Dir{Path: t.TempDir() + "/witness", Now: func() time.Time { return noon }}
	f := newFake(t, entries("a", 1, 9)...)
	must.Get(d.Check(context.Background(), of, f))(t)
	f.become(t, entries("b", 1, 9)...)
	must.Fail(d.Check(context.Background(), of, f))(t, refusal.BindingMismatch)
	f.become(t, entries("a", 1, 12)...)
	must.Get(d.Check(context.Background(), of, f))(t)
	return must.Get(os.ReadFile(d.File(gate)))(t)
}

func TestWhatIsExportedIsRead(t *testing.T) {
	text := file(t)
	records := must.Get(witness.ParseExport(text))(t)
	require.Len(t, records, 2)
	require.False(t, records[0].Contradiction())
	require.EqualValues(t, 12, records[0].Head().Size)
	require.Equal(t, witness.OtherRoot, records[1].Why)
	again := must.Get(witness.Export(witness.Memory{Head: records[0], Contradictions: records[1:]}))(t)
	require.Equal(t, string(text), string(again))
}

// TestOneFieldWrong takes a good file and changes one thing.
func TestOneFieldWrong(t *testing.T) {
	good := string(file(t))
	head, contradiction, _ := strings.Cut(good, "\n")
	contradiction = strings.TrimSuffix(contradiction, "\n")
	for name, text := range map[string]string{
		"no line end":            head,
		"empty":                  "",
		"an empty line":          head + "\n\n",
		"another type":           strings.Replace(head, "witness/v1", "witness/v2", 1) + "\n",
		"another gate":           strings.Replace(head, `"gate":"0`, `"gate":"1`, 1) + "\n",
		"no gate":                strings.Replace(head, string(gate), "x", 1) + "\n",
		"no host":                strings.Replace(head, `"host":"pve1"`, `"host":""`, 1) + "\n",
		"a host with an escape":  strings.Replace(head, `"host":"pve1"`, `"host":"\u001b[2J"`, 1) + "\n",
		"no address":             strings.Replace(head, `"address":"unix:/run/gated/gated.sock"`, `"address":""`, 1) + "\n",
		"an address with a bell": strings.Replace(head, `"address":"unix`, `"address":"\u0007`, 1) + "\n",
		"no time":                strings.Replace(head, "2026-03-01T12:00:00Z", "0001-01-01T00:00:00Z", 1) + "\n",
		"another zone":           strings.Replace(head, "2026-03-01T12:00:00Z", "2026-03-01T13:00:00+01:00", 1) + "\n",
		"parts of a second":      strings.Replace(head, "12:00:00Z", "12:00:00.5Z", 1) + "\n",
		"another size":           strings.Replace(head, `\n12\n`, `\n13\n`, 1) + "\n",
		"a space":                strings.Replace(head, `,"host"`, `, "host"`, 1) + "\n",
		"a member twice":         strings.Replace(head, `,"host"`, `,"type":"gated/witness/v1","host"`, 1) + "\n",
		"an unknown member":      strings.Replace(head, `,"host"`, `,"x":1,"host"`, 1) + "\n",
		"a reason for nothing":   strings.TrimSuffix(head, "}") + `,"why":"shorter"}` + "\n",
		"against nothing":        strings.TrimSuffix(head, "}") + `,"against":null}` + "\n",
		"a wrong reason":         strings.Replace(contradiction, `"why":"other-root"`, `"why":"shorter"`, 1) + "\n",
		"a reason of none":       strings.Replace(contradiction, `"why":"other-root"`, `"why":"no-proof"`, 1) + "\n",
		"an unknown reason":      strings.Replace(contradiction, `"why":"other-root"`, `"why":"x"`, 1) + "\n",
		"no reason":              strings.Replace(contradiction, `"why":"other-root",`, ``, 1) + "\n",
	} {
		require.NotEqual(t, good, text, name)
		require.NotEqual(t, head+"\n", text, name)
		require.NotEqual(t, contradiction+"\n", text, name)
		must.Fail(witness.ParseExport([]byte(text)))(t, refusal.Malformed, name)
	}
	// A gate's file has a head of that gate first, and then contradictions.
	d := dirIn(t)
	require.NoError(t, os.MkdirAll(d.Path, 0o700))
	for name, text := range map[string]string{"empty": "", "no head": contradiction + "\n", "two heads": head + "\n" + head + "\n",
		"too many": head + "\n" + strings.Repeat(contradiction+"\n", 17)} {
		require.NoError(t, os.WriteFile(d.File(gate), []byte(text), 0o600))
		_, err := d.Remembered(gate)
		require.ErrorIs(t, err, refusal.Malformed, name)
		require.Contains(t, refusal.As(err).Hint, "Keep it", name)
		must.Fail(d.List())(t, refusal.Malformed, name)
		must.Fail(d.Check(context.Background(), of, newFake(t, "x")))(t, refusal.Malformed, name)
	}
	require.NoError(t, os.WriteFile(d.File(gate), []byte(good), 0o600))
	require.Len(t, must.Get(d.List())(t), 1)
	const other = op.GateID("ffffffffffffffffffffffffffffffff")
	require.NoError(t, os.Rename(d.File(gate), d.File(other)))
	must.Fail(d.Remembered(other))(t, refusal.Malformed, "a head under another gate's name")
}

// TestFilesThatProveNothing: they are refused before the gate is asked.
func TestFilesThatProveNothing(t *testing.T) {
	d, f := dirIn(t), newFake(t, entries("a", 1, 9)...)
	sees(t, d, f)
	path := d.File(gate)
	refused := func() {
		t.Helper()
		f.before = func() { t.Error("the gate was asked") }
		must.Fail(d.Check(context.Background(), of, f))(t, refusal.NotAllowed)
		must.Fail(d.Remembered(gate))(t, refusal.NotAllowed)
		f.before = nil
	}
	require.NoError(t, os.Chmod(path, 0o620))
	refused()
	require.NoError(t, os.Chmod(path, 0o600))
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chown(path, 12345, 0))
		refused()
		require.NoError(t, os.Chown(path, 0, 0))
	}
	require.NoError(t, os.Chmod(d.Path, 0o777))
	refused()
	require.NoError(t, os.Chmod(d.Path, 0o700))
	require.NoError(t, os.Rename(path, path+"-elsewhere"))
	require.NoError(t, os.Symlink(path+"-elsewhere", path))
	refused()
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Rename(path+"-elsewhere", path))
	sees(t, d, f)
}

// TestTwoOperatorsWithDifferentLogs: they notice that the gate showed them different
// logs.
func TestTwoOperatorsWithDifferentLogs(t *testing.T) {
	mine, theirs, f := dirIn(t), dirIn(t), newFake(t, entries("a", 1, 9)...)
	sees(t, theirs, f)
	export := func() []witness.Record {
		m := must.Get(theirs.Remembered(gate))(t)
		text := must.Get(witness.Export(*m))(t)
		return must.Get(witness.ParseExport(text))(t)
	}
	compare := func(want witness.Why) {
		t.Helper()
		found := must.Get(witness.Compare(context.Background(), sees(t, mine, f), export(), f))(t)
		require.Len(t, found, 1)
		require.Equal(t, want, found[0].Why)
	}
	compare("")
	f.grow(t, entries("a", 10, 12)...)
	compare("")
	mine = dirIn(t)
	for why, texts := range map[witness.Why][]string{witness.NoProof: entries("b", 1, 30), witness.OtherRoot: entries("b", 1, 9),
		witness.Shorter: entries("a", 1, 3)} {
		mine = dirIn(t)
		f.become(t, texts...)
		compare(why)
	}
	mine = dirIn(t)
	f.become(t, entries("a", 1, 20)...)
	f.key = newFake(t).key
	compare(witness.OtherKey)

	// Heads of other gates do not matter here.
	c := sees(t, mine, f)
	c.Head.Gate = "ffffffffffffffffffffffffffffffff"
	require.Empty(t, must.Get(witness.Compare(context.Background(), c, export(), f))(t))
}

func FuzzParseRecord(f *testing.F) {
	for line := range bytes.Lines(file(f)) {
		f.Add(bytes.TrimSuffix(line, []byte("\n")))
	}
	f.Add([]byte(`{"type":"gated/witness/v1"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := witness.ParseRecord(line)
		if err != nil {
			require.ErrorIs(t, err, refusal.Malformed)
			return
		}
		m := witness.Memory{Head: r}
		text := must.Get(witness.Export(m))(t)
		require.Equal(t, string(line)+"\n", string(text), "one form")
		require.Equal(t, r.Gate, r.Head().Gate)
	})
}

func FuzzParseExport(f *testing.F) {
	f.Add(file(f))
	f.Add([]byte("\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		records, err := witness.ParseExport(text)
		if err != nil {
			require.ErrorIs(t, err, refusal.Malformed)
			return
		}
		again := must.Get(witness.Export(witness.Memory{Head: records[0], Contradictions: records[1:]}))(t)
		require.Equal(t, string(text), string(again))
	})
}
