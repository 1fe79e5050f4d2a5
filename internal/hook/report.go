package hook

// Report says what installing or uninstalling hooks changed, or would change.
type Report struct {
	Changes []Change `json:"changes"`
	Notes   []string `json:"notes"` // what a person should know about it
}

// Change is what became of one file.
type Change struct {
	Path   string `json:"path"`
	Action Action `json:"action"`
	Backup string `json:"backup,omitzero"` // where what was there before is
	// Differs says in what way a hook of ours that was there is called otherwise
	// now: "on-failure: block -> warn".
	Differs []string `json:"differs,omitempty"`
}

// Action is what was done with a file.
type Action string

// The actions.
const (
	Created   Action = "created"
	Changed   Action = "changed"
	Removed   Action = "removed"
	Unchanged Action = "unchanged" // it was as it should be
)

// And joins two reports.
func (r Report) And(o Report) Report {
	r.Changes = append(r.Changes, o.Changes...)
	r.Notes = append(r.Notes, o.Notes...)
	return r
}
