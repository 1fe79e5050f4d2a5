package main

import (
	"slices"

	"gated/internal/api"
	"gated/internal/cli"
	"gated/internal/op"
)

// taken words what a step on reservations did, "" for any other. A scope goes by
// its path, as the gate saw it. How many reservations there were is what the
// signature was for: with one more or less the step would have been refused.
func taken(r api.Request) string {
	where := factText(r, "path")
	if where == "" {
		where = r.Target
	}
	switch r.Op {
	case op.ReleaseAll:
		text := sprint(wordsReleasedAll, cli.Inline(where))
		if n := factText(r, "reservations"); n != "" {
			text += sprint(wordsOfHowMany, cli.Inline(n))
		}
		return text
	case op.ForceTransfer:
		return sprint(wordsTransferred, cli.Inline(r.Params.Str("reservation")), cli.Inline(where), cli.Inline(r.Params.Str("to")))
	}
	return ""
}

// factText returns the text of the first fact of that name, "" if there is none.
func factText(r api.Request, name string) string {
	i := slices.IndexFunc(r.Facts, func(f op.Fact) bool { return f.Name == name })
	if i < 0 {
		return ""
	}
	return r.Facts[i].Text
}
