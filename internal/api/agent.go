package api

import "time"

// RegisterAgent is the body of POST /v1/agents: a process of the caller's, or
// with Token nothing but the name. Pid and Reaper are as the caller's PID
// namespace has them (docs/design/agents.md).
type RegisterAgent struct {
	Name   string `json:"name"`
	PID    int    `json:"pid,omitzero"`
	Reaper int    `json:"reaper,omitzero"`
	Token  bool   `json:"token,omitzero"`
}

// Agent is a registered agent.
type Agent struct {
	Name         string    `json:"name"`
	ID           string    `json:"id"` // builder#7: another registration of the name has another number
	UID          uint32    `json:"uid"`
	PID          int       `json:"pid"`   // 0 with a token
	Bound        string    `json:"bound"` // process or token
	Alive        bool      `json:"alive"` // of a token nobody knows; that counts as alive
	RegisteredAt time.Time `json:"registered_at"`
}

// RegisteredAgent answers POST /v1/agents. Token is shown this once, and only
// where one was asked for.
type RegisteredAgent struct {
	Agent
	Token string `json:"token,omitempty"`
}

// Caller answers GET /v1/agents/self: whom the daemon takes the caller for.
type Caller struct {
	UID   uint32 `json:"uid"`
	PID   int32  `json:"pid"`
	Agent *Agent `json:"agent"` // null for a bare uid
	Why   string `json:"why"`   // why there is no name, where there is something to say
}

// AgentList answers GET /v1/agents, by name.
type AgentList struct {
	Agents []Agent `json:"agents"`
}

// TokenHeader carries an agent's token in each request of a caller whose
// processes the daemon cannot see.
const TokenHeader = "Gated-Agent-Token"
