package members

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// CallerHeader has the caller of a forwarded call. Only a connection of another member's certificate may have it.
const CallerHeader = "Gated-Caller"

// GroupHeader has, in the answer to a forwarded call, the newest group of the ledger that the active member had then.
const GroupHeader = "Gated-Group"

// maxCall is the longest value of CallerHeader, in bytes.
const maxCall = 512

// Call is the caller of a forwarded call. It does not name the member: the certificate does.
type Call struct {
	Gate  op.GateID
	UID   uint32
	PID   int32  // on the member's host
	Agent string // "builder#7", a registration of the member; empty for a bare uid
}

// String returns the value of CallerHeader.
func (c Call) String() string {
	agent := c.Agent
	if agent == "" {
		agent = "-"
	}
	return fmt.Sprintf("v1 %s %d %d %s", c.Gate, c.UID, c.PID, agent)
}

// ParseCall reads what String returns. A refusal is Malformed.
func ParseCall(s string) (Call, error) {
	bad := refusal.New(refusal.Malformed, "%s is not v1, a gate, a uid, a pid and an agent", CallerHeader).
		WithHint("all members have to run the same version of gated")
	f := strings.Split(s, " ")
	if len(s) > maxCall || len(f) != 5 || f[0] != "v1" || f[1] == "" {
		return Call{}, bad
	}
	uid, err1 := strconv.ParseUint(f[2], 10, 32)
	pid, err2 := strconv.ParseInt(f[3], 10, 32)
	c := Call{Gate: op.GateID(f[1]), UID: uint32(uid), PID: int32(pid), Agent: f[4]}
	if c.Agent == "-" {
		c.Agent = ""
	}
	if err1 != nil || err2 != nil || pid < 0 || c.Agent != "" && !registration(c.Agent) || c.String() != s {
		return Call{}, bad
	}
	return c, nil
}

// registration reports whether s is a name, # and a number, as a registration is written.
func registration(s string) bool {
	name, number, _ := strings.Cut(s, "#")
	id, err := strconv.ParseInt(number, 10, 64)
	return err == nil && id > 0 && op.CheckName(name) == nil && fmt.Sprintf("%s#%d", name, id) == s
}

// CallOf reads the caller of a forwarded call, which has exactly one.
func CallOf(h http.Header) (Call, error) {
	values := h.Values(CallerHeader)
	if len(values) != 1 {
		return Call{}, refusal.New(refusal.Malformed, "%s is not there once", CallerHeader)
	}
	return ParseCall(values[0])
}
