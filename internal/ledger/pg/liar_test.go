package pg_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gated/internal/ledger"
	"gated/internal/ledger/pg"
	"gated/internal/test/must"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"
)

// answers are what an honest server says to each kind of statement, which a text in it tells.
var answers = []struct {
	name, in string
	rows     [][]string
}{
	{"about", "server_version_num", [][]string{{"150000", "7", "t", "t", "warning", "read committed"}}},
	{"version", "SELECT version FROM", [][]string{{"2"}}},
	{"create", "INSERT INTO gated.gates", [][]string{{"0"}}},
	{"attended", "sync_state IN ('sync', 'quorum')) FROM", [][]string{{"on", "on", "second", "t"}}},
	{"check", "EXISTS (SELECT FROM gated.gates", [][]string{{"on", "on", "second", "t"}}},
	{"append", "INSERT INTO gated.groups", [][]string{{"on", "on", "second", "1", "1", "0", "1"}}},
	{"take", "SET era = era + 1", [][]string{{"1", "1"}}},
	{"settle", "SET settled", [][]string{{"1", "2"}}},
	{"beat", "SET beat", [][]string{{"1"}}},
	{"settled", "SELECT count(*) FROM gated.groups", [][]string{{"1", "f"}}},
	{"put", "INSERT INTO gated.bases", [][]string{{"on", "on", "second", "1", "1", "1"}}},
	{"mend", "SET era = $3, settled", [][]string{{"1"}}},
	{"base", "octet_length(body) FROM gated.bases", [][]string{{"1", "1", strings.Repeat("d", 32), strings.Repeat("s", 32), "sig", "4"}}},
	{"piece", "substring(body", [][]string{{"body"}}},
	{"position", "SELECT era, beat", [][]string{{"1", "0", "0"}}},
	{"place", "pg_current_wal_flush_lsn", [][]string{{"0/1", "t"}}},
	{"page", "row_number", [][]string{{"1", "1", strings.Repeat("p", 32), "sig", "4", "body"}}},
	{"time", "clock_timestamp", [][]string{{"5"}}},
	{"read only", "transaction_read_only", [][]string{{"off"}}},
}

// lies change the rows of an honest answer. A value "NULL" is NULL.
var lies = map[string]func(rows [][]string) [][]string{
	"no row":           func([][]string) [][]string { return nil },
	"no columns":       func([][]string) [][]string { return [][]string{{}} },
	"a column less":    func(rows [][]string) [][]string { return [][]string{rows[0][1:]} },
	"a column more":    func(rows [][]string) [][]string { return [][]string{append(append([]string{}, rows[0]...), "x")} },
	"many rows":        func(rows [][]string) [][]string { return append(append(rows, rows...), make([][]string, 300)...) },
	"NULLs":            func(rows [][]string) [][]string { return [][]string{every(rows[0], "NULL")} },
	"empty texts":      func(rows [][]string) [][]string { return [][]string{every(rows[0], "")} },
	"no numbers":       func(rows [][]string) [][]string { return [][]string{every(rows[0], "x")} },
	"negative numbers": func(rows [][]string) [][]string { return [][]string{every(rows[0], "-1")} },
	"large numbers":    func(rows [][]string) [][]string { return [][]string{every(rows[0], "99999999999999999999")} },
	"2 MiB":            func(rows [][]string) [][]string { return [][]string{every(rows[0], strings.Repeat("x", 2<<20))} },
}

func every(row []string, with string) (out []string) {
	for range row {
		out = append(out, with)
	}
	return out
}

// liar is a server that speaks PostgreSQL's protocol. It lies about one kind of statement, from when it is told to.
type liar struct {
	port  int
	about string
	lie   func([][]string) [][]string
	now   atomic.Bool
}

func newLiar(t *testing.T, about string, lie func([][]string) [][]string) *liar {
	t.Helper()
	s := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = s.Close() })
	l := &liar{port: s.Addr().(*net.TCPAddr).Port, about: about, lie: lie}
	go func() {
		for {
			c, err := s.Accept()
			if err != nil {
				return
			}
			go l.serve(c)
		}
	}()
	return l
}

