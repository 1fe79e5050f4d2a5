package shown_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/people/shown"
	"gated/internal/test/must"
)

const gate = op.GateID("0123456789abcdef0123456789abcdef")

var noon = time.Date(2026, 3, 1, 12, 0, 0, 5, time.UTC)

func payload(t testing.TB, change func(*op.Payload)) []byte {
	p := op.Payload{Gate: gate, Host: "pve1", Op: "guest.destroy", Target: op.Target{Kind: "guest", Name: "web-1"}, Incarnation: "a:1:2",
		State: op.FingerprintOf(nil), Params: op.Params{}, Nonce: op.NewNonce(noon), IssuedAt: noon.Truncate(time.Second),
		ExpiresAt: noon.Truncate(time.Second).Add(time.Hour)}
	change(&p)
	return must.Get(p.Encode())(t)
}

func beside() *shown.Beside {
	return &shown.Beside{Facts: []op.Fact{{Name: "files", Text: "3"}}, FactsAt: noon, Labels: map[string]string{"tier": "prod", "a": "b"},
		Rule: "destroy-unproven", Why: "it would be gone"}
}

func record(t testing.TB, id string, more *shown.Beside) shown.Record {
	return must.Get(shown.RecordOf(id, payload(t, func(*op.Payload) {}), more, shown.OnTerminal, noon))(t)
}

func id(t testing.TB, text string) op.RequestID { return must.Get(op.ParseStepID(text))(t) }

// dir is a place for records, and the file of j1.1 there.
func dir(t testing.TB) (shown.Dir, string) {
	d := shown.Dir{Path: filepath.Join(t.TempDir(), "opsign", "shown")}
	return d, filepath.Join(d.Path, string(gate), "j1.1.json")
}

func TestWhatIsKeptIsReadAgain(t *testing.T) {
	d, file := dir(t)
	require.Nil(t, must.Get(d.Last(gate, id(t, "j1.1")))(t))
	for _, more := range []*shown.Beside{nil, beside(), {}} {
		r := record(t, "j1.1", more)
		require.NoError(t, d.Keep(r))
		require.True(t, must.Get(d.Last(gate, id(t, "j1.1")))(t).Is([]byte(r.Payload)))
		require.False(t, must.Get(d.Last(gate, id(t, "j1.1")))(t).Is(payload(t, func(p *op.Payload) { p.Reason = "x" })))
		require.Equal(t, more == nil, must.Get(d.Last(gate, id(t, "j1.1")))(t).Beside == nil)
		require.Equal(t, "2026-03-01T12:00:00Z", r.Shown.Format(time.RFC3339Nano))
	}
	require.Nil(t, must.Get(d.Last(gate, id(t, "j1.2")))(t), "each request has its own")
	require.Nil(t, must.Get(d.Last("ffffffffffffffffffffffffffffffff", id(t, "j1.1")))(t), "and each gate")
	for path, mode := range map[string]os.FileMode{file: 0o600, filepath.Dir(file): 0o700 | os.ModeDir, d.Path: 0o700 | os.ModeDir} {
		require.Equal(t, mode, must.Get(os.Lstat(path))(t).Mode(), path)
	}
}

// TestOneFieldWrong takes a good file and changes one thing.
func TestOneFieldWrong(t *testing.T) {
	d, file := dir(t)
	was := record(t, "j1.1", beside())
	require.NoError(t, d.Keep(was))
	good := string(must.Get(os.ReadFile(file))(t))
	swap := func(old, new string) string { return strings.Replace(good, old, new, 1) }
	for name, text := range map[string]string{
		"empty":                  "",
		"no line end":            strings.TrimSuffix(good, "\n"),
		"two lines":              good + good,
		"cut off":                good[:len(good)/2],
		"another type":           swap("shown/v1", "shown/v2"),
		"another gate":           swap(`"gate":"0`, `"gate":"1`),
		"no gate":                swap(string(gate), "x"),
		"another request":        swap(`"request":"j1.1"`, `"request":"j1.2"`),
		"no request":             swap(`"request":"j1.1"`, `"request":"j1"`),
		"another way to name it": swap(`"request":"j1.1"`, `"request":"j01.1"`),
		"another way":            swap(`"way":"terminal"`, `"way":"mirror"`),
		"no way":                 swap(`"way":"terminal"`, `"way":""`),
		"no time":                swap("2026-03-01T12:00:00Z", "0001-01-01T00:00:00Z"),
		"another zone":           swap("2026-03-01T12:00:00Z", "2026-03-01T13:00:00+01:00"),
		"another digest":         swap(was.SHA256, op.SHA256(nil)),
		"another payload":        swap("web-1", "web-2"),
		"no payload":             swap(`"payload":"{`, `"payload":"x{`),
		"a space":                swap(`,"request"`, `, "request"`),
		"a member twice":         swap(`,"request"`, `,"type":"gated/shown/v1","request"`),
		"an unknown member":      swap(`,"request"`, `,"x":1,"request"`),
		"a label twice":          swap(`"tier":"prod"`, `"tier":"prod","tier":"prod"`),
		"labels in disorder":     swap(`"a":"b","tier":"prod"`, `"tier":"prod","a":"b"`),
		"beside is null":         good[:strings.Index(good, `"beside"`)] + `"beside":null}` + "\n",
	} {
		require.NotEqual(t, good, text, name)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, err := d.Last(gate, id(t, "j1.1"))
		require.ErrorIs(t, err, refusal.Malformed, name)
		require.ErrorContains(t, err, file)
	}
	require.NoError(t, os.WriteFile(file, []byte(good), 0o600))
	must.Get(d.Last(gate, id(t, "j1.1")))(t)
}

