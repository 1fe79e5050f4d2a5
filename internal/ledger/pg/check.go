package pg

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"

	"gated/internal/base/refusal"
	"gated/internal/ledger"
)

// oldest is the first server version that is taken, as server_version_num counts.
const oldest = 150000

// refused is an answer of a server that asking again does not change.
func refused(sentence, hint string) error {
	return refusal.New(refusal.Unavailable, "%s", sentence).WithHint("%s", hint)
}

// final reports that another try would be answered in the same way.
func final(err error) bool {
	if r := new(refusal.Refusal); errors.As(err, &r) {
		return true
	}
	var from *pgconn.PgError
	if !errors.As(err, &from) {
		return false
	}
	switch from.Code {
	case "28P01", "28000", "3D000", "42501": // password, role or pg_hba.conf, database, privilege
		return true
	}
	return false
}

const about = `SELECT current_setting('server_version_num'), pg_backend_pid(), to_regclass('gated.version') IS NOT NULL,
pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')`

// acceptable checks a new connection's server.
func (c *connection) acceptable(made bool) error {
	rows, err := c.ask(about)
	if err != nil {
		return err
	}
	row := rows[0]
	version, err := strconv.Atoi(row[0])
	switch {
	case err != nil:
		return fmt.Errorf("the server's version: %w", err)
	case version < oldest:
		return refused(fmt.Sprintf("the ledger's PostgreSQL is of version %d, and %d is the oldest that keeps a ledger", version/10000, oldest/10000), "upgrade the server")
	case row[1] != strconv.FormatUint(uint64(c.PID()), 10):
		return refused("between gated and PostgreSQL is a pooler such as PgBouncer, which would hide what became of a commit",
			"name the PostgreSQL servers themselves in the connection string")
	case row[3] != "t":
		return refused("the ledger's role cannot see how far the standbys are", "as a superuser: GRANT pg_read_all_stats TO the role")
	case made && row[2] != "t":
		return refused("this database has no ledger", "create it, or name the database that has it")
	}
	if !made {
		return nil
	}
	rows, err = c.ask(`SELECT version FROM gated.version`)
	if err != nil {
		return err
	}
	if len(rows) != 1 || rows[0][0] != strconv.Itoa(version1) {
		return refused(fmt.Sprintf("the ledger's tables are of version %v, and this program knows %d", rows, version1), "use the version of gated that made them, or a newer one")
	}
	return nil
}

// check refuses a server that does not promise what the settings ask for, and one that does not know the gate.
func (e *Engine) check(ctx context.Context) error {
	err := e.others.again(ctx, func(c *connection) error {
		rows, err := c.ask(`SELECT `+promises+`, EXISTS (SELECT FROM gated.gates WHERE gate = $1) FROM `+settings, bytes(e.gate))
		if err != nil {
			return err
		}
		if rows[0][3] != "t" {
			return refused("the ledger does not know this gate", "create the gate's ledger in it, or check gate and database")
		}
		return e.promised(rows[0][:3])
	})
	return e.unavailable(err)
}

// settings is a row of what a server promises, and promises are its columns as promised reads them. All are of the moment
// of their statement: an administrator can change them at any time.
const (
	settings = `(SELECT current_setting('fsync') AS fsync, current_setting('synchronous_commit') AS commits, ` +
		`current_setting('synchronous_standby_names') AS names) AS s`
	promises = `s.fsync, s.commits, s.names`
)

// kept is the condition under which a statement of a ledger changes something; it is false for what promised refuses.
func (e *Engine) kept() string {
	if e.single {
		return `s.fsync = 'on' AND s.commits <> 'off'`
	}
	return `s.fsync = 'on' AND s.commits IN ('on', 'remote_apply') AND s.names <> ''`
}

func (e *Engine) promised(columns []string) error {
	fsync, commits, names := columns[0], columns[1], columns[2]
	switch {
	case fsync != "on":
		return refused("the ledger's PostgreSQL runs with fsync=off, so a power cut would lose groups", "set fsync = on, and restart it")
	case commits == "off":
		return refused("the ledger's PostgreSQL has synchronous_commit=off, so a crash would lose groups", "set synchronous_commit = on")
	case e.single:
		return nil
	case commits != "on" && commits != "remote_apply":
		return refused("the ledger's PostgreSQL has synchronous_commit="+commits+", so a standby may lack groups", "set synchronous_commit = on")
	case names == "":
		return refused("the ledger's PostgreSQL has no synchronous standby: synchronous_standby_names is empty",
			"set synchronous_standby_names, or allow one server by durability: single")
	}
	return nil
}

// fenced is the answer of a row of another era.
func fenced(era string) error {
	return fmt.Errorf("%w: the ledger is in era %s", ledger.ErrFenced, era)
}