// serve ends when the client closes the connection.
func (l *liar) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	b := pgproto3.NewBackend(c, c)
	if _, err := b.ReceiveStartupMessage(); err != nil {
		return
	}
	ready := &pgproto3.ReadyForQuery{TxStatus: 'I'}
	b.Send(&pgproto3.AuthenticationOk{})
	b.Send(&pgproto3.BackendKeyData{ProcessID: 7, SecretKey: []byte{0, 0, 0, 1}})
	b.Send(ready)
	for b.Flush() == nil {
		m, err := b.Receive()
		if err != nil {
			return
		}
		switch m := m.(type) {
		case *pgproto3.Query:
			l.answer(b, m.String)
			b.Send(ready)
		case *pgproto3.Parse:
			b.Send(&pgproto3.ParseComplete{})
			b.Send(&pgproto3.BindComplete{})
			l.answer(b, m.Query)
		case *pgproto3.Sync:
			b.Send(ready)
		}
	}
}

func (l *liar) answer(b *pgproto3.Backend, sql string) {
	for _, a := range answers {
		if !strings.Contains(sql, a.in) {
			continue
		}
		rows := a.rows
		if l.now.Load() && a.name == l.about {
			rows = l.lie(rows)
		}
		var fields []pgproto3.FieldDescription
		if len(rows) > 0 {
			for range rows[0] {
				fields = append(fields, pgproto3.FieldDescription{Name: []byte("c")})
			}
		}
		b.Send(&pgproto3.RowDescription{Fields: fields})
		for _, row := range rows {
			var values [][]byte
			for _, v := range row {
				if v == "NULL" {
					values = append(values, nil)
				} else {
					values = append(values, []byte(v))
				}
			}
			b.Send(&pgproto3.DataRow{Values: values})
		}
		break
	}
	b.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")})
}

func (l *liar) settings() pg.Settings {
	return pg.Settings{Connection: fmt.Sprintf("host=127.0.0.1 port=%d user=gated dbname=postgres sslmode=disable", l.port), Gate: "one", Limit: 10 * time.Second}
}

// calls runs each call of an engine, and returns the errors by the statement that they need most.
func calls(e ledger.Engine) map[string]error {
	ctx := context.Background()
	errs := map[string]error{}
	_, errs["position"] = e.Position(ctx)
	_, errs["take"] = e.Take(ctx, 0)
	errs["append"] = e.Append(ledger.Group{Number: 1, Era: 1, Body: []byte("body")})
	_, errs["settle"] = e.Settle(1, 1)
	errs["beat"] = e.Beat(1)
	_, errs["page"] = e.Read(ctx, 0, 256)
	errs["put"] = e.PutBase(ledger.Base{Number: 1, Era: 1}, []byte("body"), 1)
	errs["mend"] = e.Mend(ctx, ledger.Position{}, 1, ledger.Base{Number: 1, Era: 1}, []byte("body"))
	_, errs["base"] = e.Base(ctx)
	_, errs["piece"] = e.BaseBody(ctx, ledger.Base{Number: 1})
	_, errs["time"] = e.(ledger.Timed).Time(ctx)
	return errs
}

func TestAnHonestAnswerIsTaken(t *testing.T) {
	l := newLiar(t, "", nil)
	require.NoError(t, pg.Create(t.Context(), l.settings()))
	for call, err := range calls(open(t, l.settings())) {
		require.NoError(t, err, call)
	}
}

// TestAServerThatLies: none of its answers ends the process, and an append whose answer has another form is never kept.
func TestAServerThatLies(t *testing.T) {
	for _, a := range answers {
		for name, lie := range lies {
			t.Run(a.name+", "+name, func(t *testing.T) {
				t.Parallel()
				l := newLiar(t, a.name, lie)
				s := l.settings()
				if connects[a.name] {
					s.Limit = time.Second / 4 // it is asked again until then
					l.now.Store(true)
				} else {
					whileItLies(t, l, name)
				}
				if again, err := pg.Open(context.Background(), s); err == nil {
					require.NoError(t, again.Close())
				} else {
					require.ErrorIs(t, err, ledger.ErrUnavailable)
				}
				_ = pg.Create(context.Background(), s) // must return
			})
		}
	}
}

// connects names the statements that each new connection begins with.
var connects = map[string]bool{"read only": true, "about": true, "version": true, "check": true}

// whileItLies opens an engine while the server is honest, and makes each call when it lies.
func whileItLies(t *testing.T, l *liar, lie string) {
	t.Helper()
	e := open(t, l.settings())
	l.now.Store(true)
	errs := calls(e)
	if err, known := errs[l.about]; known && (l.about != "page" && l.about != "base" || lie != "no row") {
		require.Error(t, err)
	}
	if l.about == "append" && lie != "no row" || l.about == "place" {
		require.ErrorIs(t, errs["append"], ledger.ErrInDoubt)
	}
	if l.about == "put" && lie != "no row" || l.about == "place" {
		require.ErrorIs(t, errs["put"], ledger.ErrInDoubt)
	}
}
