package main

// Words of what is shown before somebody signs, and of review. Those that end a
// line have its end.
const (
	wordsSince        = "  waits since %s (%s)"
	wordsLeft         = "; what is signed now counts for %s more\n"
	wordsNoneLeft     = "; its payload is over and will be issued anew\n"
	wordsListHead     = "ID\tSTATE\tOP\tTARGET\tFOR\tEXPIRES\tSIGNED\tNEEDS\tREASON"
	wordsStillMissing = "%s still waits for signatures\n"
)
