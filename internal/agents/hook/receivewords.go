package hook

import (
	"cmp"
	"fmt"
	"strings"

	"gated/client/api"
)

// askedFor is an update and what the gate said.
type askedFor struct {
	received
	job api.Job
	err error
}

// cannotReceive refuses a push that could not be judged.
func cannotReceive(err error) Outcome {
	return Outcome{Stderr: fmt.Sprintf("gated: nothing was pushed: %s.\n", bounded(shownOr(whatFailed(err)), maxField)), Code: exitRefused}
}

// wordsReceived tells who pushed what waits for an operator. others says that the push had other refs, too.
func wordsReceived(asked []askedFor, others bool) string {
	var b strings.Builder
	b.WriteString("gated: nothing was pushed: this takes away what a ref has, so an operator has to sign it.\n")
	waits := ""
	for _, a := range asked {
		what := fmt.Sprintf("replace %s, which is at %.12s, by %.12s", shownOr(a.ref), a.old, a.now)
		if a.deletes() {
			what = fmt.Sprintf("delete %s, which is at %.12s", shownOr(a.ref), a.old)
		}
		switch {
		case a.err != nil:
			fmt.Fprintf(&b, "  not asked: %s: %s\n", what, bounded(shownOr(whatFailed(a.err)), maxField))
		case a.job.Request != nil:
			waits = cmp.Or(waits, *a.job.Request)
			fmt.Fprintf(&b, "  asked: %s: %s\n", *a.job.Request, what)
		default:
			fmt.Fprintf(&b, "  %s is %s: %s\n", a.job.ID, a.job.State, what)
		}
	}
	if waits != "" {
		fmt.Fprintf(&b, "What to do: wait. When an operator has signed (opsign approve %s), the gate does it itself, if the ref has not\n"+
			"moved by then. Do not push it again. git fetch shows when it is done.\n", waits)
	}
	if others {
		b.WriteString("The other refs of this push were not changed either: push them by themselves.\n")
	}
	return b.String()
}
