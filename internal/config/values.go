package config

import (
	"fmt"
	"os/user"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"

	"gated/internal/op"
	"gated/internal/strictyaml"
)

// path reads an absolute path in its one spelling.
func path(v strictyaml.Value) string {
	s := v.String()
	if v.Present() && (!filepath.IsAbs(s) || filepath.Clean(s) != s) {
		v.Fail("%q is not an absolute path without . and .. and double slashes", s)
	}
	return s
}

// duration reads a length of time such as 90s, 30m, 24h or 1h30m, of at least
// shortest and at most longest.
func duration(v strictyaml.Value, otherwise, shortest, longest time.Duration) time.Duration {
	if !v.Present() {
		return otherwise
	}
	d, ok := parseDuration(v)
	if ok && (d < shortest || d > longest) {
		v.Fail("%s is outside %s to %s", short(d), short(shortest), short(longest))
	}
	return d
}

// atMost reads a length of time that policy bounds.
func atMost(v strictyaml.Value, rule, shortest time.Duration) time.Duration {
	if !v.Present() {
		return rule
	}
	d, ok := parseDuration(v)
	switch {
	case ok && d > rule:
		v.Fail("%s is longer than the built-in rule, %s; it can only be tightened", short(d), short(rule))
	case ok && d < shortest:
		v.Fail("%s is less than %s", short(d), short(shortest))
	}
	return d
}

func parseDuration(v strictyaml.Value) (time.Duration, bool) {
	s := v.String()
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d%time.Second != 0 {
		v.Fail("%q is not a length of time in whole seconds, such as 90s, 30m, 24h or 1h30m", s)
		return 0, false
	}
	return d, true
}

// short spells a length of time as people would: 24h, not 24h0m0s.
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

// account reads a user's or group's name.
func account(v strictyaml.Value) string {
	s := v.String()
	if v.Present() && op.CheckName(s) != nil {
		v.Fail("%q is not the name of an account", s)
	}
	return s
}

// submitters reads "any" or a list of accounts; omitted, it is any.
func submitters(v strictyaml.Value) (all bool, list []uint32) {
	if !v.Present() {
		return true, nil
	}
	if v.IsList() {
		return false, uids(v)
	}
	if v.String() != "any" {
		v.Fail("submitters is neither any nor a list of uids and user names")
	}
	return true, nil
}

// unseen reads refuse, which it is if it is omitted, or allow.
func unseen(v strictyaml.Value) bool {
	s := v.String()
	if v.Present() && s != "refuse" && s != "allow" {
		v.Fail("unseen is %q, neither refuse nor allow", s)
	}
	return s == "allow"
}

// uids reads a list of uids and names of users. A name that the machine does
// not know is refused: a rule about nobody would look like a rule.
func uids(v strictyaml.Value) []uint32 {
	if !v.Present() {
		return nil
	}
	out := []uint32{}
	for _, e := range v.List() {
		e = e.Named("a uid or user name")
		if e.IsInt() {
			out = append(out, uint32(e.Int(0, 1<<32-2)))
			continue
		}
		name := account(e)
		if name == "" {
			continue
		}
		u, err := user.Lookup(name)
		if err != nil {
			e.Fail("this machine has no user %q", name)
			continue
		}
		id, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			e.Fail("the user %q has the uid %q, which is no number", name, u.Uid)
			continue
		}
		out = append(out, uint32(id))
	}
	return out
}

// Bounds of local.guest_uids: below 1000 are the system's own accounts, and the two
// numbers at the end mean none and overflow to the kernel.
const (
	firstGuestUID = 1000
	lastGuestUID  = 1<<32 - 3
	mostGuestUIDs = 10_000
)

// uidRange reads FIRST-LAST.
func uidRange(v strictyaml.Value) UIDs {
	if !v.Present() {
		return UIDs{}
	}
	s := v.String()
	a, b, _ := strings.Cut(s, "-")
	first, err := strconv.ParseUint(a, 10, 32)
	last, err2 := strconv.ParseUint(b, 10, 32)
	switch {
	case err != nil, err2 != nil, s != fmt.Sprintf("%d-%d", first, last):
		v.Fail("%q is not a range of uids, such as 1900000000-1900009999", s)
	case first < firstGuestUID || last > lastGuestUID:
		v.Fail("%s is outside %d-%d", s, firstGuestUID, lastGuestUID)
	case first > last:
		v.Fail("%s ends before it begins", s)
	case last-first >= mostGuestUIDs:
		v.Fail("%s are more than %d uids", s, mostGuestUIDs)
	default:
		return UIDs{uint32(first), uint32(last)}
	}
	return UIDs{}
}

func commands(m *strictyaml.Map) map[string]Command {
	out := map[string]Command{}
	for _, name := range m.Keys() {
		v := m.Get(name).Named("command " + name)
		if op.CheckName(name) != nil {
			v.Fail("%q is not a command's name ([A-Za-z0-9][A-Za-z0-9._-]{0,127})", name)
		}
		out[name] = command(v.Map())
	}
	return out
}

func command(m *strictyaml.Map) Command {
	var c Command
	argv := m.Need("argv")
	for i, v := range argv.List() {
		s := v.Named("an argument").String()
		if i == 0 && (!filepath.IsAbs(s) || filepath.Clean(s) != s) {
			v.Fail("the program %q is not an absolute path without . and .. and double slashes", s)
		}
		c.Argv = append(c.Argv, s)
	}
	if argv.IsList() && len(c.Argv) == 0 {
		argv.Fail("argv is empty")
	}
	c.User, c.Env = accountOrNumber(m.Get("user")), environment(m.Map("env"))
	for _, v := range m.Get("guests").List() {
		pattern := v.Named("a guest").String()
		if op.CheckName(strings.NewReplacer("*", "x", "?", "x").Replace(pattern)) != nil {
			v.Fail("%q is no pattern over guests' names: tmp-*, db?", pattern)
		}
		c.Guests = append(c.Guests, pattern)
	}
	if v := m.Get("guests"); v.IsList() && len(c.Guests) == 0 {
		v.Fail("guests is empty, so no guest could run it; leave it out for all")
	}
	return c
}

// forGuests returns the patterns of the commands that are not for all guests.
func forGuests(m map[string]Command) map[string][]string {
	var out map[string][]string
	for name, c := range m {
		if len(c.Guests) == 0 {
			continue
		}
		if out == nil {
			out = map[string][]string{}
		}
		out[name] = c.Guests
	}
	return out
}

func variable(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

func names(m map[string]Command) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}
