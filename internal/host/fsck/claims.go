package fsck

import (
	"errors"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/store"
)

// Claims is what fsck asks about the rows of agents and reservations. Only package book knows their packages. A store
// without these tables needs neither.
type Claims struct {
	// Agents returns the registered agents, in the order of their names.
	Agents func(*store.Tx) ([]Agent, error)

	// Brief returns the patterns of a reservation that later entries of the log repeat, and how many it has, or 0 if they
	// repeat all.
	Brief func(patterns []string) (few []string, of int)

	// Place returns the incarnation of a scope's directory.
	Place func(key string, device, inode uint64) op.Incarnation

	// Overlaps returns what is wrong with the reservations that are in force at a time, beside each other, and with their
	// index.
	Overlaps func(*store.Tx, time.Time) ([]string, error)
}

// Agent is a row of a registered agent.
type Agent struct {
	ID      int64
	Name    string
	Account op.Account
	Binding string // a digest of its process and its token
}

var claims *Claims

// Register says who answers for agents and reservations. Package book calls it, once.
func Register(c Claims) { claims = &c }

var errNoClaims = errors.New("fsck: this program cannot check agents and reservations, because it does not link fsck/book")

// answered returns an error if there are tables of agents or reservations, and nobody who knows them.
func (c *check) answered() error {
	if claims == nil && (c.has("agents") || c.has("reservations")) {
		return errNoClaims
	}
	return nil
}
