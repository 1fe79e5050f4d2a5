package pg

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

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

var errPooler = refused("between gated and PostgreSQL is a pooler such as PgBouncer, which would hide what became of a commit",
	"name the PostgreSQL servers themselves in the connection string")

// session is what each session sets for itself, because the role or the database may have set something else. A cancelled
// wait for the standby is a warning, which the server has to send. Under another isolation, an append that waited for the
// gate's row would fail where it should read who took over.
var session = map[string]string{"client_min_messages": "warning", "default_transaction_isolation": "read committed"}

// poolers is how PgBouncer refuses a setting of a session that it does not pass on.
func poolers(err error) error {
	var from *pgconn.PgError
	if errors.As(err, &from) && from.Code == "08P01" && strings.Contains(from.Message, "startup parameter") {
		return errPooler
	}
	return err
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
pg_has_role(current_user, 'pg_read_all_stats', 'USAGE'), current_setting('client_min_messages'), current_setting('transaction_isolation')`

// acceptable checks a new connection's server.
func (c *connection) acceptable(made bool) error {
	row, err := c.must(6, about)
	if err != nil {
		return err
	}
	version, err := strconv.Atoi(row[0])
	switch {
	case err != nil:
		return fmt.Errorf("the server's version: %w", err)
	case version < oldest:
		return refused(fmt.Sprintf("the ledger's PostgreSQL is of version %d, and %d is the oldest that keeps a ledger", version/10000, oldest/10000), "upgrade the server")
	case row[1] != strconv.FormatUint(uint64(c.PID()), 10):
		return errPooler
	case row[4] != session["client_min_messages"] || row[5] != session["default_transaction_isolation"]:
		return refused(fmt.Sprintf("the server did not take the session's settings: client_min_messages=%s, transaction_isolation=%s", row[4], row[5]),
			"name the PostgreSQL servers themselves in the connection string")
	case row[3] != "t":
		return refused("the ledger's role cannot see how far the standbys are", "as a superuser: GRANT pg_read_all_stats TO the role")
	case made && row[2] != "t":
		return refused("this database has no ledger", "create it, or name the database that has it")
	}
	if !made {
		return nil
	}
	return c.current()
}

// current brings the tables of an earlier version to this program's, and refuses those of another one.
func (c *connection) current() error {
	const version = `SELECT version FROM gated.version`
	row, err := c.must(1, version)
	if err == nil && row[0] == "1" {
		if err = c.tables(); err == nil {
			row, err = c.must(1, version)
		}
	}
	if err != nil {
		return err
	}
	if row[0] != strconv.Itoa(known) {
		return refused(fmt.Sprintf("the ledger's tables are of version %.20q, and this program knows %d", row[0], known), "use the version of gated that made them, or a newer one")
	}
	return nil
}

// check refuses a server that does not promise what the settings ask for, and one that does not know the gate.
func (e *Engine) check(ctx context.Context) error {
	err := e.others.again(ctx, 0, func(c *connection) error {
		row, err := c.must(4, `SELECT `+promises+`, EXISTS (SELECT FROM gated.gates WHERE gate = $1) FROM `+settings, bytes(e.gate))
		if err != nil {
			return err
		}
		if row[3] != "t" {
			return refused("the ledger does not know this gate", "create the gate's ledger in it, or check gate and database")
		}
		return e.promised(row[:3])
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

// attended refuses a server that does not promise what the settings ask for, and one whose commits would wait for a standby
// that is not connected. The first commit would be in doubt, and its error would not say why.
func (e *Engine) attended(c *connection) error {
	row, err := c.must(4, `SELECT `+promises+`, s.names = '' OR s.commits IN ('off', 'local') OR
EXISTS (SELECT FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')) FROM `+settings)
	if err == nil {
		err = e.promised(row[:3])
	}
	if err == nil && row[3] != "t" {
		err = refused("no synchronous standby is connected to the ledger's PostgreSQL, and each commit waits for one",
			"start the standby that synchronous_standby_names asks for: SELECT * FROM pg_stat_replication lists those that are connected")
	}
	return err
}

// fenced is the answer of a row of another era.
func fenced(era string) error {
	return fmt.Errorf("%w: the ledger is in era %s", ledger.ErrFenced, era)
}
