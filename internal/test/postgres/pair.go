package postgres

import "testing"

// Pair is a primary with a synchronous standby. Clients reach both by proxies, and the standby its primary.
type Pair struct {
	First, Second *Cluster
	ToFirst       *Proxy // from clients
	ToSecond      *Proxy // from clients
	Link          *Proxy // from the standby to the primary
}

// NewPair starts a pair, which waits for its standby from then on. Both have further lines of
// postgresql.conf.
func NewPair(t testing.TB, lines ...string) *Pair {
	t.Helper()
	p := &Pair{First: Primary(t, lines...)}
	p.Link = NewProxy(t, p.First.Port)
	p.Second = p.First.Standby(t, "second", p.Link.Port, lines...)
	p.First.Set(t, "synchronous_standby_names", "second")
	p.First.Synchronous(t)
	p.ToFirst, p.ToSecond = NewProxy(t, p.First.Port), NewProxy(t, p.Second.Port)
	return p
}

// DSN connects to whichever of the two takes writes.
func (p *Pair) DSN() string { return DSN(p.ToFirst.Port, p.ToSecond.Port) }