// TestAnOlderRecordIsRead: an opsign that did not say how it showed a request wrote the same form without that.
func TestAnOlderRecordIsRead(t *testing.T) {
	d, file := dir(t)
	require.NoError(t, d.Keep(record(t, "j1.1", beside())))
	text := strings.Replace(string(must.Get(os.ReadFile(file))(t)), `"way":"terminal",`, "", 1)
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	require.Empty(t, must.Get(d.Last(gate, id(t, "j1.1")))(t).Way)
}

// TestWhatAPersonSawStays: whoever shows a request to programs, and in which order, what a terminal showed is replaced by a
// terminal alone, also what was beside the bytes. What was beside bytes is not forgotten for the bytes.
func TestWhatAPersonSawStays(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := shown.Dir{Path: filepath.Join(must.Get(os.MkdirTemp(t.TempDir(), ""))(rt), "shown")}
		var want *shown.Record
		for range rapid.IntRange(1, 8).Draw(rt, "times") {
			way := rapid.SampledFrom([]shown.Way{"", shown.OnTerminal, shown.ToProgram}).Draw(rt, "way")
			bytes := payload(t, func(p *op.Payload) {
				p.Nonce = strings.Repeat("0", len(p.Nonce))
				p.Target.Name = rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "target")
			})
			more := rapid.SampledFrom([]*shown.Beside{nil, beside(), {Why: "w"}}).Draw(rt, "beside")
			r := must.Get(shown.RecordOf("j1.1", bytes, more, way, noon))(rt)
			err := d.Keep(r)
			same := want != nil && want.SHA256 == r.SHA256
			switch person := want != nil && want.Way != shown.ToProgram; {
			case way == shown.ToProgram && person && !same:
				require.ErrorIs(rt, err, shown.ErrPersonSawOther)
			case way == shown.ToProgram && same && (person || more == nil):
				require.NoError(rt, err)
			default:
				require.NoError(rt, err)
				want = &r
			}
			got := must.Get(d.Last(gate, id(t, "j1.1")))(rt)
			require.Equal(rt, want.SHA256, got.SHA256)
			require.Equal(rt, want.Way, got.Way)
			require.Equal(rt, want.Beside == nil, got.Beside == nil)
			if want.Beside != nil {
				require.Equal(rt, want.Beside.Why, got.Beside.Why)
			}
		}
	})
}

// TestAPersonLooksWhileAProgramDoes: whoever of the two comes first, the terminal's bytes are kept.
func TestAPersonLooksWhileAProgramDoes(t *testing.T) {
	d, _ := dir(t)
	of := func(target string, way shown.Way) shown.Record {
		bytes := payload(t, func(p *op.Payload) { p.Target.Name = target })
		return must.Get(shown.RecordOf("j1.1", bytes, nil, way, noon))(t)
	}
	person, program := of("a", shown.OnTerminal), of("b", shown.ToProgram)
	for range 100 {
		require.NoError(t, d.Forget(gate))
		var both sync.WaitGroup
		for _, r := range []shown.Record{person, program} {
			both.Go(func() {
				if err := d.Keep(r); err != nil && !errors.Is(err, shown.ErrPersonSawOther) {
					t.Error(err)
				}
			})
		}
		both.Wait()
		require.Equal(t, person.SHA256, must.Get(d.Last(gate, id(t, "j1.1")))(t).SHA256)
	}
}

