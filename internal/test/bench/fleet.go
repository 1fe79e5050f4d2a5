package bench

// fleetHosts is how many hosts the simulated fleet has.
const fleetHosts = "10000"

// fleetRows are the figures of the fleet's test, with the row of each.
var fleetRows = []figureRow{
	{"limit", "limit: bare rows of 1,500 bytes in PostgreSQL, 16 connections", perSecond, 0, "each committed"},
	{"reports", "hub in PostgreSQL: reports, committed", perSecond, 1000, "10,000 hosts with 3 waiting requests, 2 hubs, 32 callers; each changes 2 requests"},
	{"first page p50", "  first page of 30,000 waiting requests, p50", milliseconds, 50, "10,000 hosts poll every 30 s meanwhile"},
	{"first page p99", "  first page, p99", milliseconds, 50, ""},
	{"first page p50 while all report", "  first page while reports come at the full rate, p50", milliseconds, 50, ""},
	{"memory of hub 1", "  resident memory of a hub, highest", mebibytes, 300, ""},
	{"acknowledged and lost", "  reports that were acknowledged and lost, one hub of two killed", pieces, 0, "none may be"},
}

// fleet plays a fleet.
func (b *bench) fleet() error {
	return b.ofTests("gated/internal/host/hub/hubpg", "TestFleet", "GATED_FLEET", fleetHosts, fleetRows)
}
