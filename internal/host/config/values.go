package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"os/user"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
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
		if ofMember(e) {
			continue // elsewhere reads it
		}
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

var fingerprints = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){31}$`)
})

// postgres reads a connection string of libpq, which the ledger itself takes apart. A password in it would be shown by
// whatever shows the file.
func postgres(v strictyaml.Value) string {
	s := v.Text()
	if !connects(s) {
		v.Fail("postgres is %s", wordsConnection)
	}
	return s
}

const wordsConnection = "a connection string of libpq without a password in it: name a file with passfile=, or use peer or certificates"

// connects reports whether a text may be a connection string, and has no password.
func connects(s string) bool {
	inURL := false
	if u, err := url.Parse(s); err == nil {
		_, inURL = u.User.Password()
	}
	return s != "" && !inURL && !passwords().MatchString(s)
}

// Check refuses, as BadParams, a store that gated.yaml would not take.
func (s Store) Check() error {
	what := ""
	switch {
	case !connects(s.Postgres):
		what = "the store is " + wordsConnection
	case op.CheckName(s.Member) != nil:
		what = "a gate with a store needs a name for this member"
	case s.Durability != "replicated" && s.Durability != "single":
		what = "the durability is replicated or single"
	case s.Lease < 3*time.Second || s.Lease > 10*time.Minute:
		what = "the lease is from 3s to 10m"
	default:
		return nil
	}
	return refusal.New(refusal.BadParams, "%s", what).WithHint("gated init --help")
}

var passwords = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(^|[\s?&])password\s*=`) })

// fingerprint reads a SHA-256 as Proxmox VE shows it.
func fingerprint(v strictyaml.Value) string {
	s := v.Text()
	if !fingerprints().MatchString(s) {
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

// fill reads a map into the fields of a struct, as their tags say:
//
//	yaml:"KEY"       the key, or a section and its key; with ",needed" it must be there
//	is:"KIND ARGS"   what the value is, one of kinds; by default what the field's type says
//	or:"TEXT"        what it is if the file does not have it; else the field stays as it is
func fill(v strictyaml.Value, out reflect.Value) {
	for i := range out.NumField() {
		tag := out.Type().Field(i).Tag
		key, needed := strings.CutSuffix(tag.Get("yaml"), ",needed")
		if key == "" {
			continue
		}
		in := v
		if section, rest, ok := strings.Cut(key, "."); ok {
			in, key = v.Get(section), rest
		}
		e := in.Get(key)
		if needed {
			in.Need(key)
		}
		if or := tag.Get("or"); or != "" && !e.Present() {
			m, _ := strictyaml.Parse("", []byte("default: "+or)) // Parse cannot fail, because the tests read every default
			e = m.Get("default")
		}
		set(e, out.Field(i), tag.Get("is"))
	}
}

func set(v strictyaml.Value, out reflect.Value, is string) {
	switch kind := out.Kind(); {
	case kind == reflect.Struct && is == "":
		fill(v, out)
	case kind == reflect.Map && is == "" || kind == reflect.Map && !v.Present():
		out.Set(reflect.MakeMap(out.Type()))
		for k, e := range v.Each() {
			checkName(e, k)
			element := reflect.New(out.Type().Elem()).Elem()
			fill(e, element)
			out.SetMapIndex(reflect.ValueOf(k), element)
		}
	case !v.Present():
	case is != "":
		args := strings.Fields(is)
		out.Set(reflect.ValueOf(kinds[args[0]](v, args[1:])).Convert(out.Type()))
	case kind == reflect.Bool:
		out.SetBool(v.Bool())
	case kind == reflect.String:
		out.SetString(v.Text())
	case kind == reflect.Pointer:
		out.Set(reflect.New(out.Type().Elem()))
		fill(v, out.Elem())
	}
}

// kinds has a reader for each kind of value that a field's type does not determine.
var kinds = map[string]func(v strictyaml.Value, args []string) any{
	"host":        plain(host),
	"path":        plain(path),
	"name":        plain(name),
	"user":        plain(account),
	"uids":        plain(uids),
	"range":       plain(uidRange),
	"hub":         plain(hubURL),
	"https":       plain(clusterURL),
	"postgres":    plain(postgres),
	"fingerprint": plain(fingerprint),
	"address":     plain(address),
	"scopes":      plain(scopes),
	"program":     plain(program),
	"patterns":    plain(patterns),
	"variables":   plain(environment),
	"unseen":      plain(func(v strictyaml.Value) bool { return v.OneOf("refuse", "allow") == "allow" }),
	"of":          func(v strictyaml.Value, words []string) any { return v.OneOf(words...) },
	"int":         whole,
	"MiB":         func(v strictyaml.Value, bounds []string) any { return whole(v, bounds).(int64) << 20 },
	"time": func(v strictyaml.Value, bounds []string) any {
		shortest, _ := time.ParseDuration(bounds[0])
		longest, _ := time.ParseDuration(bounds[1])
		return v.Duration(0, shortest, longest)
	},
}

func plain[T any](read func(strictyaml.Value) T) func(strictyaml.Value, []string) any {
	return func(v strictyaml.Value, _ []string) any { return read(v) }
}

func whole(v strictyaml.Value, bounds []string) any {
	lowest, _ := strconv.ParseInt(bounds[0], 10, 64)
	highest, _ := strconv.ParseInt(bounds[1], 10, 64)
	return v.Int(lowest, highest)
}
