package bench

import "time"

// sizes says how much each part measures, and how often.
type sizes struct {
	runs      int           // a figure is the median of so many runs, if no other size says how many
	limitTime time.Duration // of one run of a limit

	scriptEach int // operations of each client of the script
	many       int // operations that 32 clients have decided
	through    int // operations that 32 clients have brought to their end
	single     int // operations of one client

	signerOps, signerTurns      int           // operations for each kind of approval in a turn, and turns
	approvalEach, approvalTurns int           // verifications of each kind of approval in a turn, and turns
	guests, rounds, changes     int           // guests that reconcile looks at, no-change rounds, changes of one file
	rows, inFlight              int           // of the journal that a start reads, and its steps that a crash left dispatched
	logEntries, logProofs       int           // entries of the audit log, and proofs of each kind
	verifications               int           // processes of each program that verifies
	idleGuests                  int           // guests of the daemon whose memory is measured
	decisions                   int           // of the gate whose memory is measured after them
	idleTime                    time.Duration // how long a daemon has no work before its memory is measured
	pairs                       int           // reservations that each of 8 clients makes and releases in a run
	others                      int           // reservations of other holders in the same scope
	growOps                     int           // decisions of each kind for a row of growth
	growRows, growWaiting       []int         // rows of history, and requests that wait
	growGuests                  []int         // guests
	kills, hooks                int           // agents that are killed, and processes of each kind of hook
	year                        yearSize
}

// full is what docs/benchmarks.md describes.
var full = sizes{
	runs: 3, limitTime: 500 * time.Millisecond,
	scriptEach: 4, many: 4_000, through: 2_000, single: 600,
	signerOps: 1_500, signerTurns: 3, approvalEach: 200, approvalTurns: 15,
	guests: 10_000, rounds: 15, changes: 100,
	rows: 1_000_000, inFlight: 1_000,
	logEntries: 1_000_000, logProofs: 1_000,
	verifications: 30,
	idleGuests:    100, idleTime: 2 * time.Second, decisions: 1_000_000,
	pairs: 250, others: 100_000,
	growOps: 400, growRows: []int{1_000, 100_000, 1_000_000}, growWaiting: []int{1, 100, 10_000},
	growGuests: []int{10, 1_000, 100_000},
	kills:      60, hooks: 80,
	year: yearSize{days: 365, perDay: 10_000, after: 48 * time.Hour, keep: 10_000, early: 31, month: 30, asked: 200},
}

// small runs every part to its end in less than a minute. Its figures say nothing.
var small = sizes{
	runs: 1, limitTime: 50 * time.Millisecond,
	scriptEach: 1, many: 300, through: 200, single: 30,
	signerOps: 300, signerTurns: 1, approvalEach: 10, approvalTurns: 1,
	guests: 300, rounds: 3, changes: 3,
	rows: 5_000, inFlight: 50,
	logEntries: 5_000, logProofs: 20,
	verifications: 2,
	idleGuests:    10, idleTime: 300 * time.Millisecond, decisions: 320,
	pairs: 10, others: 200,
	growOps: 20, growRows: []int{100, 1_000}, growWaiting: []int{1, 50}, growGuests: []int{10, 100},
	kills: 3, hooks: 3,
	year: yearSize{days: 5, perDay: 200, after: 24 * time.Hour, keep: 256, early: 2, month: 2, asked: 5},
}
