package fsck

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"gated/internal/audit"
	"gated/internal/op"
)

// digestAsk digests what a step does, and to what.
func digestAsk(name, target string, params []byte) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s", name, target, params))
}

// digestReason digests why a step has its class: half of a hash, which is enough
// against whoever cannot choose both texts.
func digestReason(rule, why string) (sum [16]byte) {
	whole := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s", rule, why))
	return [16]byte(whole[:16])
}

// asked keeps what an entry says that the step does. A compensation's entry
// has no parameters: they are those of the undo that it carries out.
func (l life) asked(e audit.Entry) life {
	switch e.Kind {
	case audit.Planned, audit.Requested:
		l.class, l.whole, l.asks = e.Class, true, digestAsk(e.Op, e.Target, e.Params.Canonical())
		l.words = digestReason(e.Rule, e.Why)
	case audit.Reissued:
		if l.words = digestReason(e.Rule, e.Why); e.Why == "" {
			l.words = [16]byte{} // from before the entry had it
		}
	case audit.Compensated:
		l.class, l.asks = e.Class, digestAsk(e.Op, e.Target, nil)
		if of, ok := strings.CutPrefix(e.Detail, "takes back "); ok {
			id, _ := op.ParseStepID(of) // none is 0, which no compensation has
			l.takes = id.Index
		}
	}
	if (e.Kind == audit.Compensated || e.Kind == audit.Dispatched) && e.Why != "" {
		l.words = digestReason(e.Rule, e.Why)
	}
	return l
}

// same checks that a step would do what the log says was planned or asked for.
func (c *check) same(r row, l life) {
	params := r.params
	if !l.whole {
		params = nil
	}
	if digestAsk(r.step.Op, r.step.Target.String(), params) != l.asks {
		c.found(stepChanged, r.step.ID.String(), "the audit log has another operation, target or parameters for it")
	}
	if r.step.Verdict.Class != l.class {
		c.found(stepClass, r.step.ID.String(), "its class is %q, and by the audit log %q", string(r.step.Verdict.Class), string(l.class))
	}
	if l.words != ([16]byte{}) && digestReason(r.step.Verdict.Rule, r.step.Verdict.Why) != l.words {
		c.found(stepWords, r.step.ID.String(), "the audit log has another rule or reason for its class")
	}
	if r.step.Undoes != l.takes {
		c.found(stepUndoes, r.step.ID.String(), "it takes back step %d, and by the audit log %d (0: none)", r.step.Undoes, l.takes)
	}
}
