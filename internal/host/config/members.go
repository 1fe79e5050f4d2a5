package config

import (
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"gated/internal/base/op"
	"gated/internal/base/strictyaml"
)

// Member says where a member takes forwarded calls, and by which certificate the others recognise it.
type Member struct {
	Address     string `yaml:"address,needed" is:"address"`         // host:port
	Fingerprint string `yaml:"fingerprint,needed" is:"fingerprint"` // SHA-256 of its certificate
}

// Elsewhere are accounts of other members in the lists of gated.yaml.
type Elsewhere struct{ Admins, Submitters []op.Account }

// oldAdmins is what admins was called: an operator is a person who signs.
const oldAdmins = "operators"

// address reads host:port. A listener's host may be empty, which means all addresses.
func address(v strictyaml.Value) string {
	s := v.Text()
	_, port, err := net.SplitHostPort(s)
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 {
		v.Fail("%q is not host:port, such as 192.0.2.1:7480", op.Shown(s))
	}
	return s
}

// together refuses members that could not recognise each other.
func (s *Store) together(v strictyaml.Value) {
	if len(s.Scopes) == 0 {
		s.Scopes = nil
	}
	if len(s.Members) == 0 {
		s.Members = nil
		for _, key := range []string{"listen", "certificate", "key", "scopes"} {
			if v.Get(key).Present() {
				v.Get(key).Fail("%s is for a gate with members that forward calls: name them under members, or take it out", key)
			}
		}
		return
	}
	for _, key := range []string{"listen", "certificate", "key"} {
		v.Need(key)
	}
	if _, own := s.Members[s.Member]; !own {
		v.Get("members").Fail("members lacks this one, %s", s.Member)
	}
	names := map[string]string{} // by fingerprint, and by address
	for _, name := range slices.Sorted(maps.Keys(s.Members)) {
		m := s.Members[name]
		if host, _, _ := net.SplitHostPort(m.Address); host == "" {
			v.Get("members").Get(name).Fail("the address of %s has no host", name)
		}
		for what, is := range map[string]string{"fingerprint": strings.ToUpper(m.Fingerprint), "address": m.Address} {
			if other, twice := names[is]; twice {
				v.Get("members").Get(name).Fail("%s and %s have the same %s, and each member has its own", other, name, what)
			}
			names[is] = name
		}
	}
	s.shared(v.Get("scopes"))
}

// ofMember reports whether an entry of a list of uids is UID@MEMBER.
func ofMember(e strictyaml.Value) bool { return !e.IsInt() && strings.Contains(e.Text(), "@") }

// elsewhere reads the entries UID@MEMBER of the lists of uids. One of this member is a uid of this host.
func (c *Config) elsewhere(m strictyaml.Value) {
	read := func(key string, own *[]uint32) (out []op.Account) {
		v := m.Get(key)
		if !v.IsList() {
			return nil
		}
		for _, e := range v.List() {
			if !ofMember(e) {
				continue
			}
			a, err := op.ParseAccount(e.Text())
			switch {
			case err != nil:
				e.Fail("%v", err)
			case c.Store == nil || c.Store.Members[a.Member] == Member{}:
				e.Fail("%s is no member under store.members", a.Member)
			case a.Member == c.Store.Member:
				*own = append(*own, a.UID)
			default:
				out = append(out, a)
			}
		}
		return out
	}
	c.Elsewhere.Admins = append(read("admins", &c.Admins), read(oldAdmins, &c.Admins)...)
	c.Elsewhere.Submitters = read("submitters", &c.Submitters)
}
