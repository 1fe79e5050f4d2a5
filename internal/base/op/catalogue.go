package op

import (
	"maps"
	"slices"
	"sort"

	"gated/internal/base/refusal"
	"gated/internal/base/spelling"
)

// Type is the type of a parameter.
type Type string

// The parameter types.
const (
	TString Type = "string"
	TInt    Type = "integer"
	TBool   Type = "boolean"
	TLabels Type = "labels" // an object of strings
	TLines  Type = "lines"  // an array of different strings that are not empty
)

// Param describes one parameter of an operation.
type Param struct {
	Name     string
	Type     Type
	Unit     string // "MiB", "CPUs", or "" if the number has no unit
	Min, Max int64  // for integers, both inclusive
	Required bool
	JobOnly  bool // desired state may not have it
	Doc      string
}

// Spec is the one row that says everything about an operation. The gate, classify,
// reconcile, opsign and the loss oracle read it. fsck has its own expectation, as a
// test of it. To add an operation, add a row in the file of its kind and a method in
// a driver.
type Spec struct {
	Name    string // "<kind>.<verb>"
	Kind    string // the target's kind
	Doc     string
	Params  []Param
	Roles   []Role // each may approve it when it is destructive
	Creates bool   // the target must not exist
	Free    bool   // its target names its parameters, which are strings
	Partial bool   // what the digest covers depends on the parameters
	Covers  string // what the signed state digest covers
	// Guarded returns the fields of the parameters that a fingerprint covers. If it
	// is nil, the step may change the fingerprint with any parameters.
	Guarded func(Params) Params
	Takes   string // what the step can take away, and from whom; empty: nothing

	// Rules decide the class: the first rule whose condition holds. If no condition
	// holds, the step is destructive. Destructive rules after the first give more
	// reasons, up to the first benign rule.
	Rules []Rule

	Identity Identity
	Starts   bool // the guest's program runs because of it
	Runtime  bool // it changes only whether the guest runs, and no signature covers that
	Once     bool // it never runs a second time, even if it is benign

	// Shows tells from a look whether the step was done. The look is at the
	// incarnation that the step leaves. If Shows is nil, a look cannot tell.
	Shows func(Step, Observed) Evidence
	// Before returns what Shows, or the look after a step that ends its target, needs
	// from the look at the dispatch. It becomes Step.Before. If it is nil, they need nothing.
	Before func(Observed) []string
	// Fleeting is set if the effect of the step may be over when the look comes.
	Fleeting bool
	// Unseen is set if the step may take away what a look needs.
	Unseen bool
	// Unproven is set if a look may show half of the work, or another caller's work.
	// Such a look can contradict a success, but cannot prove that a lost step was
	// done.
	Unproven bool

	// Undo returns the operation that takes the step back, and its parameters;
	// before is the look at the dispatch. If Undo is nil or the name is empty, the
	// gate does not take the step back. Then there is nothing to take back, or that
	// would take more than the step gave.
	Undo func(s Step, before Observed) (name string, p Params)

	// Copy is the parameter that names the snapshot or backup of the step, which
	// restores or deletes it: "snapshot", "backup", or empty.
	Copy string
	// Changes returns what the step would change in the target, field by field. It
	// is nil if the parameters name no field.
	Changes func(Params, Observed) []Fact

	// Fates says which facts of a look are about what the step takes. If it is nil, the row does not say.
	Fates func(Params) Fates
	// ByHand says how people give back what the step takes. If it is nil or returns "", they cannot.
	ByHand func(Params, []Fact) string

	// Promotes says why the step ends a target's scratch status. If it is empty, the
	// step does not.
	Promotes string

	Done string // what opsign says when the step was done, before the target: "destroyed"
}

// Identity says what a step does to the incarnation of its target.
type Identity int

// What steps do to incarnations.
const (
	Keeps   Identity = iota // the target keeps its incarnation
	Makes                   // the step makes a new incarnation
	Revives                 // the step brings a destroyed incarnation back
	Ends                    // the step ends the incarnation
	Renews                  // the step changes storage, which is a part of the identity in some back ends
)

