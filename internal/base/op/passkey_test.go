package op_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
)

// names are possible ids of relying parties, and whether they are.
var names = map[string]bool{
	"localhost": true, "example.com": true, "console.example.com": true, "xn--bcher-kva.example": true, "a-b.c0": true, "1.example": true, "0x7f.example": true,
	"a.0x7g": true, "a.x0": true, strings.Repeat("a", 63) + ".com": true,
	"": false, ".": false, "com": false, "localhost.": false, "LOCALHOST": false, "example.com.": false, ".example.com": false, "a..com": false, "Example.com": false,
	"-a.com": false, "a-.com": false, "a_b.com": false, "a b.com": false, "bücher.example": false, "*.example.com": false, "a.com:1": false, "a.com/": false,
	"ssh:": false, "ssh:a.com": false, "a.com\x00": false, "[::1]": false, "::1": false, strings.Repeat("a", 64) + ".com": false,
	// Hosts that a browser reads as addresses (URL Standard, "ends in a number checker").
	"127.0.0.1": false, "127.1": false, "1.2.3": false, "a.1": false, "127.0x1": false, "0x7f.0x1": false, "a.0x": false, "a.0xff": false, "a.08": false,
}

func TestRelyingParties(t *testing.T) {
	for name, is := range names {
		require.Equal(t, is, op.IsRelyingParty(name), "%q", name)
		host, ok := op.Origin("https://" + name)
		require.Equal(t, is, ok && host == name, "%q", name)
	}
}

func TestIsOf(t *testing.T) {
	for _, c := range []struct {
		host, party string
		is          bool
	}{
		{"example.com", "example.com", true}, {"a.example.com", "example.com", true}, {"a.b.example.com", "example.com", true},
		{"example.com", "a.example.com", false}, {"notexample.com", "example.com", false}, {"example.com.evil.example", "example.com", false},
		{"evil.localhost", "localhost", true}, {"localhost", "localhost", true}, {"localhost.example", "localhost", false},
	} {
		require.Equal(t, c.is, op.IsOf(c.host, c.party), "%s of %s", c.host, c.party)
	}
}

// FuzzOrigin: an origin has one spelling, of a scheme, a host and at most a port. Nothing else is in it for another reader.
func FuzzOrigin(f *testing.F) {
	for _, s := range []string{"https://a.example", "https://a.example:8443", "https://a.example:443", "https://a.example:0443", "https://a.example:65536", "https://a.example:",
		"http://localhost", "http://localhost:80", "http://localhost:7480", "http://a.example", "HTTPS://a.example", "https://a.example/", "https://a.example?", "https://a.example#",
		"https://u@a.example", "https://u:p@a.example", "https:a.example", "https:///a.example", "https://a.example\\b", "https://a%2eexample", "https://[::1]:1", "null", "",
		"https://a.example ", "https://a.example\n", "android:apk-key-hash:x", "https://127.0x1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		host, ok := op.Origin(s)
		if !ok {
			return
		}
		require.True(t, op.IsRelyingParty(host))
		u, err := url.Parse(s)
		require.NoError(t, err)
		require.Equal(t, url.URL{Scheme: u.Scheme, Host: u.Host}, *u)
		require.Equal(t, host, u.Hostname())
		require.True(t, u.Scheme == "https" || u.Scheme == "http" && host == "localhost", s)
		require.Equal(t, strings.ToLower(s), s)
		require.NotContains(t, []string{"https:443", "http:80"}, u.Scheme+":"+u.Port())
		require.NotRegexp(t, `["\\\s\x00-\x1f]`, s) // so client data has it as it is
		if u.Port() == "" {
			_, ok = op.Origin(s + ":8443")
			require.True(t, ok)
		}
	})
}
