package main

import (
	"errors"

	"gated/internal/api"
	"gated/internal/cli"
	"gated/internal/client"
	"gated/internal/op"
)

// refused is how a program sees who is in the way.
type refused struct {
	Error struct {
		Code      op.Code        `json:"code"`
		Detail    string         `json:"detail"`
		Hint      string         `json:"hint,omitempty"`
		Conflicts []api.Conflict `json:"conflicts"`
	} `json:"error"`
}

// mostTold is how many conflicts the gate tells of at most.
const mostTold = 20

// inTheWay says who holds what was asked for, where an error has that: once, in
// the words of gated check. Any other error is returned as it is.
func (t *tool) inTheWay(err error, scope string) error {
	var other *client.Conflicted
	if !errors.As(err, &other) || len(other.Conflicts) == 0 {
		return err
	}
	r := op.AsRefusal(err)
	for _, c := range other.Conflicts {
		t.Say(wordsInTheWay, op.Shown(string(r.Code)), conflict(c, scope))
	}
	if len(other.Conflicts) >= mostTold {
		t.Say(wordsMayBeMore)
	}
	if r.Hint != "" {
		t.Say(wordsWayOut, cli.Lines(r.Hint))
	}
	if t.JSON {
		var out refused
		out.Error.Code, out.Error.Detail, out.Error.Hint, out.Error.Conflicts = r.Code, r.Detail, r.Hint, other.Conflicts
		if err := t.Emit(out); err != nil {
			return err
		}
	}
	return cli.Ended(api.Exit(err))
}

// each returns the reservations of conflicts, each once.
func each(conflicts []api.Conflict) []api.Reservation {
	var out []api.Reservation
	seen := map[string]bool{}
	for _, c := range conflicts {
		if !seen[c.Reservation.ID] {
			seen[c.Reservation.ID] = true
			out = append(out, c.Reservation)
		}
	}
	return out
}
