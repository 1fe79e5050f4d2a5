package hubpg

import (
	"context"

	"gated/internal/base/pgpool"
	"gated/internal/host/hub"
	"gated/internal/host/hub/hubstate"
)

// Document implements hubstate.Documents.
func (s *Store) Document(ctx context.Context, host, what, tag string) (hubstate.Document, error) {
	rows, err := s.pool.Ask(ctx, `SELECT tag, revision, CASE WHEN tag = $3 THEN NULL ELSE body END FROM gatedhub.documents WHERE host = $1 AND what = $2`,
		pgpool.Text(host), pgpool.Text(what), pgpool.Text(tag))
	if err != nil {
		return hubstate.Document{}, err
	}
	if len(rows) == 0 {
		return hubstate.Document{}, unknown(host)
	}
	return hubstate.Document{Body: rows[0][2], Tag: rows[0].Text(0), Revision: rows[0].Text(1)}, nil
}

// Has implements hubstate.Documents.
func (s *Store) Has(ctx context.Context, host string) error {
	rows, err := s.pool.Ask(ctx, `SELECT 1 FROM gatedhub.documents WHERE host = $1 LIMIT 1`, pgpool.Text(host))
	if err == nil && len(rows) == 0 {
		err = unknown(host)
	}
	return err
}

// Hosts implements hubstate.Documents.
func (s *Store) Hosts(ctx context.Context, after string, limit int) ([]string, error) {
	rows, err := s.pool.Ask(ctx, `SELECT host FROM gatedhub.documents WHERE what = $1 AND host > $2 ORDER BY host LIMIT $3`,
		pgpool.Text(hub.PathDesired), pgpool.Text(after), pgpool.Int(int64(limit)))
	if err != nil {
		return nil, err
	}
	out := make([]string, len(rows))
	for i, row := range rows {
		out[i] = row.Text(0)
	}
	return out, nil
}

const publish = `INSERT INTO gatedhub.documents AS d (host, what, tag, revision, body) VALUES ($1, $2, $3, $4, $5)
	ON CONFLICT (host, what) DO UPDATE SET tag = $3, revision = $4, body = $5 WHERE d.tag <> $3 RETURNING 1`

// Publish puts both documents of a host into the database as one transaction, and reports whether they changed.
func (s *Store) Publish(ctx context.Context, host string, desired, operations hubstate.Document) (changed bool, err error) {
	say := func(what string, d hubstate.Document) pgpool.Statement {
		return pgpool.Say(publish, pgpool.Text(host), pgpool.Text(what), pgpool.Text(d.Tag), pgpool.Text(d.Revision), pgpool.Bytes(d.Body))
	}
	rows, err := s.pool.Transaction(ctx, say(hub.PathDesired, desired), say(hub.PathOperations, operations))
	return err == nil && len(rows[0])+len(rows[1]) > 0, err
}

// Forget removes a host's documents, its last report and what waits there, and reports whether there was any. Heads stay,
// because they are evidence. The table's lock waits for the reports that are being kept. One that comes meanwhile looks for
// the host's documents when it has its turn; otherwise it would bring back what is forgotten. The lock is in a block of
// code, because PostgreSQL refuses it as a statement of a transaction that no BEGIN began.
func (s *Store) Forget(ctx context.Context, host string) (bool, error) {
	say := []pgpool.Statement{pgpool.Say(`DO $$ BEGIN LOCK TABLE gatedhub.reports IN SHARE ROW EXCLUSIVE MODE; END $$`)}
	for _, table := range []string{"documents", "reports", "requests"} {
		say = append(say, pgpool.Say(`DELETE FROM gatedhub.`+table+` WHERE host = $1 RETURNING 1`, pgpool.Text(host)))
	}
	rows, err := s.pool.Transaction(ctx, say...)
	return err == nil && len(rows[1])+len(rows[2])+len(rows[3]) > 0, err
}
