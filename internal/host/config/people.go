package config

import (
	"strings"

	"gated/internal/base/op"
	"gated/internal/base/strictyaml"
	"gated/internal/people/policy"
)

// The bounds of people: persons, and accounts of one person.
const (
	maxPeople   = 256
	maxAccounts = 64
)

// people reads which accounts belong to whom. On a gate with members each account is UID@MEMBER, because a plain uid would
// be another person's on another host.
func (c *Config) people(m strictyaml.Value) policy.People {
	if !m.Present() {
		return nil
	}
	p := policy.People{}
	owner := map[op.Account]string{}
	for who, e := range m.Each() {
		if who == "" || strings.ContainsAny(who, "*?!, \t") {
			e.Fail("%q is no principal of allowed_signers", op.Shown(who))
		}
		if len(p) == maxPeople {
			e.Fail("there are more than %d people", maxPeople)
		}
		for _, v := range e.Need("uids").List() {
			a := c.account(v)
			switch other, taken := owner[a]; {
			case taken && other == who:
				v.Fail("%s is there twice", a)
			case taken:
				v.Fail("%s is of %s and of %s, and the gate has to know which person asked", a, op.Shown(other), op.Shown(who))
			case len(p[who]) == maxAccounts:
				v.Fail("%s has more than %d accounts", op.Shown(who), maxAccounts)
			}
			owner[a] = who
			p[who] = append(p[who], a)
		}
		if len(p[who]) == 0 {
			e.Fail("%s has no account", op.Shown(who))
		}
	}
	return p
}

// account reads a uid, or UID@MEMBER on a gate with members.
func (c *Config) account(v strictyaml.Value) op.Account {
	members := c.Store != nil && len(c.Store.Members) > 0
	if !members && v.IsInt() {
		return op.Account{UID: uint32(v.Int(0, 1<<32-2))}
	}
	if v.IsInt() {
		v.Fail("this gate has members, so write UID@MEMBER")
		return op.Account{}
	}
	a, err := op.ParseAccount(v.Text())
	switch {
	case err != nil:
		v.Fail("%v", err)
	case !members || c.Store.Members[a.Member] == Member{}:
		v.Fail("%q is no member under store.members", a.Member)
	}
	return a
}
