package promise

// The files that several faults change.
const (
	approve    = "internal/gate/approve.go"
	catalogue  = "internal/base/op/catalogue.go"
	permit     = "internal/gate/permit.go"
	dispatched = "internal/log/journal/steps.go"
	count      = "internal/gate/count.go"
	payload    = "internal/base/op/payload.go"
	verify     = "internal/log/audit/verify.go"
	trusted    = "internal/authz/trust.go"
	revoked    = "internal/authz/revoked.go"
)

// anyPayload lets the request's own signed bytes be exchanged. After that only binds compares what was signed with what runs.
var anyPayload = []Edit{
	{approve, `		if rec.Payload != sha {
			return refusal.New(refusal.BindingMismatch`, `		if rec.Payload == "" {
			return refusal.New(refusal.BindingMismatch`},
	{approve, `if !bytes.Equal(r.Payload, a.Bytes) || !g.binds`, `if bytes.Equal(nil, a.Bytes) || !g.binds`},
}

var goals = []Promise{
	{"goal 1", "a destructive step that nobody signed does not run", []string{"S01c", "S02"}, []Fault{
		{Finds: []string{"S01c"}, Shows: "ACCEPTED: executing the step that waits", Edits: []Edit{
			{permit, `		s, err = ready(steps, id)
		return err
`, `		if s, err = ready(steps, id); s.State == op.StatePending {
			return nil
		}
		return err
`},
			{permit, `		s, err := ready(steps, id)
		if err != nil {
			return err`, `		s, err := ready(steps, id)
		if err != nil && s.State != op.StatePending {
			return err`},
			{permit, `	if s.Verdict.Class == op.Destructive {
		return g.askInstead`, `	if s.Verdict.Class == op.Destructive && s.State == op.StatePlanned {
		return g.askInstead`},
			{dispatched, `if !op.TransitionOf("dispatched").Allows(from) {`, `if !op.TransitionOf("dispatched").Allows(from) && from != op.StatePending {`},
		}},
		{Finds: []string{"S02"}, Shows: "planned sha256:", Edits: []Edit{
			{"internal/gate/submit.go", `		if s.Verdict.Class == op.Destructive {
			s.State, kind`, `		if s.Verdict.Class == op.Destructive && sub.Requester.Source != op.SourceDesired {
			s.State, kind`},
			{permit, `	if s.Verdict.Class == op.Destructive {
		return g.askInstead`, `	if s.Verdict.Class == op.Destructive && who.Source != op.SourceDesired {
		return g.askInstead`},
		}},
	}},
	{"goal 1", "a signature counts for the operation that it names alone", []string{"B03"}, []Fault{
		{Shows: `"binding_mismatch" in chain but got nil`, Edits: append([]Edit{{approve, ` && p.Op == s.Op && `, ` && `}}, anyPayload...)},
	}},
	{"goal 1", "a signature counts for the state that it names alone", []string{"B05b"}, []Fault{
		{Shows: `"binding_mismatch" in chain but got nil`, Edits: append([]Edit{{approve, ` && p.State == s.Fingerprint && `, ` && `}}, anyPayload...)},
	}},
	{"goal 2", "a payload that was approved once is not approved again", []string{"T02c"}, []Fault{
		{Shows: "one of 64 counts", Edits: []Edit{{"internal/nonce/nonce.go", `	if n != 1 {
		return refusal.New(refusal.Replayed, "the nonce is known already")`, `	if n > 1 {
		return refusal.New(refusal.Replayed, "the nonce is known already")`}}},
	}},
	{"goal 2", "a nonce is spent in the transaction that approves", []string{"TestCrashMatrix"}, []Fault{
		{Shows: "nonce", Args: []string{"-kind=guest.destroy"}, Edits: []Edit{
			{count, `	if err := nonce.Spend(tx, r.Nonce, nonce.Fate(t.Nonce)); err != nil {
		return r, err
	}
	moved`, `	moved`},
			{approve, `	crashpoint.Here(crashpoint.SignatureKept)
`, `	crashpoint.Here(crashpoint.SignatureKept)
	if r.Step.State == op.StateAuthorized {
		if err := g.update(ctx, func(tx *store.Tx) error { return nonce.Spend(tx, r.Nonce, nonce.Used) }); err != nil {
			return r, err
		}
	}
`},
		}},
	}},
	{"goal 2", "a step whose end is unknown is not run again", []string{"T13a", "T13c"}, []Fault{
		{Shows: `actual  : "authorized"`, Edits: []Edit{{"internal/gate/record.go", `	to := t.To
`, `	if kind == audit.Interrupted {
		t.To = op.StateAuthorized
	}
	to := t.To
`}, {"internal/gate/record.go", `err != nil || to == op.StatePlanned {`, `err != nil || to.Open() {`}}},
	}},
	{"goal 3", "bytes that two readers could read differently are refused", []string{"B10a", "B10g", "B10h"}, []Fault{
		{Finds: []string{"B10a"}, Shows: `"malformed"`, Edits: []Edit{
			{payload, `canonical.Canonicalize(); err`, `canonical.Canonicalize(jsontext.AllowDuplicateNames(true)); err`},
			{payload, `	members := map[string]jsontext.Value{}
	d := jsontext.NewDecoder(bytes.NewReader(b))`, `	members := map[string]jsontext.Value{}
	d := jsontext.NewDecoder(bytes.NewReader(b), jsontext.AllowDuplicateNames(true))`},
		}},
		{Finds: []string{"B10g"}, Shows: `"malformed"`, Edits: []Edit{
			{payload, `if !bytes.Equal(canonical, b) {`, `if !bytes.Equal(canonical, bytes.ReplaceAll(b, []byte("{ "), []byte("{"))) {`}}},
		{Finds: []string{"B10h"}, Shows: `"malformed"`, Edits: []Edit{
			{payload, `if !bytes.Equal(canonical, b) {`, `if len(canonical) != len(b) {`}}},
	}},
	{"goal 4", "an operation that is not known is refused", []string{"P08a"}, []Fault{
		{Shows: `"unknown_op" in chain but got nil`, Edits: []Edit{
			{catalogue, `s, ok := catalogue[name]
	if !ok {
		return Spec{}, refusal.New(refusal.UnknownOp`, `s, ok := catalogue[strings.ToLower(name)]
	if !ok {
		return Spec{}, refusal.New(refusal.UnknownOp`},
			{"internal/gate/plan.go", `op.Step{Op: ask.Op, Target`, `op.Step{Op: spec.Name, Target`},
			{catalogue, `import (
	"sort"
`, `import (
	"sort"
	"strings"
`}}},
	}},
	{"goal 4", "a decision that cannot be written is not made", []string{"H03a"}, []Fault{
		{Shows: `"unavailable" in chain but got nil`, Edits: []Edit{
			{approve, `	if err != nil {
		return r, err
	}
	crashpoint.Here(crashpoint.SignatureKept)`, `	if err != nil && (r.AuthorizedAt.IsZero() || refusal.CodeOf(err) != refusal.Unavailable) {
		return r, err
	}
	crashpoint.Here(crashpoint.SignatureKept)`}}},
	}},
	{"goal 5", "an entry of the log that was altered shows", []string{"H07a", "H07b"}, []Fault{
		{Finds: []string{"H07a"}, Shows: `does not contain "audit entry 2: was altered"`, Edits: []Edit{
			{verify, `case !bytes.Equal(r.sum[:], r.hash):`, `case len(r.hash) != len(r.sum):`}}},
		{Finds: []string{"H07b"}, Shows: `does not contain "audit entry 3"`, Edits: []Edit{
			{verify, `case r.links.Prev != head.Hash:`, `case r.links.Prev == "" && head.Hash != "":`}}},
	}},
	{"goal 6", "two keys of one person count once", []string{"S16d", "S16f"}, []Fault{
		{Shows: "ACCEPTED: two people are needed, one signs with two keys", Edits: []Edit{
			{count, `		if isNew {
			added = true
			r.Signatures`, `		if isNew || !slices.ContainsFunc(r.Signatures, func(old op.Signed) bool { return old.Key == s.Key }) {
			added = true
			r.Signatures`}}},
	}},
	{"goal 6", "to take a label away needs what its rule asks for", []string{"X34a"}, []Fault{
		{Shows: "ACCEPTED: one signature takes away the label", Edits: []Edit{
			{rules, `return s.Params.Has(labels) && !r.covers(s.Params.Labels(labels)) ||`,
				`return s.Params.Has(labels) && len(s.Params.Labels(labels)) == 0 ||`}}},
	}},
	{"goal 7", "a revoked key approves nothing", []string{"S14a"}, []Fault{
		{Shows: `"signer_revoked" in chain but got nil`, Edits: []Edit{{trusted, `if err := t.checkRevoked(key, ""); err != nil {`, `if err := t.Blocked(); err != nil {`}}},
	}},
	{"goal 7", "what a key signed that was revoked since does not run", []string{"S23g", "S23j"}, []Fault{
		{Shows: `actual  : "dispatched"`, Edits: []Edit{{trusted, `if err := t.checkRevoked(s.Key, ""); err != nil {`, `if err := t.Blocked(); err != nil {`}}},
	}},
	{"goal 8", "an approval is checked without gated", []string{"cmd/gated/testdata/script/evidence.txtar"}, []Fault{
		{Shows: "NOT VERIFIED: the list of signers is not the one in force then", Edits: []Edit{
			{"internal/log/evidence/make.go", `Signers{version.Epoch, string(version.Text)}`, `Signers{version.Epoch, strings.TrimSpace(string(version.Text))}`},
			{"internal/log/evidence/make.go", `	"slices"
`, `	"slices"
	"strings"
`}}},
	}},
}
