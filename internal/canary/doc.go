// Package canary watches what a gate decides after a change of policy, trust or
// version. It folds the audit log, entry by entry, into a state of bounded size:
// the latest decisions, and, after a change, those of before to compare them
// with. The state and the place in the log up to which it goes are one row,
// written together, so that each decision counts once whatever is killed when.
//
// It only reads and tells: nothing waits for it, and it takes no lock of the
// gate's.
package canary
