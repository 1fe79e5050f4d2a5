package api

import "time"

// RegisterAgent is the body of POST /v1/agents: a process of the caller's, or with Token only the name. Pid and Reaper
// are those of the caller's PID namespace (docs/design/agents.md).
type RegisterAgent struct {
	Name   string `json:"name"`
	PID    int    `json:"pid,omitzero"`
	Reaper int    `json:"reaper,omitzero"`
	Token  bool   `json:"token,omitzero"`
}

// Agent is a registered agent.
type Agent struct {
	Name         string    `json:"name"`
	ID           string    `json:"id"` // builder#7; each registration of the name has another number
	UID          uint32    `json:"uid"`
	PID          int       `json:"pid"`   // 0 with a token
	Bound        string    `json:"bound"` // process or token
	Alive        bool      `json:"alive"` // a token counts as alive
	RegisteredAt time.Time `json:"registered_at"`
}

// RegisteredAgent answers POST /v1/agents. Token is shown only this once, if the caller asked for one.
type RegisteredAgent struct {
	Agent
	Token string `json:"token,omitempty"`
}

// Caller answers GET /v1/agents/self: which agent the daemon takes the caller for.
type Caller struct {
	UID   uint32 `json:"uid"`
	PID   int32  `json:"pid"`
	Agent *Agent `json:"agent"` // null for a bare uid
	Why   string `json:"why"`   // why there is no name, if there is a reason
}

// AgentList answers GET /v1/agents, by name.
type AgentList struct {
	Agents []Agent `json:"agents"`
}

// TokenHeader carries an agent's token in each request of a caller whose
// processes the daemon cannot see.
const TokenHeader = "Gated-Agent-Token"
