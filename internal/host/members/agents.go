package members

// AgentsPath is where the active member hears of agents on other members' hosts. No caller on a socket gets there. POST has an
// Enrolment, and is answered with an Enrolled. DELETE of a registration below it, builder#7, says that its process ended.
const AgentsPath = "/v1/members/agents"

// Enrolment is a registration that a member checked, for the caller of the call. It has a process or a token.
type Enrolment struct {
	Name  string `json:"name"`
	PID   int    `json:"pid"`   // 0 with a token
	Start uint64 `json:"start"` // clock ticks since boot
	Boot  string `json:"boot"`  // the boot id of the member's host
	Token string `json:"token"` // hex SHA-256; empty with a process
}

// Enrolled has the number of the registration.
type Enrolled struct {
	ID int64 `json:"id"`
}
