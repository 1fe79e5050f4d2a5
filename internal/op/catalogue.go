package op

import "sort"

// Type is the type of a parameter.
type Type string

// The parameter types.
const (
	TString Type = "string"
	TInt    Type = "integer"
	TBool   Type = "boolean"
	TLabels Type = "labels" // an object of strings
	TLines  Type = "lines"  // an array of strings, none empty, none twice
)

// Param describes one parameter of an operation.
type Param struct {
	Name     string
	Type     Type
	Unit     string // "MiB", "CPUs", or "" where the number has none
	Min, Max int64  // for integers, both inclusive
	Required bool
	JobOnly  bool // desired state may not say it
	Doc      string
}

// Spec is the one row that says all of one operation. The gate, classify,
// reconcile, opsign and the loss oracle read it; fsck keeps an expectation of its
// own, as a test of it. To add an operation, add a row in the file of its kind and
// a method in a driver.
type Spec struct {
	Name    string // "<kind>.<verb>"
	Kind    string // the target's kind
	Doc     string
	Params  []Param
	Roles   []Role // any of which may approve it when it is destructive
	Creates bool   // the target must not exist
	Free    bool   // its parameters are strings, named by the target
	Partial bool   // what the digest covers depends on the parameters
	Covers  string // what the signed state digest covers
	// Guarded returns, of its parameters, the fields that a fingerprint covers; nil:
	// the step may change what it covers whatever its parameters are.
	Guarded func(Params) Params
	Takes   string // what it can take away, and from whom; empty: it takes nothing

	// Rules give its class: the first whose condition holds decides. If none does,
	// the step is destructive. Each further destructive one whose condition holds
	// is another reason, up to the first benign one.
	Rules []Rule

	Identity Identity
	Starts   bool // the guest's program runs by it
	Runtime  bool // it changes only whether the guest runs, which no signature covers
	Once     bool // it never runs a second time, also if it is benign

	// Shows tells from a look whether the step was done, at the incarnation that the
	// step leaves; nil: a look cannot tell.
	Shows func(Step, Observed) Evidence
	// Before returns what Shows needs of the look at which the step was dispatched,
	// which becomes Step.Before; nil: nothing.
	Before func(Observed) []string
	// Fleeting is set if what the step did may be over by the time of the look.
	Fleeting bool
	// Unseen is set if the step may take away what a look would need.
	Unseen bool
	// Unproven is set if what a look shows may be half done, or another caller's. The
	// look then contradicts a success, and does not prove that a lost step was done.
	Unproven bool

	// Undo returns the operation that takes the step back, and its parameters, by
	// what the target was before; nil, or an empty name: there is nothing to take
	// back, or to take it back would take more than the step gave.
	Undo func(s Step, before Observed) (name string, p Params)

	// Copy is the parameter that names the snapshot or backup which the step restores
	// or deletes: "snapshot", "backup", or empty.
	Copy string
	// Changes returns what the step would make another in the target, field by
	// field; nil: its parameters name no field.
	Changes func(Params, Observed) []Fact

	// Promotes says why the step ends a target's scratch status; empty: it does not.
	Promotes string

	Done string // what opsign says of a step that was done, before the target: "destroyed"
}

// Identity says what a step does to the incarnation of its target.
type Identity int

// What steps do to incarnations.
const (
	Keeps   Identity = iota // the target stays the one that it is
	Makes                   // it makes one that was not there
	Revives                 // it brings one back
	Ends                    // it ends one
	Renews                  // it changes storage, which is a part of identity in some back ends
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

// Lookup returns the operation of that exact name; else it refuses with
// UnknownOp.
func Lookup(name string) (Spec, error) {
	s, ok := catalogue[name]
	if !ok {
		return Spec{}, Refuse(UnknownOp, "there is no operation %q", name).WithHint("gated ops lists them")
	}
	return s, nil
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
