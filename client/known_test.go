package client

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

var (
	idA = op.GateID(strings.Repeat("a", 32))
	idB = op.GateID(strings.Repeat("b", 32))
)

func TestParseAddress(t *testing.T) {
	for text, want := range map[string]Address{
		"/run/gated/gated.sock":      "unix:/run/gated/gated.sock",
		"unix:/run/gated/gated.sock": "unix:/run/gated/gated.sock",
		"/a b/s%":                    "unix:/a%20b/s%25",
		"unix:/a%20b/s%25":           "unix:/a%20b/s%25",
		"ssh://pve1/":                "ssh://pve1",
		"ssh://a@h:1/s":              "ssh://a@h:1/s",
	} {
		got := must.Get(ParseAddress(text))(t, text)
		require.Equal(t, want, got)
	}
	for _, bad := range []string{"", "s", "unix:s", "unix:", "unix:/%2", "unix:/%41", "unix:/%2a", "unix:/a b", "ssh://", "ssh://h h", "http://h"} {
		must.Fail(ParseAddress(bad))(t, refusal.Malformed, "%q", bad)
	}
	require.True(t, Address("ssh://h").Remote())
	require.False(t, UnixAddress("/ssh://h").Remote())
}

func TestParseKnownIsStrict(t *testing.T) {
	good := "unix:/s pve1 " + string(idA)
	for text, line := range map[string]int{
		"unix:/s pve1":                        1,
		good + " x":                           1,
		" " + good:                            1,
		good + " ":                            1,
		good + "\r\n":                         1,
		"# c\n\nunix:/s  pve1 " + string(idA): 3,
		good + "\nunix:/s pve2 " + string(idB) + "\n":                       2,
		good + "\nunix:/t pve1 " + strings.ToUpper(string(idA)):             2,
		"unix:/t pve1 " + string(idA[1:]):                                   1,
		"unix:s pve1 " + string(idA):                                        1,
		"unix:/a/../s pve1 " + string(idA):                                  1,
		"/s pve1 " + string(idA):                                            1,
		"ssh://h/ pve1 " + string(idA):                                      1,
		"ssh://h;id pve1 " + string(idA):                                    1,
		"unix:/s  " + string(idA):                                           1,
		"unix:/s pve%31 " + string(idA):                                     1,
		"unix:/s %0A " + string(idA):                                        1,
		"unix:/s " + strings.Repeat("h", maxHostText+1) + " " + string(idA): 1,
	} {
		_, err := ParseKnown("known_gates", []byte(text))
		require.ErrorIs(t, err, refusal.Malformed, "%q", text)
		require.ErrorContains(t, err, fmt.Sprintf("known_gates:%d: ", line), "%q", text)
	}
	gates := must.Get(ParseKnown("f", []byte(knownHeader+"\n"+good+"\n#x\nssh://a@h:1/s my%20host "+string(idB))))(t)
	require.Equal(t, []KnownGate{{"unix:/s", "pve1", idA, 3}, {"ssh://a@h:1/s", "my host", idB, 5}}, gates)
}

func TestKnownParsePrint(t *testing.T) {
	host := rapid.StringOfN(rapid.RuneFrom([]rune("aZ09-._ %#äß漢\"'")), 1, 40, maxHostText)
	rapid.Check(t, func(t *rapid.T) {
		var want []KnownGate
		var text strings.Builder
		for i := range rapid.IntRange(0, 5).Draw(t, "gates") {
			k := KnownGate{Host: host.Draw(t, "host"), Gate: op.GateID(rapid.StringMatching(`[0-9a-f]{32}`).Draw(t, "gate")), Line: i + 1}
			if rapid.Bool().Draw(t, "remote") {
				k.Address = Address(Remote{Host: fmt.Sprintf("h%d", i)}.String())
			} else {
				k.Address = UnixAddress(fmt.Sprintf("/%d/%s", i, rapid.String().Draw(t, "path")))
			}
			want = append(want, k)
			text.WriteString(k.String() + "\n")
		}
		got := must.Get(ParseKnown("f", []byte(text.String())))(t, text.String())
		require.Equal(t, want, got)
	})
}

