package hook

import (
	"strings"

	"github.com/go-json-experiment/json"
)

// Answered is what a product makes of a hook's end.
type Answered struct {
	Denied bool
	Failed bool   // the product takes it for a fault of the hook, and the call may go on
	Said   string // the words for people
}

// answer has the members of all products' answers.
type answer struct {
	Specific struct {
		Decision string `json:"permissionDecision"`
	} `json:"hookSpecificOutput"`
	Message    string `json:"systemMessage"`
	Decision   string `json:"decision"`           // Gemini
	Permission string `json:"permission"`         // Cursor
	User       string `json:"user_message"`       // Cursor
	TopLevel   string `json:"permissionDecision"` // Copilot
	Refuse     string `json:"refuse"`             // opencode's plugin
	Warning    string `json:"warning"`
}

// AnswerOf reads the end of a hook as the product does that called it.
func AnswerOf(d Dialect, o Outcome) Answered {
	switch {
	case o.Code == exitDenied && d.CanExit():
		return Answered{Denied: true, Said: o.Stderr}
	case o.Code != 0:
		return Answered{Failed: true, Said: o.Stderr}
	case strings.TrimSpace(o.Stdout) == "":
		return Answered{Failed: d.silent().Stdout != "", Said: o.Stderr}
	}
	var a answer
	if err := json.Unmarshal([]byte(o.Stdout), &a); err != nil {
		return Answered{Failed: true, Said: o.Stdout}
	}
	out := Answered{Said: a.Message + a.User + a.Warning + o.Stderr}
	switch d.(type) {
	case Gemini:
		out.Denied = a.Decision == "deny"
	case Cursor:
		out.Denied = a.Permission == "deny"
	case Copilot:
		out.Denied = a.TopLevel == "deny"
	case OpenCode:
		out.Denied = a.Refuse != ""
	default:
		out.Denied = a.Specific.Decision == "deny"
	}
	return out
}
