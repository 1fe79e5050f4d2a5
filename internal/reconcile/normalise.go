package reconcile

import "gated/internal/base/op"

// fields has the names of all fields that a document can set. A loop over these is faster than over a map of the fields
// that are set.
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

// mergeLabels returns all labels that a guest will have: those it has, and those that are wished for. takes says that a
// wish changes the value of a label that it has. A label without a wish stays, as does every field without a wish.
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
