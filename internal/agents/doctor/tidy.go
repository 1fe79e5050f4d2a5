package doctor

import (
	"context"
	"fmt"
	"regexp"

	"gated/internal/base/op"
	"gated/internal/wire/api"
)

// leftName matches the names of the doctor's agents.
var leftName = regexp.MustCompile("^doctor-[0-9a-f]{12}$")

// tidy gives up the names of killed doctors: of this uid, with a token, and older than any doctor needs. The daemon
// permits that only to an operator, and only if the name holds nothing. A refusal goes into the daemon's log, so the
// first one ends tidy.
func (d Doctor) tidy(ctx context.Context, r *Report, gate Gate) {
	ctx, cancel := context.WithTimeout(ctx, asks)
	defer cancel()
	me, err := gate.Self(ctx)
	if err != nil {
		return // the trial shows the error
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
