package linear

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Traffic says what callers do to a gate.
type Traffic struct {
	Seed    uint64
	Prefix  string // of their names
	Agents  int
	Calls   int           // each of them makes
	TTL     time.Duration // the shortest
	Spread  time.Duration // how much longer another may be; both are whole seconds
	Waits   time.Duration // of one claim in four; 0 for none
	Between func()        // called after every call; may be nil
}

// Run has all agents call side by side, each one thing at a time.
func (t Traffic) Run(h *History) {
	var wg sync.WaitGroup
	for i := range t.Agents {
		a := &agent{Traffic: t, gate: h.Client(i), r: rand.New(rand.NewPCG(t.Seed, uint64(i))), base: t.name(i)}
		wg.Go(a.live)
	}
	wg.Wait()
}

func (t Traffic) name(i int) string { return fmt.Sprintf("%s%d", t.Prefix, i) }

// nobodys is the id of a reservation that is never made.
const nobodys = "r999999999"

// agent is one caller.
type agent struct {
	Traffic Traffic
	gate    Gate
	r       *rand.Rand
	base    string
	name    string // what it is registered as, "" for not
	names   int    // that it has had
	mine    []string
	others  []string // ids that it saw of others
}

func (a *agent) live() {
	for range a.Traffic.Calls {
		a.act()
		if a.Traffic.Between != nil {
			a.Traffic.Between()
		}
	}
}

// do asks, and learns from the answer which reservations there are.
func (a *agent) do(c Call) Answer {
	c.Agent = a.name
	answer := a.gate.Do(c)
	for _, h := range answer.Held {
		a.mine = slices.DeleteFunc(a.mine, func(id string) bool { return id == h.ID })
		a.others = slices.DeleteFunc(a.others, func(id string) bool { return id == h.ID })
		if h.Agent == a.name {
			a.mine = append(a.mine, h.ID)
		} else if a.others = append(a.others, h.ID); len(a.others) > 8 {
			a.others = a.others[1:]
		}
	}
	return answer
}

// register takes the name again, or a new one where it is not known whether the
// last one is free.
func (a *agent) register() {
	if a.name = a.base; a.names > 0 {
		a.name = fmt.Sprintf("%s-%d", a.base, a.names)
	}
	if answer := a.do(Call{Kind: Register}); answer.Lost || answer.Late || answer.Refused != "" {
		a.forget()
	}
}

func (a *agent) forget() {
	a.names++
	a.name, a.mine = "", nil
}

func (a *agent) act() {
	if a.name == "" {
		if a.r.IntN(2) == 0 { // others learn that it is gone
			a.register()
		}
		return
	}
	n := a.r.IntN(100)
	if n >= 40 && n < 76 && len(a.mine) == 0 && a.r.IntN(4) > 0 {
		n = 0 // it has nothing that it could release, renew or transfer
	}
	switch {
	case n < 40:
		a.do(a.claim(Reserve))
	case n < 58:
		a.release()
	case n < 66:
		a.do(Call{Kind: Renew, ID: a.pick(), TTL: a.ttl()})
	case n < 76:
		a.do(Call{Kind: Transfer, ID: a.pick(), To: a.other()})
	case n < 88:
		a.do(a.claim(Check))
	case n < 93:
		a.do(Call{Kind: List})
	default:
		a.end()
	}
}

func (a *agent) end() {
	switch answer := a.do(Call{Kind: End}); {
	case answer.Lost || answer.Late:
		a.forget()
	case answer.Refused == "":
		a.name, a.mine = "", nil
	}
}

// release gives up what it holds, and now and then tries that with what it does not.
func (a *agent) release() {
	c := Call{Kind: Release, ID: a.pick()}
	answer := a.do(c)
	if answer.Refused == "" && !answer.Lost && !answer.Late {
		a.mine = slices.DeleteFunc(a.mine, func(id string) bool { return id == c.ID })
	}
}

// other is somebody else's name, who may not be registered.
func (a *agent) other() string {
	for {
		if name := a.Traffic.name(a.r.IntN(a.Traffic.Agents)); name != a.base {
			return name
		}
	}
}

func (a *agent) ttl() time.Duration {
	return a.Traffic.TTL + time.Duration(a.r.Int64N(int64(a.Traffic.Spread/time.Second)+1))*time.Second
}

// pick is a reservation of its own, sometimes another's, nobody's where it knows none.
func (a *agent) pick() string {
	from := a.mine
	if len(from) == 0 || len(a.others) > 0 && a.r.IntN(5) == 0 {
		from = a.others
	}
	if len(from) == 0 {
		return nobodys
	}
	return from[a.r.IntN(len(from))]
}

// claim is one or two patterns of one scope, mostly for itself alone.
func (a *agent) claim(kind Kind) Call {
	c := Call{Kind: kind, Shared: a.r.IntN(4) == 0}
	first := a.r.IntN(len(Universe))
	c.Set = 1 << first
	if second := a.r.IntN(len(Universe)); Universe[first].Scope == Universe[second].Scope && a.r.IntN(3) == 0 {
		c.Set |= 1 << second
	}
	if kind == Reserve {
		c.Keep, c.TTL = a.r.IntN(5) == 0, a.ttl()
		if a.Traffic.Waits > 0 && a.r.IntN(4) == 0 {
			c.Wait = a.Traffic.Waits
		}
	}
	return c
}
