package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"modernc.org/sqlite"
	"pgregory.net/rapid"
)

// The types that tests bind and scan beside the plain ones.
type (
	aName   string
	aNumber int
	aSmall  uint8
	aBlob   []byte
	aValuer struct{ of any }
)

// Value makes aValuer a driver.Valuer.
func (v aValuer) Value() (driver.Value, error) { return v.of, nil }

// destinations returns a new destination of each type that a function may scan into.
func destinations() []any {
	return []any{new(int64), new(int), new(int32), new(int8), new(uint64), new(uint32), new(uint8), new(float64),
		new(bool), new(string), new([]byte), new(any), new(sql.RawBytes), new(sql.NullString), new(sql.NullInt64),
		new(sql.NullBool), new(sql.Null[uint16]), new(aName), new(aNumber), new(aSmall), new(aBlob),
		new(*string), new(*int64), new(*[]byte), new(*aName), new(**int), new(struct{})}
}

// pair is the store's way to run statements, and database/sql as its oracle, on two databases in memory.
type pair struct {
	conn   *conn
	oracle *sql.DB
}

func newPair(t testing.TB) *pair {
	t.Helper()
	open := func() driver.Connector {
		inner, err := sqlite.NewConnector("file::memory:")
		require.NoError(t, err)
		return inner
	}
	c, err := connect(context.Background(), open())
	require.NoError(t, err)
	c.mayCommit = true
	p := &pair{conn: c, oracle: sql.OpenDB(open())}
	p.oracle.SetMaxOpenConns(1)
	t.Cleanup(func() {
		requireIdle(t, c)
		require.NoError(t, c.Close())
		require.NoError(t, p.oracle.Close())
	})
	return p
}

// queryRow is Tx.QueryRow without a transaction.
func (c *conn) queryRow(query string, args ...any) *Row {
	row := &Row{}
	c.query(query, args, &row.rows)
	return row
}

// shape is what SQLite itself says of an argument.
const shape = `SELECT typeof(?1), hex(CAST(?1 AS BLOB)), length(?1), printf('%!.17g', ?1)`

// sameArgument checks that an argument reaches SQLite as it does through database/sql, and that what SQLite returns
// reaches each destination as it does through database/sql.
func (p *pair) sameArgument(t require.TestingT, arg any) {
	var mine, wanted [4]any
	err := p.conn.queryRow(shape, arg).Scan(&mine[0], &mine[1], &mine[2], &mine[3])
	oracle := p.oracle.QueryRow(shape, arg).Scan(&wanted[0], &wanted[1], &wanted[2], &wanted[3])
	require.Equal(t, oracle == nil, err == nil, "%T %#v: %v, not %v", arg, arg, err, oracle)
	require.Equal(t, wanted, mine, "%T %#v", arg, arg)
	if oracle != nil {
		return
	}
	for i, want := range destinations() {
		dest := destinations()[i]
		err := p.conn.queryRow(`SELECT ?`, arg).Scan(dest)
		oracle := scanBare(p.oracle, want, arg)
		require.Equal(t, oracle == nil, err == nil, "%T %#v into %T: %v, not %v", arg, arg, dest, err, oracle)
		if oracle == nil && !sameBytes(want, dest) {
			require.Equal(t, want, dest, "%T %#v into %T", arg, arg, dest)
		}
	}
}

// scanBare scans with Rows, because sql.Row refuses an sql.RawBytes.
func scanBare(db *sql.DB, dest, arg any) error {
	rows, err := db.Query(`SELECT ?`, arg)
	if err != nil {
		return err
	}
	defer rows.Close()
	rows.Next()
	if raw, ok := dest.(*sql.RawBytes); ok {
		defer func() { *raw = append(sql.RawBytes{}, *raw...) }() // it is valid until the rows are closed
	}
	return rows.Scan(dest)
}

