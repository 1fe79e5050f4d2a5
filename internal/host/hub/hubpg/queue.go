package hubpg

import (
	"context"
	"math"
	"strconv"
	"strings"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/pgpool"
	"gated/internal/base/refusal"
	"gated/internal/host/hub/hubstate"
)

// counted is how far waiting requests are counted, because a count looks at each row.
const counted = "100000"

// Queue implements hubstate.Reports: one scan of the index that the filter names, from the place on.
func (s *Store) Queue(ctx context.Context, q hubstate.Query) (api.FleetQueue, error) {
	after := hubstate.Place{At: math.MinInt64}
	if q.After != nil {
		after = *q.After
	}
	var where []string
	values := []pgpool.Value{pgpool.Int(after.At), pgpool.Text(after.Host), pgpool.Text(after.Request), pgpool.Int(int64(q.Limit) + 1)}
	var chosen []pgpool.Value
	for _, f := range [][2]string{{"host", q.Host}, {"op", q.Op}} {
		if f[1] != "" {
			values, chosen = append(values, pgpool.Text(f[1])), append(chosen, pgpool.Text(f[1]))
			where = append(where, f[0])
		}
	}
	rows, err := s.people.Transaction(ctx,
		pgpool.Say(`SELECT q.host, q.request, q.row, r.gate, r.at FROM
			(SELECT at, host, request, row FROM gatedhub.requests WHERE (at, host, request) > ($1, $2, $3)`+equal(where, 5, " AND ")+`
			ORDER BY at, host, request LIMIT $4) AS q JOIN gatedhub.reports AS r USING (host) ORDER BY q.at, q.host, q.request`, values...),
		pgpool.Say(`SELECT count(*) FROM (SELECT FROM gatedhub.requests`+equal(where, 1, " WHERE ")+` LIMIT `+counted+`) AS c`, chosen...),
		pgpool.Say(`SELECT coalesce(sum(left_out), 0)::bigint FROM gatedhub.reports WHERE left_out > 0 AND ($1 = '' OR host = $1)`, pgpool.Text(q.Host)))
	if err != nil {
		return api.FleetQueue{}, err
	}
	out := api.FleetQueue{Requests: []api.FleetRow{}, Waiting: rows[1][0].Int(0), LeftOut: rows[2][0].Int(0)}
	for i, row := range rows[0] {
		if i == q.Limit {
			out.Next = hubstate.PlaceOf(out.Requests[i-1]).String()
			break
		}
		line := api.FleetRow{Host: row.Text(0), Gate: op.GateID(row.Text(3)), ReportedAt: time.UnixMicro(row.Int(4)).UTC()}
		if err := api.DecodeAnswer(row[2], &line.FleetRequest); err != nil {
			return api.FleetQueue{}, refusal.New(refusal.Internal, "request %s of %s in the hub's database: %v", op.Shown(row.Text(1)), op.Shown(line.Host), err)
		}
		out.Requests = append(out.Requests, line)
	}
	return out, nil
}

// equal compares columns with the parameters from a number on.
func equal(columns []string, from int, begin string) string {
	if len(columns) == 0 {
		return ""
	}
	terms := make([]string, len(columns))
	for i, c := range columns {
		terms[i] = c + " = $" + strconv.Itoa(from+i)
	}
	return begin + strings.Join(terms, " AND ")
}
