package config

import (
	"slices"

	"gated/internal/base/op"
	"gated/internal/base/strictyaml"
)

// maxOrigins bounds passkeys.origins.
const maxOrigins = 16

// passkeys reads which WebAuthn signatures count: none without the section.
func passkeys(m strictyaml.Value) op.Passkeys {
	var p op.Passkeys
	if !m.Present() {
		return p
	}
	for _, e := range m.Need("origins").List() {
		origin := e.Text()
		switch _, ok := op.Origin(origin); {
		case !ok:
			e.Fail("%q is not an origin as browsers write it, for example https://console.example.com, or http://localhost:7480", origin)
		case slices.Contains(p.Origins, origin):
			e.Fail("the origin %s is there twice", origin)
		case len(p.Origins) == maxOrigins:
			e.Fail("there are more than %d origins", maxOrigins)
		default:
			p.Origins = append(p.Origins, origin)
		}
	}
	if v := m.Get("synced"); v.Present() {
		p.Synced = v.OneOf("allow", "refuse") == "allow"
	}
	return p
}
