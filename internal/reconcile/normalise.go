package reconcile

import "gated/internal/op"

// same reports whether a guest has a field as it is wished for. Both sides are
// in the catalogue's units already: package desired and the drivers see to
// that. What is left is that a driver may leave out of Spec what is not set.
func same(name string, want any, have op.Observed) bool {
	switch name {
	case "protected":
		return want == have.Protected
	case "labels":
		wished, _ := want.(map[string]any)
		for k, v := range wished {
			if got, ok := have.Labels[k]; !ok || got != v {
				return false
			}
		}
		return true
	case "command":
		return want == have.Spec.Str(name)
	default:
		return have.Spec.Has(name) && want == have.Spec[name]
	}
}

// mergeLabels returns all labels that a guest is to have: those it has, with
// those that are wished for. takes is set where one changes its value. A label
// that is not mentioned stays, as any field that is not mentioned does.
func mergeLabels(want op.Params, have map[string]string) (all map[string]any, takes bool) {
	all = make(map[string]any, len(have))
	for k, v := range have {
		all[k] = v
	}
	for k, v := range want.Labels("labels") {
		if old, ok := have[k]; ok && old != v {
			takes = true
		}
		all[k] = v
	}
	return all, takes
}