// sameBytes compares the contents of two sql.RawBytes. Which of two empty ones is nil is no promise.
func sameBytes(want, got any) bool {
	a, ok := want.(*sql.RawBytes)
	return ok && string(*a) == string(*got.(*sql.RawBytes))
}

func TestArgumentsOfEachTypeAsDatabaseSQLHasThem(t *testing.T) {
	p := newPair(t)
	number, name, none := 7, "name", (*int)(nil)
	for _, arg := range []any{
		nil, []byte(nil), none, &number, &name, 0, 1, -1, 2, true, false, int8(-128), uint8(255), uint32(math.MaxUint32),
		uint64(math.MaxInt64), uint64(math.MaxInt64 + 1), int64(math.MaxInt64), int64(math.MinInt64), 0.0, math.Copysign(0, -1), 1.5, 1e300,
		math.Inf(1), math.Inf(-1), math.NaN(), math.SmallestNonzeroFloat64, float32(0.1), "", "a", "\x00", "a\x00b", "\xff\xfe", "12", "1.5",
		"true", " 1", "9223372036854775808", "ä\u2028", []byte{}, []byte{0}, []byte("12"), []byte("\xff\x00x"), make([]byte, 1<<20),
		string(make([]byte, 300)), aName("n"), aNumber(-5), aSmall(9), aBlob("b"), aBlob{}, aBlob(nil),
		aValuer{"v"}, aValuer{nil}, aValuer{int64(3)}, aValuer{3}, struct{}{}, []string{"a"}, map[string]int{}, sql.NullString{},
		sql.NullString{String: "s", Valid: true}, sql.RawBytes("raw"), make(chan int), complex(1, 2),
	} {
		p.sameArgument(t, arg)
	}
}

func TestArgumentsOfAnyValueAsDatabaseSQLHasThem(t *testing.T) {
	p := newPair(t)
	rapid.Check(t, func(t *rapid.T) {
		p.sameArgument(t, anArgument().Draw(t, "argument"))
	})
}

func anArgument() *rapid.Generator[any] {
	return rapid.OneOf(rapid.Int64().AsAny(), rapid.Int().AsAny(), rapid.Uint64().AsAny(), rapid.Int16().AsAny(), rapid.Bool().AsAny(),
		rapid.Float64().AsAny(), rapid.String().AsAny(), rapid.SliceOf(rapid.Byte()).AsAny(),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }).AsAny(),
		rapid.Map(rapid.Int64(), func(n int64) string { return fmt.Sprint(n) }).AsAny(), rapid.Just[any](nil))
}

// FuzzBindAndScan binds and scans texts, blobs and numbers, with database/sql as the oracle.
func FuzzBindAndScan(f *testing.F) {
	for _, text := range []string{"", "a\x00b", "\xff\xfe\x00", "9223372036854775808", "-0", "1e999", "true"} {
		f.Add([]byte(text), int64(math.MinInt64), math.Inf(1))
	}
	p := newPair(f)
	f.Fuzz(func(t *testing.T, text []byte, n int64, x float64) {
		for _, arg := range []any{text, string(text), n, x} {
			p.sameArgument(t, arg)
		}
	})
}

// Times are no values of SQLite. The driver would write them in a form of its own.
func TestTimesAreNoArguments(t *testing.T) {
	p := newPair(t)
	require.ErrorContains(t, p.conn.queryRow(`SELECT ?`, time.Unix(0, 0)).Scan(new(any)), "no value of type time.Time")
	require.ErrorContains(t, p.conn.exec(`SELECT ?`, []any{aValuer{time.Unix(0, 0)}}), "no value of type")
}

func TestArgumentsAreCounted(t *testing.T) {
	p := newPair(t)
	for _, args := range [][]any{nil, {1}, {1, 2, 3}} {
		require.ErrorContains(t, p.conn.exec(`SELECT ?, ?`, args), "for 2 parameters")
	}
	require.ErrorContains(t, p.conn.queryRow(`SELECT 1, 2`).Scan(new(int)), "1 destinations for 2 columns")
	var a, b int
	require.NoError(t, p.conn.queryRow(`SELECT ?2, ?1 + ?2`, 1, 2).Scan(&a, &b))
	require.Equal(t, [2]int{2, 3}, [2]int{a, b})
}

