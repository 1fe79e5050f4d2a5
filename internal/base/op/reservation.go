package op

import (
	"strconv"
	"strings"

	"gated/internal/base/refusal"
)

// KindScope is the kind of a directory in which agents reserve paths. The name of
// such a target is the id that the gate registered it under: scope/s3.
const KindScope = "scope"

// The operations that take reservations away from their holders.
const (
	ForceTransfer = "scope.force-transfer"
	ReleaseAll    = "scope.release-all"
)

// ReservationID is a short counter, written "r12".
type ReservationID int64

// String returns "r12".
func (id ReservationID) String() string { return "r" + strconv.FormatInt(int64(id), 10) }

// ParseReservationID parses "r12"; refusals are Malformed.
func ParseReservationID(s string) (ReservationID, error) {
	digits, ok := strings.CutPrefix(s, "r")
	n, err := parseCounter(digits)
	if !ok || err != nil {
		return 0, refusal.New(refusal.Malformed, "%q is not the id of a reservation like r12", s)
	}
	return ReservationID(n), nil
}

// AgentName returns the name in Requester.Agent without the number of its
// registration: "builder" of "builder#7".
func AgentName(agent string) string {
	name, _, _ := strings.Cut(agent, "#")
	return name
}
