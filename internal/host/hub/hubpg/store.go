package hubpg

import (
	"context"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/pgpool"
	"gated/internal/base/refusal"
	"gated/internal/host/hub"
	"gated/internal/host/hub/hubstate"
)

// Store keeps what a hub knows in PostgreSQL. It implements hubstate.Store and hubstate.Documents, and is safe for
// concurrent use.
type Store struct {
	pool   *pgpool.Pool
	people *pgpool.Pool // for the queue, so that a page does not wait behind the reports of a fleet
}

// Open connects to a database with tables that Create made, and checks what its server promises.
func Open(ctx context.Context, of Settings) (*Store, error) {
	c := of.pool(true)
	pool, err := pgpool.New(c)
	if err != nil {
		return nil, err
	}
	c.Size = peoplesConnections
	people, err := pgpool.New(c)
	if err != nil {
		return nil, err
	}
	s := &Store{pool, people}
	if _, err := pool.Ask(ctx, `SELECT 1`); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close closes each connection once its call has ended.
func (s *Store) Close() {
	s.pool.Close()
	s.people.Close()
}

// The statements of Put. keep does not keep what hubstate.Last.Judge refuses; it answers whether it did, and with the
// report before. Then the rows of requests change, with a snapshot of their own, if the kept report is this one: another
// hub may have kept a later one since.
const (
	keep = `WITH b AS MATERIALIZED (SELECT gate, started_at, seq, operations FROM gatedhub.reports WHERE host = $1),
		k AS (INSERT INTO gatedhub.reports AS r (host, gate, started_at, seq, at, since, converged, left_out, operations, body)
		SELECT $1, $2, $3, $4, $5, $5, $6, $7, $8, $9 WHERE EXISTS (SELECT FROM gatedhub.documents WHERE host = $1)
		ON CONFLICT (host) DO UPDATE SET gate = $2, started_at = $3, seq = $4, at = $5,
			since = CASE WHEN r.converged = $6 THEN r.since ELSE $5 END, converged = $6, left_out = $7, operations = $8, body = $9
		WHERE r.gate <> $2 OR NOT ($3 < r.started_at AND r.started_at <= $5) AND NOT ($3 = r.started_at AND $4 < r.seq)
		RETURNING 1)
		SELECT EXISTS (SELECT FROM k), b.* FROM (VALUES (1)) AS one LEFT JOIN b ON true`
	wait = `WITH o AS MATERIALIZED (SELECT 1 FROM gatedhub.reports WHERE host = $1 AND gate = $2 AND started_at = $3 AND seq = $4),
		gone AS (DELETE FROM gatedhub.requests WHERE host = $1 AND request <> ALL ($5) AND EXISTS (SELECT FROM o))
		INSERT INTO gatedhub.requests AS q (host, request, at, op, row)
		SELECT $1, u.request, u.at, u.op, u.row FROM o, unnest($5, $6, $7, $8) AS u (request, at, op, row)
		WHERE NOT EXISTS (SELECT FROM gatedhub.requests AS was WHERE was.host = $1 AND was.request = u.request AND was.row = u.row)
		ON CONFLICT (host, request) DO UPDATE SET at = excluded.at, op = excluded.op, row = excluded.row`
	twin = `SELECT host FROM gatedhub.reports WHERE gate = $1 AND host <> $2 LIMIT 1`
)

// Put implements hubstate.Reports. The row's lock orders reports of one host that arrive at several hubs.
func (s *Store) Put(ctx context.Context, a hubstate.Arrived) (out hubstate.Outcome, err error) {
	r := a.Report
	operations, err := api.Encode(r.Operations)
	if err != nil {
		return out, err
	}
	q, err := columnsOf(r.Requests)
	if err != nil {
		return out, err
	}
	host, gate, started, seq := pgpool.Text(a.Host), pgpool.Text(string(r.Gate)), pgpool.Int(r.StartedAt.UnixMicro()), pgpool.Int(r.Seq)
	rows, err := s.pool.Transaction(ctx,
		pgpool.Say(keep, host, gate, started, seq, pgpool.Int(a.At.UnixMicro()), pgpool.Bool(hubstate.Converged(r)),
			pgpool.Int(int64(r.RequestsLeftOut)), pgpool.Bytes(operations), pgpool.Bytes(a.Body)),
		pgpool.Say(wait, host, gate, started, seq, q.request, q.at, q.op, q.row))
	if err != nil {
		return out, err
	}
	was := rows[0][0]
	if !was.Bool(0) {
		return out, s.whyNot(ctx, a)
	}
	first := was[1] == nil
	out = hubstate.Outcome{News: first || was.Int(2) != r.StartedAt.UnixMicro() || was.Int(3) != r.Seq, Changed: r.Operations}
	var list []hub.OperationReport
	if !first && api.DecodeAnswer(was[4], &list) == nil { // otherwise all are news
		out.Changed = hubstate.Differing(list, r.Operations)
	}
	if !first && was.Text(1) != string(r.Gate) {
		out.Was = op.GateID(was.Text(1))
	}
	if r.Gate != "" && (first || was.Text(1) != string(r.Gate)) {
		// It is committed already, so that this is no more than a warning that is left out.
		if rows, err := s.pool.Ask(ctx, twin, gate, host); err == nil && len(rows) > 0 {
			out.Twin = rows[0].Text(0)
		}
	}
	return out, nil
}

// columns are the rows of requests, column by column.
type columns struct{ request, at, op, row pgpool.Value }

// columnsOf takes the first of requests with one id.
func columnsOf(list []api.FleetRequest) (columns, error) {
	var ids, ops, rows []string
	var at []int64
	seen := make(map[string]bool, len(list))
	for _, r := range list {
		if seen[r.Request] {
			continue
		}
		seen[r.Request] = true
		row, err := api.Encode(r)
		if err != nil {
			return columns{}, refusal.New(refusal.Malformed, "request %s cannot be written: %v", op.Shown(r.Request), err)
		}
		ids, ops, rows, at = append(ids, r.Request), append(ops, r.Op), append(rows, string(row)), append(at, r.CreatedAt.UnixMicro())
	}
	return columns{pgpool.Texts(ids), pgpool.Ints(at), pgpool.Texts(ops), pgpool.Texts(rows)}, nil
}

// whyNot says why a report was not kept; nil if that is no fault.
func (s *Store) whyNot(ctx context.Context, a hubstate.Arrived) error {
	rows, err := s.pool.Ask(ctx, `SELECT r.gate, r.started_at, r.seq FROM gatedhub.documents AS d LEFT JOIN gatedhub.reports AS r USING (host)
		WHERE d.host = $1 LIMIT 1`, pgpool.Text(a.Host))
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return unknown(a.Host)
	}
	row, r := rows[0], a.Report
	r.StartedAt = time.UnixMicro(r.StartedAt.UnixMicro())
	last := hubstate.Last{Gate: op.GateID(row.Text(0)), StartedAt: time.UnixMicro(row.Int(1)), Seq: row.Int(2)}
	keep, err := last.Judge(r, a.At)
	if keep {
		return refusal.New(refusal.Unavailable, "another report of this host arrived at the same time")
	}
	return err
}

func unknown(host string) error {
	return refusal.New(refusal.UnknownTarget, "the hub's database has nothing for the host %q", op.Shown(host)).
		WithHint("gated hub load puts a directory's documents into it")
}

// Report implements hubstate.Reports.
func (s *Store) Report(ctx context.Context, host string) (*hubstate.Told, error) {
	rows, err := s.pool.Ask(ctx, `SELECT body, at, since FROM gatedhub.reports WHERE host = $1`, pgpool.Text(host))
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	r, err := hub.DecodeReport(rows[0][0], host)
	if err != nil {
		return nil, refusal.New(refusal.Internal, "the report of %s in the hub's database: %v", op.Shown(host), err)
	}
	return &hubstate.Told{Report: r, Body: rows[0][0], At: time.UnixMicro(rows[0].Int(1)).UTC(), Since: time.UnixMicro(rows[0].Int(2)).UTC()}, nil
}

var (
	_ hubstate.Store     = (*Store)(nil)
	_ hubstate.Documents = (*Store)(nil)
)
