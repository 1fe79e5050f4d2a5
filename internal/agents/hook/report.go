package hook

// Report says what the installation or removal of hooks changed, or would change.
type Report struct {
	Changes []Change `json:"changes"`
	Notes   []string `json:"notes"` // for a person to know
}

// Change is the result for one file.
type Change struct {
	Path   string `json:"path"`
	Action Action `json:"action"`
	Backup string `json:"backup,omitzero"` // the copy of the earlier content
	// Differs says how the arguments of an installed hook changed: "on-failure: block -> warn".
	Differs []string `json:"differs,omitempty"`
}

// Action is the act on a file.
type Action string

// The actions.
const (
	Created   Action = "created"
	Changed   Action = "changed"
	Removed   Action = "removed"
	Unchanged Action = "unchanged" // it was right already
)

// And joins two reports.
func (r Report) And(o Report) Report {
	r.Changes = append(r.Changes, o.Changes...)
	r.Notes = append(r.Notes, o.Notes...)
	return r
}
