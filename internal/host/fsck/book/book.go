// Package book lets fsck check agents and reservations. A program that checks a whole database imports it for its effect.
// It is apart from fsck because the tests of all that decides link fsck, and few of them have agents or reservations.
package book

import (
	"gated/internal/agents/agent"
	"gated/internal/agents/reserve"
	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/host/fsck"
)

func init() {
	fsck.Register(fsck.Claims{Agents: agents, Brief: reserve.Brief, Place: place, Overlaps: reserve.Verify})
}

func agents(tx *store.Tx) ([]fsck.Agent, error) {
	var all []fsck.Agent
	registered, err := agent.All(tx)
	for _, r := range registered {
		all = append(all, fsck.Agent{ID: r.ID, Name: r.Name, Account: r.Account(), Binding: r.Binding()})
	}
	return all, err
}

func place(key string, device, inode uint64) op.Incarnation {
	p := reserve.PlaceOf(key)
	p.Device, p.Inode = device, inode
	return p.Incarnation()
}
