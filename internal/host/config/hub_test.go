package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/host/config"
	"gated/internal/test/must"
)

func TestHub(t *testing.T) {
	c := must.Get(config.Parse("f", []byte("host: h\nhub: {url: \"https://hub.example.com\"}\n")))(t)
	require.Equal(t, &config.Hub{URL: "https://hub.example.com", Interval: 30 * time.Second, Timeout: 30 * time.Second,
		Report: 10 * time.Minute}, c.Hub)
	c, err := config.Parse("f", []byte("host: h\ndesired: {interval: 1m}\nhub: {url: \"https://[2001:db8::1]:8443/gated/a\", ca: /etc/ca, token_file: /etc/t, interval: 5s, timeout: 1m, report: 1h}\n"))
	require.NoError(t, err)
	require.Equal(t, &config.Hub{URL: "https://[2001:db8::1]:8443/gated/a", CA: "/etc/ca", TokenFile: "/etc/t", Interval: 5 * time.Second,
		Timeout: time.Minute, Report: time.Hour}, c.Hub)
	for _, near := range []string{"http://127.0.0.1:8080", "http://[::1]", "http://localhost:1", "http://127.9.9.9/x"} {
		c = must.Get(config.Parse("f", []byte("host: h\nhub: {url: \""+near+"\"}\n")))(t, near)
		require.Equal(t, near, c.Hub.URL)
	}
	c = must.Get(config.Parse("f", []byte("host: h\n")))(t)
	require.Nil(t, c.Hub)
}

func TestHubRefusals(t *testing.T) {
	for src, want := range map[string]string{
		"hub: {}":                                       "url is missing",
		"hub: {url: \"\"}":                              "",
		"hub: {url: hub.example.com}":                   "is not the address of a hub",
		"hub: {url: \"ftp://h\"}":                       "is neither https nor http",
		"hub: {url: \"http://h\"}":                      "is not encrypted",
		"hub: {url: \"http://10.0.0.1\"}":               "is not encrypted",
		"hub: {url: \"http://127.0.0.1.x.y\"}":          "is not encrypted",
		"hub: {url: \"https://u:p@h\"}":                 "is not the address of a hub",
		"hub: {url: \"https://h?x=1\"}":                 "is not the address of a hub",
		"hub: {url: \"https://h#x\"}":                   "is not the address of a hub",
		"hub: {url: \"https://:8\"}":                    "is not the address of a hub",
		"hub: {url: \"https://h/\"}":                    "ends with a slash",
		"hub: {url: \"https://h/a/../b\"}":              "ends with a slash, or its path has another spelling",
		"hub: {url: \"https://h/a%2fb\"}":               "ends with a slash, or its path has another spelling",
		"hub: {url: \"https://h\", ca: x}":              "is not an absolute path",
		"hub: {url: \"http://localhost\", ca: /x}":      "ca is for https",
		"hub: {url: \"https://h\", interval: 0s}":       "is outside 1s to 24h",
		"hub: {url: \"https://h\", timeout: 6m}":        "is outside 1s to 5m",
		"hub: {url: \"https://h\", token: x}":           "unknown key token",
		"hub: {url: \"https://h\"}\ndesired: {dir: /d}": "desired state comes from one place",
		"hub: {url: \"https://h\", report: 25h}":        "is outside 1s to 24h",
		"hub: x":                                        "",
	} {
		refused(t, "host: h\n"+src, want)
	}
}
