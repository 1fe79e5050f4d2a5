// Package crash kills the daemon, at random moments and at chosen ones, and
// checks after each kill that what design section 3 promises still holds. It has
// tests alone: the real programs, real keys, real guests with files and
// processes.
//
//	main_test.go      builds the programs
//	machine_test.go   the daemon: started, killed, started again
//	story_test.go     what goes on while it is killed
//	ledger_test.go    what its callers were told
//	checker_test.go   what must hold afterwards, as pure functions
//	forged_test.go    the checker itself, on logs that break the rules
//	check_test.go     everything of that, after a kill
//	kills_test.go     the loop
//	soak_test.go      for as long as one likes, with agents and backups
//
// The same at every crash point (internal/base/crashpoint) with every operation:
//
//	matrix_test.go           which cells there are, and what came of them
//	bench_test.go            one cell: an operation that is cut off, a start, the checks
//	kinds_test.go            operations on guests and their data
//	kinds_decisions_test.go  approve, reject, cancel, sign beforehand, desired state
//	kinds_agents_test.go     registrations and reservations
//	kinds_life_test.go       rotation, start, sweep, backup, restore
//	kinds_time_test.go       an accepted clock
//	kinds_archive_test.go    records that ended go to a segment file
//	kinds_migrate_test.go    first starts on databases of older schemas
//
// What agents reserve has its own rules:
//
//	holders_test.go       agents with tokens, as a history has them
//	reservations_test.go  histories across kills, which have to have an order
//	worker_test.go        an agent's process that edits what it has reserved
//	team_test.go          five of them in one checkout, killed now and then
//	claims_test.go        what the audit log has to tell of them
package crash
