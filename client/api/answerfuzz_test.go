package api

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// answers are what a client reads of a daemon: each kind of object.
var answers = []func() any{
	func() any { return new(Status) }, func() any { return new(Job) }, func() any { return new(JobList) },
	func() any { return new(Request) }, func() any { return new(RequestList) }, func() any { return new(Guest) },
	func() any { return new(GuestList) }, func() any { return new(OpList) }, func() any { return new(Explanation) },
	func() any { return new(Plan) }, func() any { return new(Set) }, func() any { return new(SetList) },
	func() any { return new(Agent) }, func() any { return new(RegisteredAgent) }, func() any { return new(Caller) },
	func() any { return new(Reservation) }, func() any { return new(ReservationList) }, func() any { return new(Checked) },
	func() any { return new(Scope) }, func() any { return new(ScopeList) }, func() any { return new(Head) },
	func() any { return new(EntryList) }, func() any { return new(Consistency) }, func() any { return new(Inclusion) },
	func() any { return new(Problem) }, func() any { return new(Command) }, func() any { return new(CommandList) },
	func() any { return new(BackendList) }, func() any { return new(Trust) }, func() any { return new(Verified) }, func() any { return new(HealthReport) }, func() any { return new(Reloaded) },
	func() any { return new(FleetQueue) },
}

// FuzzAnswer: what stands where a daemon's answer should is read in one way or
// refused, whatever it is read as, and what is read can be passed on.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{
		`{"host":"h","gate":"` + "0123456789abcdef0123456789abcdef" + `","waiting":2,"newer":{"member":[1]}}`,
		`{"id":"j12","state":"pending_signature","steps":[{"id":"j12.1","op":"guest.destroy","target":"guest/a","params":{"n":1}}],"created_at":"2026-03-01T12:00:00Z"}`,
		`{"id":"j12.1","payload":"e30=","payload":"e30="}`,
		`{"reservations":[{"id":"r1","patterns":["a"]}],"next":"r1"}`,
		`{"entries":[{"seq":1,"kind":"approved","time":"2026-03-01T12:00:00Z"}]}`,
		`{"old":1,"size":2,"proof":["AA=="]}`,
		`{"code":"replayed","detail":"d","request":"j1.1","state":"succeeded"}`,
		`{"code":"no_such_code","status":200}`,
		"null", "[]", "\"\xff\"",
	} {
		f.Add([]byte(s), uint8(0))
	}
	f.Fuzz(func(t *testing.T, b []byte, which uint8) {
		for i, make := range answers {
			if which > 0 && i != int(which)%len(answers) {
				continue
			}
			v := make()
			if err := DecodeAnswer(b, v); err != nil {
				refused(t, err)
				continue
			}
			if !jsontext.Value(b).IsValid() {
				t.Fatalf("%T was read of what can be read in two ways: %q", v, b)
			}
			if again, err := Encode(v); err != nil || !jsontext.Value(again).IsValid() {
				t.Fatalf("%T cannot be passed on: %v %q", v, err, again)
			}
			if p, ok := v.(*Problem); ok {
				if r := p.Refusal(); r.Code == "" || Exit(r) == ExitDone {
					t.Fatalf("a refusal that says done: %+v", r)
				}
			}
		}
	})
}
