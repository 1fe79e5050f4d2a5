package linear

import (
	"fmt"
	"time"

	"gated/internal/base/refusal"
)

// Kind is what is asked.
type Kind string

// The kinds of calls. Register and End are of the caller's own name.
const (
	Register Kind = "register"
	End      Kind = "end"
	Reserve  Kind = "reserve"
	Renew    Kind = "renew"
	Release  Kind = "release"
	Transfer Kind = "transfer"
	Check    Kind = "check"
	List     Kind = "list"
)

// Call is what an agent asks.
type Call struct {
	Kind   Kind
	Agent  string
	Set    Set  // Reserve, Check
	Shared bool // Reserve, Check
	Keep   bool // Reserve: it outlives its holder
	TTL    time.Duration
	Wait   time.Duration // Reserve
	ID     string        // Renew, Release, Transfer: r12
	To     string        // Transfer
}

// Held is a reservation as an answer shows it.
type Held struct {
	ID      string
	Agent   string
	Set     Set
	Shared  bool
	Keep    bool
	Expires time.Time
}

// Answer is what came back. Held is the reservation that was made, renewed,
// released or transferred; for Check and a refused Reserve what is in the way;
// for List everything.
type Answer struct {
	Lost    bool         // nobody saw it: the call took effect before now, or never will
	Late    bool         // nobody saw it, and it may take effect at any time from now on
	Refused refusal.Code // "" for a success
	Held    []Held
	Renewed bool // Reserve: it was held already
	More    bool // there is more in the way than Held says
}

// Gate is what is tested.
type Gate interface {
	Do(Call) Answer
}

// String shows a call as a line of a history.
func (c Call) String() string {
	mode := "exclusive"
	if c.Shared {
		mode = "shared"
	}
	switch c.Kind {
	case Reserve:
		keep := ""
		if c.Keep {
			keep = " keep"
		}
		return fmt.Sprintf("%s reserve %d:%v %s%s ttl %s wait %s", c.Agent, c.Set.Scope(), c.Set.Patterns(), mode, keep, c.TTL, c.Wait)
	case Check:
		return fmt.Sprintf("%s check %d:%v %s", c.Agent, c.Set.Scope(), c.Set.Patterns(), mode)
	case Transfer:
		return fmt.Sprintf("%s transfer %s to %s", c.Agent, c.ID, c.To)
	case Renew:
		return fmt.Sprintf("%s renew %s ttl %s", c.Agent, c.ID, c.TTL)
	case Release:
		return fmt.Sprintf("%s release %s", c.Agent, c.ID)
	default:
		return fmt.Sprintf("%s %s", c.Agent, c.Kind)
	}
}

// String shows an answer as a line of a history.
func (a Answer) String() string {
	out := "ok"
	switch {
	case a.Lost:
		return "LOST"
	case a.Late:
		return "LATE"
	case a.Refused != "":
		out = string(a.Refused)
	case a.Renewed:
		out = "renewed"
	}
	for _, h := range a.Held {
		out += " " + h.String()
	}
	return out
}

// String shows a reservation as a line of a history.
func (h Held) String() string {
	mark := ""
	if h.Shared {
		mark += " shared"
	}
	if h.Keep {
		mark += " keep"
	}
	return fmt.Sprintf("[%s %s %d:%v%s until %s]", h.ID, h.Agent, h.Set.Scope(), h.Set.Patterns(), mark, h.Expires.Format("15:04:05.000000"))
}