func FuzzParseKnown(f *testing.F) {
	f.Add([]byte(knownHeader + "unix:/run/gated/gated.sock pve1 " + string(idA) + "\nssh://a@h:1/s my%20host " + string(idB) + "\n"))
	f.Add([]byte("unix:/a%20b h " + string(idA) + "\n\n# c\n"))
	f.Add([]byte("unix:/s h " + string(idA) + "\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		gates, err := ParseKnown("f", text)
		if err != nil {
			require.ErrorIs(t, err, refusal.Malformed)
			return
		}
		lines := strings.Split(string(text), "\n")
		for _, k := range gates {
			require.Equal(t, lines[k.Line-1], k.String())
			require.True(t, k.Gate.Valid())
		}
	})
}

func knownIn(t *testing.T) KnownGates {
	t.Helper()
	return KnownGatesOf(env{"XDG_CONFIG_HOME": filepath.Join(t.TempDir(), "config")}.get)
}

func TestWhereKnownGatesIs(t *testing.T) {
	for want, e := range map[string]env{
		"/x/gated/known_gates":         {"XDG_CONFIG_HOME": "/x", "HOME": "/h"},
		"/h/.config/gated/known_gates": {"XDG_CONFIG_HOME": "x", "HOME": "/h"},
		"":                             {"HOME": "h"},
	} {
		require.Equal(t, want, KnownGatesOf(e.get).Path)
	}
}

func TestAGateIsPinnedAndStaysThat(t *testing.T) {
	f := knownIn(t)
	gates, err := f.List()
	require.NoError(t, err)
	require.Empty(t, gates)

	a, b := UnixAddress("/a"), Address("ssh://b")
	check := func(at Address, host string, id op.GateID) (bool, error) {
		return f.Check(at, api.Status{Host: host, Gate: id})
	}
	pinned := must.Get(check(a, "pve1", idA))(t)
	require.True(t, pinned)
	pinned = must.Get(check(a, "pve1", idA))(t)
	require.False(t, pinned)
	pinned = must.Get(check(b, "pve2", idB))(t)
	require.True(t, pinned)

	info := must.Get(os.Stat(f.Path))(t)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	text := must.Get(os.ReadFile(f.Path))(t)
	require.Equal(t, knownHeader+"unix:/a pve1 "+string(idA)+"\nssh://b pve2 "+string(idB)+"\n", string(text))

	// Another id, another host, and the other gate at this address.
	for _, s := range []api.Status{{Host: "pve1", Gate: idB}, {Host: "pve2", Gate: idA}, {Host: "pve2", Gate: idB}} {
		pinned, err = f.Check(a, s)
		require.ErrorIs(t, err, refusal.TargetMismatch)
		require.ErrorContains(t, err, string(idA))
		require.ErrorContains(t, err, f.Path+":2")
		require.False(t, pinned)
		var r *refusal.Refusal
		require.ErrorAs(t, err, &r)
		require.Contains(t, r.Hint, "opsign forget unix:/a")
	}
	require.Equal(t, text, must.Get(os.ReadFile(f.Path))(t), "a refusal changes nothing")

	gone := must.Get(f.Forget(a))(t)
	require.Equal(t, KnownGate{a, "pve1", idA, 2}, gone)
	must.Fail(f.Forget(a))(t, refusal.UnknownTarget)
	pinned = must.Get(check(a, "pve1", idB))(t)
	require.True(t, pinned)
	pinned = must.Get(check(b, "pve2", idB))(t)
	require.False(t, pinned, "the others stay known")
	left := must.Get(filepath.Glob(filepath.Join(filepath.Dir(f.Path), "*")))(t)
	require.Equal(t, []string{f.Path, f.Path + ".lock"}, left)
}

