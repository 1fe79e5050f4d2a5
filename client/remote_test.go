package client

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

func TestParseRemote(t *testing.T) {
	for text, want := range map[string]Remote{
		"ssh://pve1":                                      {Host: "pve1"},
		"ssh://pve1/":                                     {Host: "pve1"},
		"ssh://alice@pve1.example.com":                    {User: "alice", Host: "pve1.example.com"},
		"ssh://Alias_1:2222":                              {Host: "Alias_1", Port: 2222},
		"ssh://a.b-c_d@h:1/run/g":                         {User: "a.b-c_d", Host: "h", Port: 1, Socket: "/run/g"},
		"ssh://h:65535":                                   {Host: "h", Port: 65535},
		"ssh://192.0.2.1/s":                               {Host: "192.0.2.1", Socket: "/s"},
		"ssh://[2001:db8::1]:22/s":                        {Host: "2001:db8::1", Port: 22, Socket: "/s"},
		"ssh://[::1]":                                     {Host: "::1"},
		"ssh://" + strings.Repeat("h", maxHost):           {Host: strings.Repeat("h", maxHost)},
		"ssh://" + strings.Repeat("u", maxUser) + "@h":    {User: strings.Repeat("u", maxUser), Host: "h"},
		"ssh://h/" + strings.Repeat("s", maxSocketPath-1): {Host: "h", Socket: "/" + strings.Repeat("s", maxSocketPath-1)},
	} {
		r := must.Get(ParseRemote(text))(t, text)
		require.Equal(t, want, r, text)
	}
}

func TestWhatIsNoRemote(t *testing.T) {
	for _, text := range []string{
		"", "pve1", "ssh:", "ssh:/h", "SSH://h", " ssh://h", "https://h", "unix:/s", "ssh://", "ssh:///s", "ssh://@h", "ssh://a@", "ssh://a@b@h",
		// What ssh would take for a flag.
		"ssh://-oProxyCommand=x", "ssh://-h", "ssh://-u@h", "ssh://u@-h", "ssh://.h", "ssh://.u@h",
		// What a shell would read.
		"ssh://h;id", "ssh://h$(id)", "ssh://h`id`", "ssh://h h", "ssh://h\n", "ssh://h|x", "ssh://h&", "ssh://'h'", "ssh://h\\x", "ssh://h*", "ssh://~h",
		"ssh://h/a b", "ssh://h/$(id)", "ssh://h/a;id", "ssh://h/a'", "ssh://h/a\"", "ssh://h/~", "ssh://h/*", "ssh://h/a\n", "ssh://h/a&b", "ssh://h/%2f",
		"ssh://u;id@h", "ssh://u$x@h", "ssh://u:password@h",
		// What ssh_config would expand.
		"ssh://%h", "ssh://u%r@h",
		"ssh://h:", "ssh://h:0", "ssh://h:65536", "ssh://h:022", "ssh://h:+22", "ssh://h:-1", "ssh://h:ssh", "ssh://h:22:22",
		"ssh://::1", "ssh://[::1", "ssh://[::1]x", "ssh://[::1]:", "ssh://[fe80::1%eth0]", "ssh://[192.0.2.1]", "ssh://[h]", "ssh://[]",
		"ssh://h//", "ssh://h/a/", "ssh://h/a//b", "ssh://h/./a", "ssh://h/a/../b", "ssh://h/..",
		"ssh://hö", "ssh://h?x", "ssh://h#x",
		"ssh://" + strings.Repeat("h", maxHost+1), "ssh://" + strings.Repeat("u", maxUser+1) + "@h",
		"ssh://h/" + strings.Repeat("s", maxSocketPath),
	} {
		must.Fail(ParseRemote(text))(t, refusal.Malformed, "%q", text)
		_, err := New(Options{Remote: text, Getenv: env{}.get})
		if text != "" {
			require.ErrorIs(t, err, refusal.Malformed, "%q", text)
		}
	}
}

func TestArgumentsOfSSH(t *testing.T) {
	for text, want := range map[string]string{
		"ssh://pve1": "-T -a -x -o ClearAllForwardings=yes -- pve1 gated dial",
		"ssh://alice@pve1:2222/run/gated/gated.sock": "-T -a -x -o ClearAllForwardings=yes -p 2222 -l alice -- pve1 gated dial " +
			"--socket /run/gated/gated.sock",
		"ssh://[2001:db8::1]": "-T -a -x -o ClearAllForwardings=yes -- 2001:db8::1 gated dial",
	} {
		r := must.Get(ParseRemote(text))(t)
		require.Equal(t, want, strings.Join(r.dial(), " "))
	}
}

func TestRemoteParsePrint(t *testing.T) {
	name := func(limit int) *rapid.Generator[string] {
		return rapid.StringMatching(`[A-Za-z0-9_][A-Za-z0-9_.-]{0,` + map[int]string{maxUser: "63", maxHost: "252"}[limit] + `}`)
	}
	rapid.Check(t, func(t *rapid.T) {
		r := Remote{
			User: rapid.OneOf(rapid.Just(""), name(maxUser)).Draw(t, "user"),
			Host: rapid.OneOf(name(maxHost), rapid.SampledFrom([]string{"::1", "2001:db8::1", "::ffff:192.0.2.1"})).Draw(t, "host"),
			Port: rapid.Uint16().Draw(t, "port"),
			Socket: rapid.OneOf(rapid.Just(""), rapid.StringMatching(`(/[A-Za-z0-9_-][A-Za-z0-9_.-]{0,20}){1,5}`)).
				Draw(t, "socket"),
		}
		again := must.Get(ParseRemote(r.String()))(t, r.String())
		require.Equal(t, r, again)
	})
}

// harmless is all that a word of ssh's command line may consist of.
var harmless = regexp.MustCompile(`^[A-Za-z0-9_./:=-]+$`)

func FuzzParseRemote(f *testing.F) {
	for _, text := range []string{"ssh://pve1", "ssh://a@h:1/s", "ssh://[::1]:22/s", "ssh://-oProxyCommand=x/", "ssh://h;id", "ssh://a@b@c"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRemote(text)
		if err != nil {
			require.ErrorIs(t, err, refusal.Malformed)
			return
		}
		require.Equal(t, r, must.Get(ParseRemote(r.String()))(t))
		require.Equal(t, strings.TrimSuffix(r.String(), "/"), r.String())
		args := r.dial()
		for _, a := range args {
			require.Regexp(t, harmless, a)
		}
		for i, a := range args {
			if a == "--" {
				require.NotEqual(t, byte('-'), args[i+1][0])
				break
			}
			if i > 0 && args[i-1] == "-l" {
				require.NotEqual(t, byte('-'), a[0])
			}
		}
	})
}