func guest(verb, doc string, params ...Param) Spec {
	return Spec{Name: "guest." + verb, Kind: KindGuest, Doc: doc, Params: params,
		Roles: []Role{Operational}, Covers: guestCovers}
}

// catalogue has the rows of every kind.
var catalogue = func() map[string]Spec {
	m := map[string]Spec{}
	for _, rows := range [][]Spec{guestRows(), commandRows(), trustRows(), scopeRows()} {
		for _, s := range rows {
			m[s.Name] = s
		}
	}
	return m
}()

// Lookup returns the operation of that exact name, or refuses with UnknownOp.
func Lookup(name string) (Spec, error) {
	s, ok := catalogue[name]
	if !ok {
		return Spec{}, NoOp(name)
	}
	return s, nil
}

// NoOp refuses, with UnknownOp, a name that no operation has. It says which is spelt almost so.
func NoOp(name string) error {
	r := refusal.New(refusal.UnknownOp, "there is no operation %q", name)
	meant, ok := spelling.Nearest(name, slices.Sorted(maps.Keys(catalogue)))
	if _, verb := catalogue[KindGuest+"."+name]; verb {
		meant, ok = KindGuest+"."+name, true
	}
	if ok {
		return r.WithHint("is %s meant? gated ops lists them", meant)
	}
	return r.WithHint("gated ops lists them")
}

// Catalogue returns every operation, sorted by name.
func Catalogue() []Spec {
	out := make([]Spec, 0, len(catalogue))
	for _, s := range catalogue {
		out = append(out, s)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

// Param returns the description of the parameter name.
func (s Spec) Param(name string) (Param, bool) {
	for _, p := range s.Params {
		if p.Name == name {
			return p, true
		}
	}
	return Param{}, false
}

// MayApprove reports whether role may approve the operation.
func (s Spec) MayApprove(role Role) bool {
	for _, r := range s.Roles {
		if r == role {
			return true
		}
	}
	return false
}

// KindCommand is the kind of the commands in the operator's catalogue.
const KindCommand = "command"

// Run is the only operation on commands.
const Run = "command.run"

func commandRows() []Spec {
	return []Spec{{Name: Run, Kind: KindCommand, Free: true, Partial: true, Once: true, Unseen: true,
		Doc:   "run an entry of the operator's catalogue of commands",
		Takes: "whatever the command takes",
		Roles: []Role{Operational}, Covers: "the program's content, its arguments and environment, and what its probe printed",
		Rules: []Rule{
			{Name: "command-benign", Class: Benign, When: func(c Case) bool { return c.Harmless },
				Why: say("the operator's catalogue says that this command loses nothing")},
			{Name: "command", Class: Destructive, Why: say("gated cannot know what the command loses")},
		},
		Done: "ran"}}
}

// KindTrust is the kind of the trust file, which says which people may approve what.
// It has one target.
const KindTrust = "trust"

// Rotate is the only operation that changes which people decide.
const Rotate = "trust.rotate"

// Signers is the trust file, the one target of its kind.
var Signers = Target{Kind: KindTrust, Name: "signers"}

func trustRows() []Spec {
	return []Spec{{Name: Rotate, Kind: KindTrust, Doc: "change who may approve what: signers is the only target",
		Params: []Param{
			{Name: "add", Type: TLines, Doc: "lines of allowed_signers to add"},
			{Name: "remove", Type: TLines, Doc: "SHA256 fingerprints of keys to take out, every line of each"},
			{Name: "epoch", Type: TInt, Min: 1, Max: MaxInt, Required: true, Doc: "the number of the file that this makes, one more than now"},
		},
		Takes: "from those who are taken out, the right to sign", ByHand: byHand("rotate again"),
		Roles: []Role{Operational, Recovery}, Covers: "the epoch and every byte of allowed_signers",
		Rules: []Rule{{Name: "trust-rotation", Class: Destructive, Why: say("it changes who may approve what")}},
		// The epoch increases by one with each change. The step that made it tells this
		// rotation from a file that root adopted meanwhile.
		Shows: func(s Step, o Observed) Evidence {
			return shows(o.Spec.Int("epoch") == s.Params.Int("epoch") && o.Spec.Str("made_by") == s.ID.String())
		}}}
}
