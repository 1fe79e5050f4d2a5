package bench

// ledgerDecisions is how many requests are decided in each round.
const ledgerDecisions = "2000"

// ledgerRows are the figures of a gate with a ledger.
var ledgerRows = []figureRow{
	{"rate", "ledger on a pair of this machine: rate, against SQLite alone", times, 0.6, "32 callers in one process; both take turns"},
	{"CPU", "  CPU, against SQLite alone", plain, 1.4, "that of both PostgreSQL servers is in it"},
	{"rate with a local pair", "  rate", perSecond, 0, ""},
	{"CPU with a local pair", "  CPU for one", microseconds, 0, "of the gate, its callers and both servers"},
	{"CPU of the servers", "  of it that of the servers", microseconds, 0, ""},
	{"rate at 2.4 ms", "  rate, primary 2.4 ms away", perSecond, 800, "2.4 ms for a message and its answer"},
	{"promotion", "  after a promotion, until it decides", milliseconds, 3000, "from when the new primary has a synchronous standby"},
	{"takeover after the lease", "  after the active member's end, until the standby decides, beyond the lease", milliseconds, 5000, "the lease is 4 s"},
	{"replay", "  replay", perSecond, 5000, "decisions: a request waits, and may run"},
	{"acknowledged and lost", "  jobs that were acknowledged and lost", pieces, 0, "primary and active member killed; none may be"},
}

// ledger measures a gate with a ledger in PostgreSQL.
func (b *bench) ledger() error {
	return b.ofTests("gated/internal/test/ha", "TestRates|TestTimes", "GATED_LEDGER", ledgerDecisions, ledgerRows)
}
