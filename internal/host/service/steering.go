package service

import (
	"maps"
	"slices"

	"gated/client/api"
	"gated/internal/agents/steer"
	"gated/internal/base/op"
	"gated/internal/driver/command/catalogue"
)

// SteeringOf puts the rules of a back end on the wire.
func SteeringOf(backend string, rules []steer.Operation) []api.SteeringRule {
	var out []api.SteeringRule
	for _, r := range rules {
		out = append(out, api.SteeringRule{From: backend, InsteadOf: texts(r.Patterns), Below: r.Below, Op: r.Op, Hole: r.Name,
			Params: []string{}})
	}
	return out
}

// SteeringOfCommands puts the rules of a catalogue on the wire, by name. The configuration bounds their number.
func SteeringOfCommands(entries map[string]catalogue.Entry) []api.SteeringRule {
	out := []api.SteeringRule{}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		e := entries[name]
		if len(e.InsteadOf) == 0 {
			continue
		}
		out = append(out, api.SteeringRule{From: op.KindCommand + "/" + name, InsteadOf: texts(e.InsteadOf), Op: op.Run, Name: name,
			Params: slices.AppendSeq([]string{}, maps.Keys(e.Params))})
		slices.Sort(out[len(out)-1].Params)
	}
	return out
}

func texts(patterns []steer.Pattern) []string {
	out := make([]string, len(patterns))
	for i, p := range patterns {
		out[i] = p.String()
	}
	return out
}
