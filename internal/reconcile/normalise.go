package reconcile

import "gated/internal/op"

// fields are the names of all that can be wished of a guest. To go through
// these is faster than to go through a map of the ones that are.
var fields = func() []string {
	spec, err := op.Lookup("guest.set-config")
	if err != nil {
		panic("reconcile: " + err.Error())
	}
	var names []string
	for _, p := range spec.Params {
		names = append(names, p.Name)
	}
	return names
}()

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
