package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// hub says how the daemon's link to its hub is, if it has one. The files of certificates and the token are the
// daemon's, so the daemon says what is wrong with them.
func (r *Report) hub(h *api.Hub) {
	if h == nil {
		return
	}
	f := r.add("hub", OK, "%s: revision %s, read %s", op.Shown(h.URL), op.Shown(h.Revision), moment(h.ReadAt))
	switch {
	case h.Error != nil:
		f.State = Bad
		f.Detail = fmt.Sprintf("%s: its wishes rest, last read %s: %s",
			op.Shown(h.URL), moment(h.ReadAt), op.Shown(h.Error.Detail))
		f.hint("%s", hubHint(h.Error.Code))
	case h.ReadAt == nil:
		f.State, f.Detail = Note, fmt.Sprintf("%s was not asked yet", op.Shown(h.URL))
	}
	for _, part := range []struct {
		what string
		err  *api.Error
	}{{whatHubRelays, h.RelayError}, {whatHubReports, h.ReportError}} {
		if part.err != nil {
			r.add(part.what, Bad, "%s", op.Shown(part.err.Detail)).hint("%s", hubHint(part.err.Code))
		}
	}
}

// hubHint says what to do about an error of an exchange with a hub.
func hubHint(c refusal.Code) string {
	switch c {
	case refusal.NotAllowed:
		return "as the daemon's user: ca in gated.yaml is the hub's certificate, and token_file its token (chmod 600 FILE)"
	case refusal.Unavailable:
		return "check that the hub runs and that this host reaches its address; the daemon can read ca and token_file"
	case refusal.UnknownTarget:
		return "check url in gated.yaml, then make a directory with the host's name at the hub, with a document in it"
	}
	return "repair it at the hub: gated docs guides/hub says what each answer means"
}

func moment(at *time.Time) string {
	if at == nil {
		return "never"
	}
	return at.UTC().Format(time.RFC3339)
}

// backendsAsk bounds the question about the daemon's back ends. Each may take seconds; all are asked side by side.
const backendsAsk = 15 * time.Second

// backends makes the daemon check its back ends, and adds their findings.
func (d Doctor) backends(ctx context.Context, r *Report) {
	ctx, cancel := context.WithTimeout(ctx, backendsAsk)
	defer cancel()
	g, err := d.Connect(d.Socket, "")
	if err != nil {
		return // the report says it of the daemon already
	}
	defer g.Close()
	list, err := g.Backends(ctx)
	switch {
	case errors.Is(err, refusal.Malformed):
		r.add(whatBackends, Note,
			"the daemon is older than this program and cannot be asked for them").hint("restart it with this version")
		return
	case err != nil:
		r.add(whatBackends, Bad, "the daemon does not say how its back ends are: %s", short(err))
		return
	}
	for _, b := range list {
		r.backend(b)
	}
}

// backend says what one back end found.
func (r *Report) backend(b api.Backend) {
	what := fmt.Sprintf("back end %s", b.Name)
	if b.State == api.BackendAway {
		f := r.add(what, Bad, "away: its guests are unknown and nothing is planned for them: %s",
			op.Shown(b.Detail))
		if b.Since != nil {
			f.Detail = fmt.Sprintf("away since %s: its guests are unknown and nothing is planned for them: %s",
				b.Since.UTC().Format(time.RFC3339), op.Shown(b.Detail))
		}
		f.hint("the bad lines below say more; requests stay, and go on when it is back")
	}
	for _, x := range b.Findings {
		f := r.add(what+": "+x.What, Bad, "%s", op.Shown(x.Detail))
		switch s := State(x.State); s {
		case OK, Note:
			f.State = s
		}
		f.Hint = op.Shown(x.Hint)
	}
}