// What SQLite refuses has the driver's words and code, and so the kind that callers see.
func TestErrorsOfStatementsAsTheDriverHasThem(t *testing.T) {
	p := newPair(t)
	make1 := `CREATE TABLE t (id INTEGER PRIMARY KEY, k TEXT NOT NULL UNIQUE CHECK (k <> 'bad')) STRICT`
	p.conn.internal = true // so that no statement is refused before SQLite sees it
	require.NoError(t, p.conn.script(make1))
	_, err := p.oracle.Exec(make1)
	require.NoError(t, err)
	for _, q := range []string{
		`INSERT INTO t (k) VALUES ('a')`, `INSERT INTO t (k) VALUES ('a')`, `INSERT INTO t (k) VALUES (NULL)`, `INSERT INTO t (k) VALUES ('bad')`,
		`INSERT INTO t (id, k) VALUES (1, 'b')`, `INSERT INTO t (id, k) VALUES ('x', 'b')`, `SELECT nothing FROM t`, `NONSENSE`, `SELECT abs(-9223372036854775808)`,
		`SELECT zeroblob(3000000000)`, `INSERT INTO t (k) SELECT 'c' UNION ALL SELECT 'c'`, `SELECT json('x')`, `ROLLBACK`, `SAVEPOINT`, "SELECT '\x00'",
	} {
		_, want := p.oracle.Exec(q)
		for range 2 { // prepared, and then from memory
			got := p.conn.exec(q, nil)
			require.Equal(t, want == nil, got == nil, "%s: %v, not %v", q, got, want)
			if want != nil {
				require.ErrorContains(t, got, want.Error())
				require.Equal(t, extendedCode(want), extendedCode(got), q)
			}
			want = again(want, p, q)
		}
	}
	require.ErrorIs(t, p.conn.exec(`INSERT INTO t (k) VALUES ('a')`, nil), ErrConstraint)
	require.ErrorIs(t, p.conn.exec(`PRAGMA query_only = 1`, nil), nil)
	require.ErrorIs(t, p.conn.exec(`INSERT INTO t (k) VALUES ('z')`, nil), ErrUnavailable)
}

// again is what the oracle says if a statement runs for the second time.
func again(first error, p *pair, q string) error {
	if first != nil {
		return first
	}
	_, err := p.oracle.Exec(q)
	return err
}

func TestScanCopies(t *testing.T) {
	s := tempStore(t)
	var text string
	var blob, other []byte
	require.NoError(t, s.View(t.Context(), func(tx *Tx) error {
		rows, err := tx.Query(`SELECT 'first', x'0102', ? UNION ALL SELECT 'other', x'0304', 'x'`, []byte("bound"))
		if err != nil {
			return err
		}
		require.True(t, rows.Next())
		require.NoError(t, rows.Scan(&text, &blob, &other))
		var raw sql.RawBytes
		require.True(t, rows.Next())
		require.NoError(t, rows.Scan(&raw, &raw, &raw))
		return rows.Close()
	}))
	require.NoError(t, s.View(t.Context(), func(tx *Tx) error {
		return tx.QueryRow(`SELECT 'first', x'0102', ? UNION ALL SELECT 'other', x'0304', 'x'`, []byte("BOUND")).Scan(new(any), new(any), new(any))
	}))
	require.Equal(t, []any{"first", []byte{1, 2}, []byte("bound")}, []any{text, blob, other})
}

func TestAllDestinationsArePointersToDifferentTypes(t *testing.T) {
	seen := map[reflect.Type]bool{}
	for _, d := range destinations() {
		require.False(t, seen[reflect.TypeOf(d)], "%T", d)
		seen[reflect.TypeOf(d)] = true
	}
}
