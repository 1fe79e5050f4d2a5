package doctor

import (
	"context"
	"fmt"
	"regexp"

	"gated/internal/api"
	"gated/internal/op"
)

// leftName is what the doctor calls its agents.
var leftName = regexp.MustCompile("^doctor-[0-9a-f]{12}$")

// tidy gives up the names of doctors that were killed: of this uid, bound to a
// token that nobody has any more, and older than what any doctor holds. The
// daemon lets nobody do that but an operator, and only where nothing is held
// under the name; a refusal goes into its log, so the first one ends it.
func (d Doctor) tidy(ctx context.Context, r *Report, gate Gate) {
	ctx, cancel := context.WithTimeout(ctx, asks)
	defer cancel()
	me, err := gate.Self(ctx)
	if err != nil {
		return // what is wrong shows in the trial
	}
	list, err := gate.Agents(ctx)
	if err != nil {
		return
	}
	var left []api.Agent
	for _, a := range list {
		if leftName.MatchString(a.Name) && a.PID == 0 && a.UID == me.UID && d.Now().Sub(a.RegisteredAt) > probeTTL {
			left = append(left, a)
		}
	}
	if len(left) == 0 {
		return
	}
	if me.Agent != nil {
		r.add(whatLeft, Note, fmt.Sprintf(wordsRemain, len(left), left[0].Name, wordsAsAgent)).hint(hintRemain)
		return
	}
	for i, a := range left {
		if _, err := gate.Unregister(ctx, a.Name); err != nil {
			r.add(whatLeft, Note, fmt.Sprintf(wordsRemain, len(left)-i, op.Shown(a.Name), short(err))).hint(hintRemain)
			return
		}
	}
	r.add(whatLeft, OK, fmt.Sprintf(wordsTookAway, len(left)))
}
