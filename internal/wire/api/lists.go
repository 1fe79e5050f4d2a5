package api

// Answers with lists are objects with one member, so that members can be added.
type (
	// OpList answers GET /v1/ops.
	OpList struct {
		Ops []Op `json:"ops"`
	}
	// JobList answers GET /v1/jobs, oldest first. Next is the value of after for the next page, null at the end.
	JobList struct {
		Jobs []Job   `json:"jobs"`
		Next *string `json:"next"`
	}
	// RequestList answers GET /v1/requests, oldest first, with Next as of JobList.
	RequestList struct {
		Requests []Request `json:"requests"`
		Next     *string   `json:"next"`
	}
	// GuestList answers GET /v1/guests, by name, with Next as of JobList.
	GuestList struct {
		Guests []Guest `json:"guests"`
		Next   *string `json:"next"`
	}
	// CommandList answers GET /v1/commands, by name.
	CommandList struct {
		Commands []Command `json:"commands"`
	}
	// BackendList answers GET /v1/backends, by name.
	BackendList struct {
		Backends []Backend `json:"backends"`
	}
	// SetList answers GET /v1/desired.
	SetList struct {
		Sets []Set `json:"sets"`
	}
	// EntryList answers GET /v1/audit, oldest first.
	EntryList struct {
		Entries []Entry `json:"entries"`
	}
)
