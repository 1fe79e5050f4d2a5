package doctor

import (
	"fmt"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/api"
)

// hub says how the daemon's link to its hub is, if it has one. The files of certificates and the token are the
// daemon's, so the daemon says what is wrong with them.
func (r *Report) hub(h *api.Hub) {
	if h == nil {
		return
	}
	f := r.add(whatHub, OK, fmt.Sprintf(wordsHubRead, op.Shown(h.URL), op.Shown(h.Revision), moment(h.ReadAt)))
	switch {
	case h.Error != nil:
		f.State = Bad
		f.Detail = fmt.Sprintf(wordsHubAway, op.Shown(h.URL), moment(h.ReadAt), op.Shown(h.Error.Detail))
		f.hint(hubHint(h.Error.Code))
	case h.ReadAt == nil:
		f.State, f.Detail = Note, fmt.Sprintf(wordsHubNotYet, op.Shown(h.URL))
	}
	for _, part := range []struct {
		what string
		err  *api.Error
	}{{whatHubRelays, h.RelayError}, {whatHubReports, h.ReportError}} {
		if part.err != nil {
			r.add(part.what, Bad, op.Shown(part.err.Detail)).hint(hubHint(part.err.Code))
		}
	}
}

// hubHint says what to do about an error of an exchange with a hub.
func hubHint(c refusal.Code) string {
	switch c {
	case refusal.NotAllowed:
		return hintHubTrust
	case refusal.Unavailable:
		return hintHubReach
	case refusal.UnknownTarget:
		return hintHubHost
	}
	return hintHubAnswer
}

func moment(at *time.Time) string {
	if at == nil {
		return wordsHubNever
	}
	return at.UTC().Format(time.RFC3339)
}
