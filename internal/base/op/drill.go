package op

import "gated/internal/base/refusal"

// KindDrill is the kind of what a drill asks a signature for. It has one target,
// which nothing changes.
const KindDrill = "drill"

// Drill is the only operation of its kind. It has people sign under the rules of
// another operation, and changes nothing.
const Drill = "drill.sign"

// Drilled is the one target of its kind.
var Drilled = Target{Kind: KindDrill, Name: "signatures"}

func drillRows() []Spec {
	return []Spec{{Name: Drill, Kind: KindDrill, Once: true,
		Doc: "have people sign as for another operation, and change nothing: signatures is the only target",
		Params: []Param{
			{Name: "as", Type: TString, Required: true, Doc: "the operation whose rules hold: guest.destroy"},
			{Name: "target", Type: TString, Doc: "the target at which they hold: guest/db-1"},
		},
		Roles:  []Role{Operational}, // and those of what it rehearses
		Covers: "that it is a drill of this gate",
		Rules:  []Rule{{Name: "drill", Class: Destructive, Why: say("it is a drill of whether people can be reached and sign; nothing will be changed")}},
		// The work of a drill is to do nothing, so a step whose end was lost is done.
		Shows: func(Step, Observed) Evidence { return ShowsDone },
		Done:  "the drill is over:"}}
}

// Rehearsed returns the operation and the target whose rules hold for a drill. If the
// drill names no target, the target has the operation's kind and no name, so rules for
// some names do not match it. It refuses, as BadParams, an operation that is unknown,
// rotates keys or is a drill itself, and a target of another kind.
func Rehearsed(p Params) (Spec, Target, error) {
	name := p.Str("as")
	spec, err := Lookup(name)
	switch {
	case err != nil:
		return spec, Target{}, refusal.New(refusal.BadParams, "%s: there is no operation %q to rehearse", Drill, Shown(name)).
			WithHint("gated ops lists them")
	case spec.Kind == KindTrust || spec.Kind == KindDrill:
		return spec, Target{}, refusal.New(refusal.BadParams, "%s does not rehearse %s", Drill, name).
			WithHint("rehearse an operation on a guest, a command or a scope, as guest.destroy")
	case !p.Has("target"):
		return spec, Target{Kind: spec.Kind}, nil
	}
	t, err := ParseTarget(p.Str("target"))
	if err != nil {
		return spec, t, err
	}
	if t.Kind != spec.Kind {
		return spec, t, refusal.New(refusal.BadParams, "%s: %s acts on a %s, not on %s", Drill, name, spec.Kind, t)
	}
	return spec, t, nil
}

// Rehearses says in words what a drill rehearses: "guest.destroy of guest/db-1". It is
// safe to print.
func Rehearses(p Params) string {
	text := Shown(p.Str("as"))
	if p.Has("target") {
		text += " of " + Shown(p.Str("target"))
	}
	return text
}
