package op_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/test/must"
)

func TestTransitionsAreOneMachine(t *testing.T) {
	entries, reached := map[string]bool{}, map[op.State]bool{"": true}
	for _, tr := range op.Transitions {
		require.False(t, entries[tr.Entry], "%s has two rows", tr.Entry)
		entries[tr.Entry] = true
		require.Equal(t, tr, op.TransitionOf(tr.Entry))
		require.NotEmpty(t, tr.From)
		reached[tr.To] = true
		for _, from := range tr.From {
			require.True(t, from == "" || from.Open(), "%s: %s is an end", tr.Entry, from)
		}
		// A nonce is spent when its request no longer waits, and not before.
		waits := slices.Contains(tr.From, op.StatePending)
		require.Equal(t, waits && tr.To != op.StatePending, tr.Nonce != "" && tr.Nonce != "issued", tr.Entry)
	}
	for _, s := range op.States {
		require.True(t, reached[s], "no step gets to %s", s)
		leaves := slices.ContainsFunc(op.Transitions, func(tr op.Transition) bool { return tr.Allows(s) })
		require.Equal(t, s.Open(), leaves, "%s", s)
	}
	require.Empty(t, op.TransitionOf("joined"))
	require.False(t, op.TransitionOf("joined").Allows(""))
}

// statesPage draws the table.
func statesPage() string {
	var b strings.Builder
	b.WriteString(`# The states of a step

A test writes this page from the table in ` + "`internal/base/op/job.go`" + ` (` + "`GATED_STATES=write go test ./internal/base/op`" + `). The gate changes a
step's state in these ways alone. Each change has an entry of its own in the [audit log](../formats/audit.md), and fsck finds an entry
that tells of another change.

` + "```mermaid\nstateDiagram-v2\n")
	var rows strings.Builder
	for _, tr := range op.Transitions {
		for _, from := range tr.From {
			at := string(from)
			if from == "" {
				at = "[*]"
			}
			fmt.Fprintf(&b, "    %s --> %s: %s\n", at, tr.To, tr.Entry)
		}
		names := make([]string, len(tr.From))
		for i, from := range tr.From {
			names[i] = "a new step"
			if from != "" {
				names[i] = "`" + string(from) + "`"
			}
		}
		fmt.Fprintf(&rows, "| `%s` | %s | `%s` | %s | %s | %s |\n", tr.Entry, strings.Join(names, ", "), tr.To, cell(tr.Nonce), cell(string(tr.Code)), tr.Why)
	}
	for _, s := range op.States {
		if !s.Open() {
			fmt.Fprintf(&b, "    %s --> [*]\n", s)
		}
	}
	b.WriteString("```\n\nThe nonce is that of a request that waits; the nonce of an authorized step is `used` already. Without a code in the\n" +
		"table, the step has the code of the refusal or of the back end's error, if there is one.\n\n" +
		"| entry | from | to | nonce | code | when |\n|---|---|---|---|---|---|\n" + rows.String())
	return b.String()
}

func cell(s string) string {
	if s == "" {
		return "-"
	}
	return "`" + s + "`"
}

func TestTheStatesPageIsTheTable(t *testing.T) {
	const path = "../../../docs/design/states.md"
	if os.Getenv("GATED_STATES") == "write" {
		require.NoError(t, os.WriteFile(path, []byte(statesPage()), 0o644))
	}
	b := must.Get(os.ReadFile(path))(t)
	require.Equal(t, statesPage(), string(b), "GATED_STATES=write go test ./internal/base/op writes it")
}
