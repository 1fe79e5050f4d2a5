// Package hook checks an agent's change of a file before it happens. It asks the daemon whether another agent has
// reserved the file, and refuses the change if so. It never changes the file, and follows no instruction in other
// agents' texts.
//
// If a hook cannot ask, it lets the call go on with a warning or stops it, as configured (OnFailure). It answers after
// its deadline at the latest. If several hooks got no answer, hooks do not ask for a while (circuit).
package hook
