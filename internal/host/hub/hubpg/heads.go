package hubpg

import (
	"bytes"
	"context"
	"crypto/sha256"

	"gated/internal/base/op"
	"gated/internal/base/pgpool"
	"gated/internal/base/refusal"
	"gated/internal/host/hub/hubstate"
	"gated/internal/log/witness"
)

// Head implements hubstate.Heads. It checks the kept head's signature, so that the database's owner cannot plant one.
func (s *Store) Head(ctx context.Context, gate op.GateID) (*witness.Record, error) {
	list, err := s.records(ctx, `SELECT record FROM gatedhub.heads WHERE gate = $1`, pgpool.Text(string(gate)))
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[0], nil
}

// Replace implements hubstate.Heads. Two hubs at once may keep one gate more than hubstate.MaxGates.
func (s *Store) Replace(ctx context.Context, was *witness.Record, is witness.Record) (bool, error) {
	line, err := is.Line()
	if err != nil {
		return false, err
	}
	gate, host := pgpool.Text(string(is.Gate)), pgpool.Text(is.Host)
	say := pgpool.Say(`INSERT INTO gatedhub.heads (gate, host, record) SELECT $1, $2, $3
		WHERE (SELECT count(*) FROM gatedhub.heads WHERE host = $2) < $4 ON CONFLICT DO NOTHING RETURNING 1`,
		gate, host, pgpool.Bytes(line), pgpool.Int(hubstate.MaxGates))
	if was != nil {
		old, err := was.Line()
		if err != nil {
			return false, err
		}
		say = pgpool.Say(`UPDATE gatedhub.heads SET host = $2, record = $3 WHERE gate = $1 AND record = $4 RETURNING 1`,
			gate, host, pgpool.Bytes(line), pgpool.Bytes(old))
	}
	rows, err := s.pool.Transaction(ctx, say)
	if err != nil || len(rows[0]) == 1 || was != nil {
		return err == nil && len(rows[0]) == 1, err
	}
	if now, err := s.Head(ctx, is.Gate); now != nil || err != nil {
		return false, err
	}
	return false, hubstate.OverGates(is.Host)
}

// Contradicted implements hubstate.Heads. Two hubs at once may keep one more than the bounds say.
func (s *Store) Contradicted(ctx context.Context, e witness.Record) error {
	line, err := e.Line()
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(e.Key + "\n" + e.Note))
	gate, host, digest := pgpool.Text(string(e.Gate)), pgpool.Text(e.Host), pgpool.Bytes(sum[:])
	rows, err := s.pool.Transaction(ctx,
		pgpool.Say(`INSERT INTO gatedhub.evidence (gate, digest, host, seen, record) SELECT $1, $2, $3, $4, $5
			WHERE (SELECT count(*) FROM gatedhub.evidence WHERE host = $3 AND gate = $1) < $6
			AND (SELECT count(*) FROM gatedhub.evidence WHERE host = $3) < $7 ON CONFLICT DO NOTHING`,
			gate, digest, host, pgpool.Int(e.Seen.UnixMicro()), pgpool.Bytes(line), pgpool.Int(hubstate.MaxEvidence), pgpool.Int(hubstate.MaxHostEvidence)),
		pgpool.Say(`SELECT 1 FROM gatedhub.evidence WHERE gate = $1 AND digest = $2`, gate, digest))
	if err == nil && len(rows[1]) == 0 {
		err = hubstate.OverEvidence(e.Host)
	}
	return err
}

// Evidence implements hubstate.Heads.
func (s *Store) Evidence(ctx context.Context, gate op.GateID) ([]witness.Record, error) {
	return s.records(ctx, `SELECT record FROM gatedhub.evidence WHERE gate = $1 ORDER BY seen, digest`, pgpool.Text(string(gate)))
}

// Contradictions implements hubstate.Heads.
func (s *Store) Contradictions(ctx context.Context, limit int) ([]witness.Record, error) {
	return s.records(ctx, `SELECT record FROM (SELECT DISTINCT ON (host) seen, digest, record
		FROM gatedhub.evidence ORDER BY host, seen DESC, digest) AS newest ORDER BY seen DESC, digest LIMIT $1`, pgpool.Int(int64(limit)))
}

func (s *Store) records(ctx context.Context, sql string, value pgpool.Value) (out []witness.Record, err error) {
	rows, err := s.pool.Ask(ctx, sql, value)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		r, err := witness.ParseRecord(bytes.TrimSuffix(row[0], []byte("\n")))
		if err != nil {
			return nil, refusal.New(refusal.Internal, "a head in the hub's database was changed there: %v", err).
				WithHint("the owner of the database can say how; gatedhub.heads and gatedhub.evidence have the heads")
		}
		out = append(out, r)
	}
	return out, nil
}
