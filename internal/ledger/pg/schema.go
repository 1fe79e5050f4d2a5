package pg

import (
	"context"
	"errors"
	"fmt"
)

// known is the version of the tables that this program makes and knows. Version 1 had no bases.
const known = 2

// tables makes the tables if they are missing, and brings those of version 1 to version 2, as one transaction. Everything of a
// gate is bytea, because text refuses NUL.
const tables = `SELECT pg_advisory_xact_lock(7164526);
CREATE SCHEMA IF NOT EXISTS gated;
CREATE TABLE IF NOT EXISTS gated.version (version bigint NOT NULL);
INSERT INTO gated.version SELECT %[1]d WHERE NOT EXISTS (SELECT FROM gated.version);
CREATE TABLE IF NOT EXISTS gated.gates (gate bytea PRIMARY KEY, era bigint NOT NULL DEFAULT 0, beat bigint NOT NULL DEFAULT 0,
settled bigint NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS gated.groups (gate bytea NOT NULL, n bigint NOT NULL, era bigint NOT NULL,
prev bytea NOT NULL, body bytea NOT NULL, sig bytea NOT NULL, PRIMARY KEY (gate, n));
ALTER TABLE gated.groups ALTER body SET STORAGE EXTERNAL;
CREATE TABLE IF NOT EXISTS gated.bases (gate bytea PRIMARY KEY, n bigint NOT NULL, era bigint NOT NULL,
digest bytea NOT NULL, sum bytea NOT NULL, body bytea NOT NULL, sig bytea NOT NULL);
ALTER TABLE gated.bases ALTER body SET STORAGE EXTERNAL;
UPDATE gated.version SET version = %[1]d WHERE version = 1`

// Create makes the tables of ledgers in a database, if they are missing, and the row of the gate. The role needs the right
// to create a schema. Calling it again changes nothing.
func Create(ctx context.Context, s Settings) error {
	e, err := engine(s, false)
	if err != nil {
		return err
	}
	_, err = e.others.do(ctx, func(c *connection) error {
		if err := e.attended(c); err != nil {
			return err
		}
		if err := c.tables(); err != nil {
			return err
		}
		return c.acceptable(true)
	})
	if err == nil {
		err = e.register(ctx)
	}
	return errors.Join(e.unavailable(err), e.Close())
}

// tables makes the tables, or brings them to this program's version.
func (c *connection) tables() error {
	_, err := c.Exec(context.Background(), fmt.Sprintf(tables, known)).ReadAll()
	return err
}

// register makes the gate's row. It needs what every later statement needs: so a ledger begins on a standby's disk too.
func (e *Engine) register(ctx context.Context) error {
	_, err := e.others.do(ctx, func(c *connection) error {
		row, err := c.change(e.single, 1, always, `INSERT INTO gated.gates (gate) SELECT $1 FROM `+settings+` WHERE `+e.kept()+
			` ON CONFLICT (gate) DO UPDATE SET beat = gated.gates.beat RETURNING era`, bytes(e.gate))
		if err == nil && row == nil {
			err = e.attended(c)
		}
		return err
	})
	return err
}
