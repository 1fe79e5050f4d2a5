package pgpool

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"gated/internal/base/refusal"
)

// readOnly is PostgreSQL's code for a write that a read-only server refuses (Appendix A of its manual).
const readOnly = "25006"

// answersOf says what to do about PostgreSQL's codes; an empty hint is Settings.Made.
var answersOf = map[string][2]string{
	readOnly: {"is read-only: it is a standby, or default_transaction_read_only is on", "name the primary as well in the connection string, or promote a server"},
	"53100":  {"has no room on its disk", "make room on the database's disk; nothing that was acknowledged is lost"},
	"53200":  {"is out of memory", "look at the database's log"},
	"53300":  {"has no connection left", "raise max_connections, or put PgBouncer in between"},
	"28P01":  {"refuses the password", "PGPASSFILE names the file with it"},
	"28000":  {"refuses the role", "see pg_hba.conf of the server"},
	"3D000":  {"does not exist on that server", "make it: createdb"},
	"42501":  {"refuses this to the role", "grant the role what the tables' page lists"},
	"3F000":  {"has no tables of this program", ""},
	"42P01":  {"has no tables of this program", ""},
}

// refused makes a refusal of an error. It shows no password.
func (p *Pool) refused(err error) error {
	own := new(refusal.Refusal)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &own):
		return own
	}
	var from *pgconn.PgError
	if errors.Is(err, errReadOnly) {
		from = &pgconn.PgError{Code: readOnly}
	}
	if from != nil || errors.As(err, &from) {
		if known, ok := answersOf[from.Code]; ok {
			return refusal.New(refusal.Unavailable, "%s %s", p.What, known[0]).WithHint("%s", cmp.Or(known[1], p.Made))
		}
		return refusal.New(refusal.Unavailable, "%s refuses: %s (%s)", p.What, p.shown(from.Message), from.Code).
			WithHint("look at the database's log")
	}
	if errors.Is(err, context.DeadlineExceeded) || pgconn.Timeout(err) {
		return refusal.New(refusal.Unavailable, "%s did not answer within %s", p.What, p.Limit).
			WithHint("look whether the server runs, and whether its synchronous standby does")
	}
	return refusal.New(refusal.Unavailable, "%s cannot be reached: %s", p.What, p.shown(err.Error())).
		WithHint("look whether the server runs at the address of the connection string")
}

// shown is a text of the database without the password, in one line.
func (p *Pool) shown(text string) string {
	if p.config.Password != "" {
		text = strings.ReplaceAll(text, p.config.Password, "…")
	}
	return strings.Join(strings.Fields(text), " ")
}
