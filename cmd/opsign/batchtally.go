package main

import (
	"fmt"
	"strings"

	"gated/internal/base/op"
	"gated/internal/wire/cli"
)

// tally counts what one yes would approve, by gate and operation in the order of the batch, because what was shown first is
// out of sight by the last request.
func tally(items []*batched) string {
	type kind struct{ host, op string }
	var kinds []kind
	count, of := map[kind]int{}, map[kind]map[op.Undoable]int{}
	for _, it := range items {
		k := kind{it.q.payload.Host, it.q.payload.Op}
		if count[k] == 0 {
			kinds, of[k] = append(kinds, k), map[op.Undoable]int{}
		}
		count[k]++
		level, _ := it.q.undo()
		of[k][level]++
	}
	text := "In all:\n"
	for _, k := range kinds {
		text += fmt.Sprintf("  %s: %d of %s", cli.Inline(k.host), count[k], cli.Inline(k.op))
		for _, level := range []op.Undoable{op.Gone, op.ByHandUntil} {
			if n := of[k][level]; n > 0 {
				text += fmt.Sprintf(", %d of them %s", n, hard[level])
			}
		}
		text += "\n"
	}
	return text + crowded(items)
}

// crowded names the targets of several requests. What one of them takes is among what another was shown to leave, such as
// the backup of a guest that is destroyed too, and a gate looks only at the target as it is before each step.
func crowded(items []*batched) string {
	type target struct{ host, name string }
	var targets []target
	ids := map[target][]string{}
	for _, it := range items {
		k := target{it.q.payload.Host, it.q.payload.Target.String()}
		if ids[k] == nil {
			targets = append(targets, k)
		}
		ids[k] = append(ids[k], cli.Inline(it.ID))
	}
	text := ""
	for _, k := range targets {
		if len(ids[k]) > 1 {
			text += fmt.Sprintf("  %s on %s: %s were each shown as if the others did not run\n", cli.Inline(k.name), cli.Inline(k.host),
				strings.Join(ids[k], ", "))
		}
	}
	return text
}