func TestWhatAnswersAsNoGateIsNotPinned(t *testing.T) {
	f := knownIn(t)
	for _, s := range []api.Status{{}, {Host: "h"}, {Gate: idA}, {Host: "h\x1b", Gate: idA}, {Host: "h", Gate: idA[1:]},
		{Host: strings.Repeat("h", maxHostText+1), Gate: idA}} {
		must.Fail(f.Check("unix:/a", s))(t, refusal.Internal)
	}
	require.NoFileExists(t, f.Path)
}

func TestCommentsStay(t *testing.T) {
	f := knownIn(t)
	require.NoError(t, os.MkdirAll(filepath.Dir(f.Path), 0o700))
	require.NoError(t, os.WriteFile(f.Path, []byte("# mine\nunix:/a h "+string(idA)), 0o600)) // no end of line
	must.Get(f.Check("unix:/b", api.Status{Host: "h", Gate: idB}))(t)
	must.Get(f.Forget("unix:/a"))(t)
	text := must.Get(os.ReadFile(f.Path))(t)
	require.Equal(t, "# mine\nunix:/b h "+string(idB)+"\n", string(text))
}

func TestAKnownGatesThatProvesNothing(t *testing.T) {
	f := knownIn(t)
	status := api.Status{Host: "h", Gate: idA}
	require.NoError(t, os.MkdirAll(filepath.Dir(f.Path), 0o700))
	write := func(text string, mode os.FileMode) {
		require.NoError(t, os.WriteFile(f.Path, []byte(text), 0o600))
		require.NoError(t, os.Chmod(f.Path, mode))
	}
	for _, mode := range []os.FileMode{0o620, 0o602, 0o666} {
		write("", mode)
		must.Fail(f.Check("unix:/a", status))(t, refusal.NotAllowed)
		must.Fail(f.Forget("unix:/a"))(t, refusal.NotAllowed)
	}
	write("nonsense\n", 0o600)
	must.Fail(f.Check("unix:/a", status))(t, refusal.Malformed)
	must.Fail(f.Forget("unix:/a"))(t, refusal.Malformed)
	write(strings.Repeat("#", maxKnown+1), 0o600)
	must.Fail(f.Check("unix:/a", status))(t, refusal.Oversized)
	write(strings.Repeat("#", maxKnown-1)+"\n", 0o600)
	must.Get(f.List())(t)
	must.Fail(f.Check("unix:/a", status))(t, refusal.Oversized, "it would be too large to be read again")
	require.NoError(t, os.Remove(f.Path))
	require.NoError(t, os.Mkdir(f.Path, 0o700))
	must.Err(f.List())(t)
}

func TestAGateThatCannotBePinned(t *testing.T) {
	status := api.Status{Host: "h", Gate: idA}
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, f := range []KnownGates{{}, {Path: filepath.Join(file, "gated", "known_gates")}} {
		pinned, err := f.Check("unix:/a", status)
		var not *NotPinned
		require.ErrorAs(t, err, &not)
		require.False(t, pinned)
		require.Empty(t, must.Get(f.List())(t))
	}
	must.Fail(KnownGates{}.Forget("unix:/a"))(t, refusal.UnknownTarget)
}

// Two at once do not lose each other's gates, and agree on who was first.
func TestPinningAtTheSameTime(t *testing.T) {
	f := knownIn(t)
	const each = 8
	var wg sync.WaitGroup
	var mu sync.Mutex
	first, refused := 0, 0
	for i := range each {
		wg.Go(func() {
			_, err := f.Check(UnixAddress(fmt.Sprintf("/%d", i)), api.Status{Host: "h", Gate: idA})
			if err != nil {
				t.Errorf("gate %d: %v", i, err)
			}
		})
		wg.Go(func() {
			id := op.GateID(fmt.Sprintf("%032x", i))
			pinned, err := f.Check("unix:/contested", api.Status{Host: "h", Gate: id})
			mu.Lock()
			defer mu.Unlock()
			if pinned {
				first++
			}
			if errors.Is(err, refusal.TargetMismatch) {
				refused++
			}
		})
	}
	wg.Wait()
	require.Equal(t, 1, first)
	require.Equal(t, each-1, refused)
	require.Len(t, must.Get(f.List())(t), each+1)
}
