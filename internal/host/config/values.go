package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/strictyaml"
)

func host(v strictyaml.Value) string {
	s := v.Text()
	if s == "" || len(s) > 253 {
		v.Fail("host has %d bytes, not 1 to 253", len(s))
	}
	return s
}

// path reads an absolute path in its one spelling.
func path(v strictyaml.Value) string {
	s := v.Text()
	if !filepath.IsAbs(s) || filepath.Clean(s) != s {
		v.Fail("%q is not an absolute path without . and .. and double slashes", s)
	}
	return s
}

// name reads the name of an account, or of a thing in a back end.
func name(v strictyaml.Value) string {
	s := v.Text()
	checkName(v, s)
	return s
}

// checkName refuses a value if its text or its key is not a name.
func checkName(v strictyaml.Value, s string) {
	if op.CheckName(s) != nil {
		v.Fail("%q is not a name ([A-Za-z0-9][A-Za-z0-9._-]{0,127})", s)
	}
}

// oneOf reads one of the given words.
func oneOf(v strictyaml.Value, words ...string) string {
	s := v.Text()
	if !slices.Contains(words, s) {
		v.Fail("%q is none of %s", s, strings.Join(words, ", "))
	}
	return s
}

// duration reads a length of time such as 90s, 30m, 24h or 1h30m.
func duration(v strictyaml.Value, otherwise, shortest, longest time.Duration) time.Duration {
	if !v.Present() {
		return otherwise
	}
	s := v.Text()
	d, err := time.ParseDuration(s)
	switch {
	case err != nil || d < 0 || d%time.Second != 0:
		v.Fail("%q is not a length of time in whole seconds, such as 90s, 30m, 24h or 1h30m", s)
	case d < shortest || d > longest:
		v.Fail("%s is outside %s to %s", short(d), short(shortest), short(longest))
	default:
		return d
	}
	return otherwise
}

// short writes a length of time as people do: 24h, not 24h0m0s.
func short(d time.Duration) string {
	s := d.String()
	if d >= time.Minute && strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if d >= time.Hour && strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// submitters reads "any" or a list of accounts; absent means any.
func submitters(v strictyaml.Value) (all bool, list []uint32) {
	if v.IsList() {
		return false, uids(v)
	}
	if v.Present() && v.Text() != "any" {
		v.Fail("submitters is neither any nor a list of uids and user names")
	}
	return true, nil
}

// account reads a user's name or number.
func account(v strictyaml.Value) string {
	if v.IsInt() {
		return strconv.FormatInt(v.Int(0, 1<<32-2), 10)
	}
	return name(v)
}

// uids reads a list of uids and user names. It refuses a name that the machine does not know: a rule about no user
// would look like a rule.
func uids(v strictyaml.Value) []uint32 {
	out := []uint32{}
	for _, e := range v.List() {
		s := account(e)
		if !e.IsInt() {
			u, err := user.Lookup(s)
			if err != nil {
				e.Fail("this machine has no user %q", s)
				continue
			}
			s = u.Uid
		}
		id, err := strconv.ParseUint(s, 10, 32)
		if err != nil {
			e.Fail("the uid %q is not a number", s)
		}
		out = append(out, uint32(id))
	}
	return out
}

// Bounds of local.guest_uids. Uids below 1000 are system accounts; the two highest numbers mean "none" and "overflow"
// to the kernel.
const (
	firstGuestUID = 1000
	lastGuestUID  = 1<<32 - 3
	mostGuestUIDs = 10_000
)

// uidRange reads FIRST-LAST.
func uidRange(v strictyaml.Value) (r UIDs) {
	s := v.Text()
	_, err := fmt.Sscanf(s, "%d-%d", &r.First, &r.Last)
	switch {
	case err != nil || s != fmt.Sprintf("%d-%d", r.First, r.Last):
		v.Fail("%q is not a range of uids, such as 1900000000-1900009999", s)
	case r.First < firstGuestUID || r.Last > lastGuestUID:
		v.Fail("%s is outside %d-%d", s, firstGuestUID, lastGuestUID)
	case r.First > r.Last:
		v.Fail("%s ends before it begins", s)
	case r.Last-r.First >= mostGuestUIDs:
		v.Fail("%s are more than %d uids", s, mostGuestUIDs)
	}
	return r
}

var fingerprints = regexp.MustCompile(`^[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){31}$`)

// fingerprint reads a SHA-256 as Proxmox VE shows it.
func fingerprint(v strictyaml.Value) string {
	s := v.Text()
	if !fingerprints.MatchString(s) {
		v.Fail("fingerprint is not 32 pairs of hex digits with colons between them")
	}
	return s
}

// clusterURL reads the https URL of a host, without a path.
func clusterURL(v strictyaml.Value) string {
	s := v.Text()
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery+u.Fragment+u.Path != "" {
		v.Fail("%q is not https://host:port", op.Shown(s))
	}
	return s
}

// hubURL reads a hub's address; the paths of docs/formats/hub.md are below it. Unencrypted traffic must not leave this
// machine.
func hubURL(v strictyaml.Value) string {
	s := v.Text()
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Hostname() == "" || u.Opaque != "" || u.User != nil || strings.ContainsAny(s, "?#"):
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