// TestForget: nothing of a gate's requests stays, and all of another's.
func TestForget(t *testing.T) {
	d, file := dir(t)
	require.NoError(t, d.Forget(gate), "nothing is kept yet")
	require.NoError(t, d.Keep(record(t, "j1.1", nil)))
	require.NoError(t, d.Keep(record(t, "j1.2", nil)))
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(file), ".j7.1.json-12"), []byte("{"), 0o600))
	other := filepath.Join(d.Path, strings.Repeat("f", 32), "j1.1.json")
	require.NoError(t, os.Mkdir(filepath.Dir(other), 0o700))
	require.NoError(t, os.WriteFile(other, nil, 0o600))
	require.NoError(t, d.Forget("../"+gate))
	require.FileExists(t, file)
	require.NoError(t, d.Forget(gate))
	require.NoDirExists(t, filepath.Dir(file))
	require.FileExists(t, other)

	require.NoError(t, d.Keep(record(t, "j1.1", nil)))
	photo := filepath.Join(filepath.Dir(file), "photo.json")
	require.NoError(t, os.WriteFile(photo, nil, 0o600))
	require.NoError(t, d.Forget(gate))
	require.NoFileExists(t, file)
	require.FileExists(t, photo)
}

// TestAFileThatProvesNothing: what another user could have written is refused, and so is what is no file.
func TestAFileThatProvesNothing(t *testing.T) {
	for name, spoil := range map[string]func(file string) error{
		"a file that others may write":       func(f string) error { return os.Chmod(f, 0o620) },
		"a directory that others may write":  func(f string) error { return os.Chmod(filepath.Dir(f), 0o777) },
		"a link":                             func(f string) error { return errors.Join(os.Rename(f, f+"x"), os.Symlink(f+"x", f)) },
		"a directory in the place of a file": func(f string) error { return errors.Join(os.Remove(f), os.Mkdir(f, 0o700)) },
	} {
		d, file := dir(t)
		require.NoError(t, d.Keep(record(t, "j1.1", nil)))
		require.NoError(t, spoil(file), name)
		must.Fail(d.Last(gate, id(t, "j1.1")))(t, refusal.NotAllowed, name)
	}
	if os.Geteuid() == 0 {
		d, file := dir(t)
		require.NoError(t, d.Keep(record(t, "j1.1", nil)))
		require.NoError(t, os.Chown(file, 12345, -1))
		must.Fail(d.Last(gate, id(t, "j1.1")))(t, refusal.NotAllowed)
	}
}

// TestWhatCannotBeKept: no older record stays in the place of what was shown last.
func TestWhatCannotBeKept(t *testing.T) {
	d, _ := dir(t)
	require.ErrorIs(t, shown.Dir{}.Keep(record(t, "j1.1", nil)), shown.ErrNoPlace)
	require.Nil(t, must.Get(shown.Dir{}.Last(gate, id(t, "j1.1")))(t))
	most := func(n int) *shown.Beside { return &shown.Beside{Why: strings.Repeat("x", n)} }
	fits := 256<<10 - len(must.Get(os.ReadFile(kept(t, d, record(t, "j1.1", most(0)))))(t))
	require.NoError(t, d.Keep(record(t, "j1.1", most(fits))))
	for name, r := range map[string]shown.Record{
		"too long":     record(t, "j1.1", most(fits+1)),
		"no JSON":      record(t, "j1.1", &shown.Beside{Why: "\xff"}),
		"no payload":   {Type: "gated/shown/v1", Gate: gate, Request: "j1.1", Shown: noon.Truncate(time.Second), SHA256: op.SHA256(nil)},
		"another type": {Gate: gate, Request: "j1.1"},
	} {
		require.NoError(t, d.Keep(record(t, "j1.1", nil)))
		require.Error(t, d.Keep(r), name)
		require.Nil(t, must.Get(d.Last(gate, id(t, "j1.1")))(t), name)
	}
	for _, name := range []string{"", "j1", "../j1.1", "j1.1/x"} {
		require.ErrorIs(t, d.Keep(record(t, name, nil)), refusal.Malformed, name)
	}
}

// kept keeps a record and returns its file.
func kept(t testing.TB, d shown.Dir, r shown.Record) string {
	require.NoError(t, d.Keep(r))
	return filepath.Join(d.Path, string(r.Gate), r.Request+".json")
}

