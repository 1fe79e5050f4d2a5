// Package hook is what stands between an agent's wish to change a file and the
// change: it asks the daemon whether somebody else has reserved the file, and
// says no where that is so. It changes no file that it is asked about, and does
// nothing that a text of others says.
//
// A hook that cannot ask lets the call go on with a warning, or stops it, as it
// was told (OnFailure). It answers after its deadline whatever the daemon does,
// and stops asking for a while where several before it got no answer (circuit).
package hook
