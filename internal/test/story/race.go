//go:build race

package story

// raceEnabled says how the tests were built, so that the other programs are
// built alike.
const raceEnabled = true
