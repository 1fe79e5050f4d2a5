// Package hubpg keeps what a hub knows in PostgreSQL, for any number of hubs. Each call is one transaction, and nothing is
// kept in memory. docs/formats/hub-tables.md has the tables.
package hubpg

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"gated/internal/base/pgpool"
	"gated/internal/base/refusal"
)

// Schema is the name of the tables' schema.
const Schema = "gatedhub"

// version is that of the tables which this program makes and knows.
const version = 1

// oldest is the first server version that is taken, as server_version_num counts.
const oldest = 150000

// tables makes what is missing. All text is bytea, because PostgreSQL's text refuses NUL, and because bytea sorts alike
// everywhere. Times are microseconds since 1970.
var tables = []string{
	`SELECT pg_advisory_xact_lock(7164527)`,
	`CREATE SCHEMA IF NOT EXISTS gatedhub`,
	`CREATE TABLE IF NOT EXISTS gatedhub.version (version bigint NOT NULL)`,
	`INSERT INTO gatedhub.version SELECT 1 WHERE NOT EXISTS (SELECT FROM gatedhub.version)`,
	`CREATE TABLE IF NOT EXISTS gatedhub.documents (host bytea NOT NULL, what bytea NOT NULL, tag bytea NOT NULL,
		revision bytea NOT NULL, body bytea NOT NULL, PRIMARY KEY (host, what))`,
	`CREATE TABLE IF NOT EXISTS gatedhub.reports (host bytea PRIMARY KEY, gate bytea NOT NULL, started_at bigint NOT NULL,
		seq bigint NOT NULL, at bigint NOT NULL, since bigint NOT NULL, converged boolean NOT NULL, left_out bigint NOT NULL,
		operations bytea NOT NULL, body bytea NOT NULL) WITH (fillfactor = 70)`,
	`CREATE INDEX IF NOT EXISTS reports_gate ON gatedhub.reports (gate)`,
	`CREATE INDEX IF NOT EXISTS reports_left_out ON gatedhub.reports (host, left_out) WHERE left_out > 0`,
	`CREATE TABLE IF NOT EXISTS gatedhub.requests (host bytea NOT NULL, request bytea NOT NULL, at bigint NOT NULL,
		op bytea NOT NULL, row bytea NOT NULL, PRIMARY KEY (host, request))`,
	`CREATE INDEX IF NOT EXISTS requests_queue ON gatedhub.requests (at, host, request)`,
	`CREATE INDEX IF NOT EXISTS requests_host ON gatedhub.requests (host, at, request)`,
	`CREATE INDEX IF NOT EXISTS requests_op ON gatedhub.requests (op, at, host, request)`,
	`CREATE TABLE IF NOT EXISTS gatedhub.heads (gate bytea PRIMARY KEY, host bytea NOT NULL, record bytea NOT NULL)`,
	`CREATE INDEX IF NOT EXISTS heads_host ON gatedhub.heads (host)`,
	`CREATE TABLE IF NOT EXISTS gatedhub.evidence (gate bytea NOT NULL, digest bytea NOT NULL, host bytea NOT NULL, seen bigint NOT NULL,
		record bytea NOT NULL, PRIMARY KEY (gate, digest))`,
	`CREATE INDEX IF NOT EXISTS evidence_host ON gatedhub.evidence (host, seen)`,
}

// The connections of a hub to its database, and how long one call may take.
const (
	connections        = 8
	peoplesConnections = 2
	limit              = 15 * time.Second
)

// Settings say where a hub's database is.
type Settings struct {
	// Connection is a connection string or URL of libpq, as pgpool.Settings has it.
	Connection string
	// Limit is how long one call may take; zero for 15 s.
	Limit time.Duration
}

func (s Settings) pool(made bool) pgpool.Settings {
	return pgpool.Settings{Connection: s.Connection, What: "the hub's database", Made: "gated hub create makes them", Size: connections,
		Limit: cmp.Or(s.Limit, limit), Accept: func(ctx context.Context, c *pgpool.Conn) error { return acceptable(ctx, c, made) }}
}

// Create makes the tables in a database, if they are missing. The role needs the right to create a schema. Calling it
// again changes nothing.
func Create(ctx context.Context, s Settings) error {
	p, err := pgpool.New(s.pool(false))
	if err != nil {
		return err
	}
	defer p.Close()
	statements := make([]pgpool.Statement, len(tables))
	for i, sql := range tables {
		statements[i] = pgpool.Say(sql)
	}
	_, err = p.Transaction(ctx, statements...)
	return err
}

const about = `SELECT current_setting('server_version_num'), current_setting('fsync'), current_setting('synchronous_commit'),
	to_regclass('gatedhub.version') IS NOT NULL`

// acceptable checks the server behind a new connection, and its tables if they must be there.
func acceptable(ctx context.Context, c *pgpool.Conn, made bool) error {
	rows, err := c.Transaction(ctx, pgpool.Say(about))
	if err != nil {
		return err
	}
	row := rows[0][0]
	number, err := strconv.Atoi(row.Text(0))
	refused := func(sentence, hint string) error {
		return refusal.New(refusal.Unavailable, "the hub's database %s", sentence).WithHint("%s", hint)
	}
	switch {
	case err != nil:
		return fmt.Errorf("the server's version: %w", err)
	case number < oldest:
		return refused(fmt.Sprintf("is PostgreSQL %d, and %d is the oldest that is tried", number/10000, oldest/10000), "upgrade the server")
	case row.Text(1) != "on":
		return refused("runs with fsync=off, so a power cut would lose acknowledged reports", "set fsync = on, and restart it")
	case row.Text(2) == "off":
		return refused("has synchronous_commit=off, so a crash would lose acknowledged reports", "set synchronous_commit = on")
	case !made:
		return nil
	case !row.Bool(3):
		return refused("has no tables of a hub", "gated hub create makes them")
	}
	rows, err = c.Transaction(ctx, pgpool.Say(`SELECT version FROM gatedhub.version`))
	if err != nil {
		return err
	}
	if len(rows[0]) != 1 || rows[0][0].Int(0) != version {
		return refused("has tables of another version than this program knows", "use the version of gated that made them, or a newer one")
	}
	return nil
}
