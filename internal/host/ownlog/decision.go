package ownlog

import (
	"context"
	"log/slog"
	"strings"

	"gated/internal/base/op"
	"gated/internal/log/audit"
)

// says has a sentence for each kind of entry that is a decision, or the start or end of a step. None has words of a
// caller: those are attributes.
var says = map[audit.Kind]string{
	audit.Started:      "the gate decides from now on",
	audit.Stopped:      "the gate stopped",
	audit.Trusted:      "policy and revoked keys were loaded",
	audit.Rotated:      "the signers changed",
	audit.Uncounted:    "signatures count no longer",
	audit.Planned:      "a step may run unsigned",
	audit.Requested:    "a request waits for a signature",
	audit.Joined:       "another requester wants the same",
	audit.Reissued:     "a request has to be signed anew",
	audit.Signed:       "a signature counts, and more are needed",
	audit.Approved:     "a step is approved",
	audit.Rejected:     "an operator rejected a request",
	audit.Withdrawn:    "a requester withdrew",
	audit.Cancelled:    "a step was cancelled",
	audit.Superseded:   "a request was superseded",
	audit.Expired:      "a request expired",
	audit.Refused:      "the gate refused",
	audit.Dispatched:   "a step starts",
	audit.Succeeded:    "a step succeeded",
	audit.Failed:       "a step failed",
	audit.Retried:      "a step is tried again",
	audit.Interrupted:  "the outcome of a step is not known",
	audit.Compensated:  "a step takes another one back",
	audit.Promoted:     "a target is no longer scratch",
	audit.Used:         "a job may no longer take back unsigned what it made",
	audit.DesiredPut:   "desired state was put",
	audit.DesiredGone:  "desired state was deleted",
	audit.Restored:     "the gate comes from a backup",
	audit.Canary:       "the canary has a result",
	audit.Keyed:        "the gate has a new key",
	audit.Reviewed:     "incidents of break-glass were reviewed",
	audit.Archived:     "records that ended are in a segment file",
	audit.TimeAccepted: "the clock was accepted",
	audit.LedgerLost:   "the ledger was lost",
}

// maxWords bounds what one attribute repeats of others' words, in bytes.
const maxWords = 256

// Decision writes a line about an entry of the audit log that is on disk. It writes none about an entry that is no
// decision. The line's time is the entry's.
func Decision(log *slog.Logger, e audit.Entry) {
	text, is := says[e.Kind]
	if !is || !log.Enabled(context.Background(), slog.LevelInfo) {
		return
	}
	r := slog.NewRecord(e.Time, slog.LevelInfo, text, 0)
	r.AddAttrs(slog.String("kind", string(e.Kind)), slog.Int64("entry", e.Seq))
	for _, a := range []struct{ name, value string }{
		{"job", e.Job}, {"step", e.Step}, {"request", requestOf(e)}, {"op", e.Op}, {"target", e.Target}, {actor(e.Kind), e.By},
		{"class", string(e.Class)}, {"rule", e.Rule}, {"code", string(e.Code)}, {"signers", strings.Join(e.Signers, ", ")},
		{"verdict", e.Verdict}, {"undoes", e.Undoes}, {"reason", e.Reason}, {"detail", e.Detail},
	} {
		if a.value != "" {
			r.AddAttrs(slog.String(a.name, op.Shown(cut(a.value, maxWords))))
		}
	}
	if e.Count > 1 {
		r.AddAttrs(slog.Int("count", e.Count))
	}
	_ = log.Handler().Handle(context.Background(), r) // the queue counts what is lost
}

// requestOf returns the id of the entry's request, which is that of its step; empty if the step needs no signature.
func requestOf(e audit.Entry) string {
	if e.Class == op.Destructive {
		return e.Step
	}
	return ""
}

// actor names the attribute with the actor of an entry.
func actor(k audit.Kind) string {
	switch k {
	case audit.Planned, audit.Requested, audit.Joined, audit.Withdrawn, audit.Cancelled, audit.Refused:
		return "requester"
	}
	return "by"
}
