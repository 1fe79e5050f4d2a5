package access

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"gated/internal/base/refusal"
)

// maxClients is of how many addresses a rate is kept. The one that was not heard of for longest goes.
const maxClients = 4096

// rates bounds how often clients ask, and how often they try to sign in.
type rates struct {
	now         func() time.Time
	limits      Limits
	all, signIn *rate.Limiter

	mu      sync.Mutex
	clients map[string]*clientRate
}

type clientRate struct {
	asks, tries *rate.Limiter
	last        time.Time
}

// burst is how many seconds' worth may come at once.
const burst = 5

func newRates(l Limits, now func() time.Time) *rates {
	return &rates{now: now, limits: l, clients: map[string]*clientRate{},
		all:    rate.NewLimiter(rate.Limit(l.AllPerSecond), int(burst*l.AllPerSecond)),
		signIn: rate.NewLimiter(rate.Limit(l.AllTriesPerMinute/60), int(l.AllTriesPerMinute))}
}

func (rs *rates) of(client string) *clientRate {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	now := rs.now()
	c := rs.clients[client]
	if c == nil {
		rs.room()
		c = &clientRate{asks: rate.NewLimiter(rate.Limit(rs.limits.PerSecond), int(burst*rs.limits.PerSecond)),
			tries: rate.NewLimiter(rate.Limit(rs.limits.TriesPerMinute/60), int(rs.limits.TriesPerMinute))}
		rs.clients[client] = c
	}
	c.last = now
	return c
}

// room forgets the client that was silent for longest, if there are too many.
func (rs *rates) room() {
	if len(rs.clients) < maxClients {
		return
	}
	oldest := ""
	for name, c := range rs.clients {
		if oldest == "" || c.last.Before(rs.clients[oldest].last) {
			oldest = name
		}
	}
	delete(rs.clients, oldest)
}

// pass takes one request of a client. One that is refused for itself takes nothing from all others.
func (rs *rates) pass(client string) bool {
	now := rs.now()
	return rs.of(client).asks.AllowN(now, 1) && rs.all.AllowN(now, 1)
}

func (rs *rates) tries(client string) bool {
	now := rs.now()
	return rs.of(client).tries.AllowN(now, 1) && rs.signIn.AllowN(now, 1)
}

// TrySignIn counts a try to sign in, and refuses one too many (OverLimit). Every handler that checks a signature for a
// session calls it first.
func (w *Wall) TrySignIn(r *http.Request) error {
	if !w.rates.tries(w.client(r)) {
		return tooFast("there were too many tries to sign in")
	}
	return nil
}

func tooFast(what string) *refusal.Refusal {
	return refusal.New(refusal.OverLimit, "%s", what).WithHint("wait a minute, and try again")
}

// client names where a request comes from, for the limits of rates alone.
func (w *Wall) client(r *http.Request) string {
	text, _, _ := net.SplitHostPort(r.RemoteAddr)
	if w.config.Proxied {
		// Only the last address is the proxy's own word. Those before it are the client's.
		all := strings.Join(r.Header.Values("X-Forwarded-For"), ",")
		text = strings.TrimSpace(all[strings.LastIndexByte(all, ',')+1:])
	}
	return household(text)
}

// household names the clients that count as one: an address, and of IPv6 a /64, of which each household has one.
func household(address string) string {
	addr, err := netip.ParseAddr(address)
	if err != nil {
		return "unknown"
	}
	addr = addr.Unmap().WithZone("")
	if addr.Is6() && !addr.IsLoopback() {
		p, _ := addr.Prefix(64) // which an address of IPv6 has
		return p.String()
	}
	return addr.String()
}
