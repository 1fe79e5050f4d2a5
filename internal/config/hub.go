package config

import (
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"gated/internal/strictyaml"
)

// Defaults of the section hub.
const (
	DefaultHubInterval = 30 * time.Second
	DefaultHubTimeout  = 30 * time.Second
	DefaultHubReport   = 10 * time.Minute
)

// Hub says where desired state is polled from. What a hub says is a wish.
type Hub struct {
	URL       string        // https, or http to this machine; without a slash at its end
	CA        string        // an absolute path: certificates that alone are trusted; empty means the system's
	TokenFile string        // an absolute path; empty means none
	Interval  time.Duration // between two polls, 1 s to 24 h
	Timeout   time.Duration // of one exchange as a whole, 1 s to 5 min
	Report    time.Duration // after which a report is sent although nothing changed, 1 s to 24 h
}

// hub reads the section; nil where there is none.
func hub(m *strictyaml.Map, d Desired) *Hub {
	if !m.Has("hub") {
		return nil
	}
	if d.Dir != "" {
		m.Get("hub").Fail("desired.dir and hub are both set, and desired state comes from one place")
	}
	s := m.Map("hub")
	h := &Hub{
		URL:       hubURL(s.Need("url")),
		CA:        path(s.Get("ca")),
		TokenFile: path(s.Get("token_file")),
		Interval:  duration(s.Get("interval"), DefaultHubInterval, time.Second, 24*time.Hour),
		Timeout:   duration(s.Get("timeout"), DefaultHubTimeout, time.Second, 5*time.Minute),
		Report:    duration(s.Get("report"), DefaultHubReport, time.Second, 24*time.Hour),
	}
	if h.CA != "" && strings.HasPrefix(h.URL, "http:") {
		s.Get("ca").Fail("ca is for https, and the url is %s", h.URL)
	}
	return h
}

// hubURL reads the address below which the paths of docs/formats/hub.md are.
// What is not encrypted does not leave this machine.
func hubURL(v strictyaml.Value) string {
	s := v.String()
	u, err := url.Parse(s)
	switch {
	case !v.Present():
	case err != nil || u.Host == "" || u.Hostname() == "" || u.Opaque != "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || strings.Contains(s, "#"):
		v.Fail("%q is not the address of a hub, such as https://hub.example.com", s)
	case u.Path != "" && (filepath.Clean(u.Path) != u.Path || u.Path == "/") || u.RawPath != "":
		v.Fail("%q ends with a slash, or its path has another spelling", s)
	case u.Scheme == "https":
	case u.Scheme != "http":
		v.Fail("%q is neither https nor http", s)
	case !loopback(u.Hostname()):
		v.Fail("%q is not encrypted; http is for 127.0.0.1, ::1 and localhost alone", s)
	}
	return s
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback() && ip.Zone() == ""
}
