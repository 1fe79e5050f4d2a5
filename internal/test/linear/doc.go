// Package linear is for tests alone. It says whether what concurrent callers
// were answered about reservations could have been answered by a gate that does
// one thing after the other: whether their history is linearizable. porcupine
// looks for the order; what one thing does is written here a second time, small
// and without the code that it is to check.
//
//	universe.go  the few patterns that are reserved, and what each matches
//	call.go      calls and answers
//	state.go     what is held at a moment
//	step.go      what a call may do to it
//	grant.go     ... a reservation
//	lost.go      ... a call whose answer nobody saw
//	history.go   what was called and answered, and the verdict on it
//	traffic.go   callers that do things at random
package linear
