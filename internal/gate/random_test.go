package gate_test

import (
	"strconv"
	"time"

	"pgregory.net/rapid"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/people/policy"
)

// crowd has the people who sign at random, with their listed roles.
var crowd = map[string][]op.Role{"alice": {op.Operational}, "bob": {op.Operational}, "mona": {"manager"}, "carol": {op.Coordination}, "mallory": nil}

var keysOf = map[string]key{"alice": alice, "bob": bob, "mona": mona, "carol": carol, "mallory": mallory}

// model is what a reader of the design expects of one request.
type model struct {
	r          op.Request
	signed     map[string]bool // whose signatures count
	authorized time.Time
	over       bool
}

// atRandom is one walk. The model knows one rule with a threshold of two, which
// may ask for a manager instead, and a cool-off that may grow.
func atRandom(w *world, rt *rapid.T, made *int) {
	w.revoked = nil
	w.setRules()
	rules := map[string]policy.Rule{
		"none":    {Where: "r:0", Op: "guest.wipe", Threshold: 1},
		"two":     {Where: "r:1", Op: "guest.destroy", Threshold: 2},
		"manager": {Where: "r:2", Op: "guest.destroy", Role: "manager", Threshold: 1},
		"cool":    {Where: "r:3", Op: "guest.destroy", Threshold: 1, CoolOff: time.Hour},
	}
	names := []string{"none", "two", "manager", "cool"}
	held := "none"
	revoked := map[string]bool{}
	var open []*model
	then := map[*model]string{}
	demands := func(m *model) (people int, manager bool, cool time.Duration) {
		people = 1
		for _, rule := range []string{then[m], held} {
			switch rule {
			case "two":
				people = 2
			case "manager":
				manager = true
			case "cool":
				cool = time.Hour
			}
		}
		return people, manager, cool
	}
	counts := func(m *model) (operators int, managers int) {
		for who := range m.signed {
			if revoked[who] {
				continue
			}
			switch crowd[who][0] {
			case op.Operational:
				operators++
			default:
				managers++
			}
		}
		return operators, managers
	}
	met := func(m *model) bool {
		people, manager, _ := demands(m)
		operators, managers := counts(m)
		return operators >= people && (!manager || managers >= 1)
	}
	rt.Repeat(map[string]func(*rapid.T){
		"submit": func(rt *rapid.T) {
			*made++
			name := "g" + strconv.Itoa(*made)
			w.back.put(name)
			m := &model{r: w.request(ask("guest.destroy", name)), signed: map[string]bool{}}
			open = append(open, m)
			then[m] = held
		},
		"sign": func(rt *rapid.T) {
			if len(open) == 0 {
				rt.Skip("nothing waits")
			}
			m := open[rapid.IntRange(0, len(open)-1).Draw(rt, "request")]
			if m.r.ExpiresAt.Sub(w.Now()) < 3*time.Hour {
				rt.Skip("a long walk: the request is about to expire, which other tests are about")
			}
			who := rapid.SampledFrom([]string{"alice", "bob", "mona", "carol", "mallory"}).Draw(rt, "who")
			role := op.Operational
			if len(crowd[who]) > 0 {
				role = crowd[who][0]
			}
			got, err := w.approveAs(m.r, role, keysOf[who])
			_, manager, _ := demands(m)
			fits := role == op.Operational || role == "manager" && manager
			fresh := m.authorized.IsZero() && !m.over && !m.signed[who]
			if ok := err == nil; ok != (fits && fresh && who != "mallory" && !revoked[who]) {
				rt.Fatalf("%s signs %s as %s under %s then and %s now: %v", who, m.r.ID, role, then[m], held, err)
			}
			if err != nil {
				return
			}
			m.signed[who] = true
			for other := range m.signed { // signatures that do not count are removed
				if revoked[other] || crowd[other][0] == "manager" && !manager {
					delete(m.signed, other)
				}
			}
			if (got.Step.State == op.StateAuthorized) != met(m) {
				rt.Fatalf("%s is %s with %v", m.r.ID, got.Step.State, m.signed)
			}
			if got.Step.State == op.StateAuthorized {
				m.authorized = w.Now()
			}
		},
		"revoke": func(rt *rapid.T) {
			who := rapid.SampledFrom([]string{"bob", "mona"}).Draw(rt, "who")
			revoked[who] = !revoked[who]
			text := ""
			for name, is := range revoked {
				if is {
					text += keysOf[name].print() + "\n"
				}
			}
			list, err := authz.LoadRevoked([]byte(text))
			if err != nil {
				rt.Fatal(err)
			}
			if err := w.gate.Reload(w.ctx, list, w.gate.Policy()); err != nil {
				rt.Fatal(err)
			}
			w.revoked = list
		},
		"rules": func(rt *rapid.T) {
			held = rapid.SampledFrom(names).Draw(rt, "rules")
			p := w.gate.Policy()
			p.Roles, p.Rules = []op.Role{"manager"}, []policy.Rule{rules[held]}
			if err := w.gate.Reload(w.ctx, w.revoked, p); err != nil {
				rt.Fatal(err)
			}
		},
		"run": func(rt *rapid.T) {
			w.Pass(time.Duration(rapid.SampledFrom([]int{1, 30, 60}).Draw(rt, "minutes")) * time.Minute)
			w.run()
			for _, m := range open {
				if m.over || m.authorized.IsZero() {
					if !m.over && !w.back.has(m.r.Step.Target.Name) {
						rt.Fatalf("%s ran unsigned", m.r.ID)
					}
					continue
				}
				_, _, cool := demands(m)
				ended := !w.back.has(m.r.Step.Target.Name)
				due := !w.Now().Before(m.authorized.Add(cool))
				if ended != (due && met(m)) {
					rt.Fatalf("%s: ran %v, due %v, met %v", m.r.ID, ended, due, met(m))
				}
				m.over = due
			}
		},
	})
	for _, m := range open { // the next walk must not see these
		if !m.over {
			if _, err := w.gate.Cancel(w.ctx, hub, m.r.ID.Job); err != nil {
				rt.Fatal(err)
			}
		}
	}
}