// TestTheNewestAreKept: the oldest files go, also what a crash left.
func TestTheNewestAreKept(t *testing.T) {
	d, file := dir(t)
	kept(t, d, record(t, "j1.1", nil))
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(file), ".j7.1.json-12"), []byte("{"), 0o600))
	old := func(name string, n int) {
		at := noon.Add(time.Duration(n-10_000) * time.Minute)
		require.NoError(t, os.Chtimes(filepath.Join(filepath.Dir(file), name), at, at))
	}
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(file), "photo.json"), nil, 0o600))
	old("photo.json", -1)
	old(".j7.1.json-12", 0)
	old("j1.1.json", 1)
	for i := 2; i <= 2048; i++ {
		name := fmt.Sprintf("j%d.1.json", i)
		require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(file), name), nil, 0o600))
		old(name, i)
	}
	kept(t, d, record(t, "j3000.1", nil))
	require.Len(t, must.Get(os.ReadDir(filepath.Dir(file)))(t), 2048+1)
	require.FileExists(t, filepath.Join(filepath.Dir(file), "photo.json"), "what is no record stays")
	require.NoFileExists(t, file)
	require.FileExists(t, filepath.Join(filepath.Dir(file), "j2.1.json"))
	must.Get(d.Last(gate, id(t, "j3000.1")))(t)
}

// TestAClockThatWasSetBack: what was shown last is kept, also if all others seem to be newer.
func TestAClockThatWasSetBack(t *testing.T) {
	d, file := dir(t)
	kept(t, d, record(t, "j1.1", nil))
	later := time.Now().Add(24 * time.Hour)
	for i := 2; i <= 2048; i++ {
		path := filepath.Join(filepath.Dir(file), fmt.Sprintf("j%d.1.json", i))
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		require.NoError(t, os.Chtimes(path, later, later))
	}
	require.NoError(t, os.Chtimes(file, later, later))
	kept(t, d, record(t, "j3000.1", nil))
	require.NotNil(t, must.Get(d.Last(gate, id(t, "j3000.1")))(t))
	require.Len(t, must.Get(os.ReadDir(filepath.Dir(file)))(t), 2048)
}

// TestManyProgramsKeep: who reads sees one of the records whole, whoever writes meanwhile.
func TestManyProgramsKeep(t *testing.T) {
	d, _ := dir(t)
	kept(t, d, record(t, "j1.1", nil))
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 20 {
				r := record(t, "j1.1", &shown.Beside{Why: strings.Repeat("x", 1000*i+n)})
				if err := d.Keep(r); err != nil {
					t.Error(err)
				}
				if was, err := d.Last(gate, id(t, "j1.1")); err != nil || was == nil {
					t.Error("nothing is kept", err)
				}
			}
		})
	}
	all.Wait()
}

// TestWhateverAGateSays: what is kept of any facts and labels is what was shown.
func TestWhateverAGateSays(t *testing.T) {
	d, _ := dir(t)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String()
		b := shown.Beside{FactsAt: noon, Rule: text.Draw(t, "rule"), Why: text.Draw(t, "why"),
			Labels: rapid.MapOf(text, text).Draw(t, "labels")}
		for range rapid.IntRange(0, 4).Draw(t, "facts") {
			b.Facts = append(b.Facts, op.Fact{Name: text.Draw(t, "name"), Text: text.Draw(t, "text")})
		}
		r := shown.Record{Type: "gated/shown/v1", Gate: gate, Request: "j1.1", Shown: noon.Truncate(time.Second)}
		p := op.Payload{Gate: gate, Host: "pve1", Op: "guest.destroy", Target: op.Target{Kind: "guest", Name: "web-1"}, Incarnation: "a:1:2",
			State: op.FingerprintOf(nil), Params: op.Params{}, Nonce: op.NewNonce(noon), IssuedAt: r.Shown, ExpiresAt: r.Shown.Add(time.Hour)}
		bytes, err := p.Encode()
		require.NoError(t, err)
		r.Payload, r.SHA256, r.Beside = string(bytes), op.SHA256(bytes), &b
		require.NoError(t, d.Keep(r))
		was, err := d.Last(gate, op.RequestID{Job: 1, Index: 1})
		require.NoError(t, err)
		require.Equal(t, len(b.Facts), len(was.Beside.Facts))
		for i, f := range b.Facts {
			require.Equal(t, f, was.Beside.Facts[i])
		}
		require.Equal(t, len(b.Labels), len(was.Beside.Labels))
		for name, value := range b.Labels {
			require.Equal(t, value, was.Beside.Labels[name])
		}
		require.Equal(t, b.Why, was.Beside.Why)
		require.Equal(t, b.Rule, was.Beside.Rule)
	})
}
