package hubserver

import (
	"errors"
	"fmt"
	"net/http"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/hub"
	"gated/internal/host/hub/hubstate"
	"gated/internal/log/witness"
)

// linesType is the media type of a witness's lines.
const linesType = "application/jsonl"

// keptHead answers with the size of the head that is kept of a gate.
func (h *Hub) keptHead(w http.ResponseWriter, r *http.Request) error {
	if err := h.Documents.Has(r.Context(), r.PathValue("host")); err != nil {
		return err
	}
	gate, err := gateOf(r.URL.Query().Get("gate"))
	if err != nil {
		return err
	}
	kept := hub.Kept{Gate: gate}
	was, err := h.Store.Head(r.Context(), gate)
	if err != nil {
		return err
	}
	if was != nil {
		kept.Size = was.Head().Size
	}
	return encode(w, kept)
}

func gateOf(s string) (op.GateID, error) {
	if id := op.GateID(s); id.Valid() {
		return id, nil
	}
	return "", refusal.New(refusal.BadParams, "%q is not a gate's id", op.Shown(s[:min(len(s), 80)]))
}

// head takes a gate's signed head, if its log goes on from the kept one.
func (h *Hub) head(w http.ResponseWriter, r *http.Request) error {
	host := r.PathValue("host")
	if err := h.Documents.Has(r.Context(), host); err != nil {
		return err
	}
	body, done, err := h.body(w, r, hub.PathHead, hub.MaxHead)
	if err != nil {
		return err
	}
	defer done()
	head, err := hub.DecodeHead(body, host)
	if err != nil {
		return err
	}
	first, err := hubstate.TakeHead(r.Context(), h.Store, head, h.Now())
	var odd *hubstate.Contradiction
	if errors.As(err, &odd) {
		h.Logger.Warn("a gate's audit log does not go on", "gate", head.Gate, "host", op.Shown(host), "why", odd.Evidence.Why.String(),
			"kept", headWords(odd.Was), "now", headWords(odd.Evidence))
	}
	if err != nil {
		return err
	}
	if first {
		h.Logger.Info("a gate's log is met first", "gate", head.Gate, "host", op.Shown(host), "key", op.Shown(head.Key))
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// contradicts is the answer to a head that contradicts the kept one.
func contradicts(c *hubstate.Contradiction) api.Problem {
	both := "Both are kept"
	if !c.Kept {
		both = "The hub has no room for more evidence from that host"
	}
	r := refusal.New(refusal.BindingMismatch, "%s: kept %s, answers now %s", c.Error(), headWords(c.Was), headWords(c.Evidence)).
		WithHint("%s: GET /v1/heads/%s. The gate's state was put back or copied, or another gate has its id. "+
			"If it was put back on purpose: gated backup, then gated restore, which gives it a new id", both, c.Evidence.Gate)
	p := api.ProblemOf(r)
	p.Status = hub.StatusContradicts
	return p
}

// headWords describes a head for people.
func headWords(r witness.Record) string {
	is := r.Head()
	return fmt.Sprintf("%d entries, root %s, from %s", is.Size, is.Root, op.Shown(r.Host))
}

// headsOf answers with the kept head of a gate, and what contradicted it, as an operator's witness writes them.
func (h *Hub) headsOf(w http.ResponseWriter, r *http.Request) error {
	gate, err := gateOf(r.PathValue("gate"))
	if err != nil {
		return err
	}
	kept, err := h.Store.Head(r.Context(), gate)
	if err != nil {
		return err
	}
	if kept == nil {
		return refusal.New(refusal.UnknownTarget, "the hub keeps no head of that gate")
	}
	odd, err := h.Store.Evidence(r.Context(), gate)
	if err != nil {
		return err
	}
	var out []byte
	for _, record := range append([]witness.Record{*kept}, odd...) {
		line, err := record.Line()
		if err != nil {
			return err
		}
		out = append(out, line...)
	}
	write(w, linesType, out)
	return nil
}
