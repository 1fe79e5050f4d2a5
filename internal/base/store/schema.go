package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"modernc.org/sqlite"
)

// Object is one part of a schema: a table, an index, a view or a trigger.
type Object struct {
	Kind, Name string
	SQL        string // without comments and layout; empty if SQLite made it by itself
}

// Schema returns the schema of a new database with a list of migrations, by kind and name. It makes one in memory.
func Schema(ctx context.Context, list []Migration) (_ []Object, err error) {
	inner, err := sqlite.NewConnector("file::memory:")
	if err != nil {
		return nil, err
	}
	c, err := connect(ctx, inner)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	c.mayCommit = true // each statement commits alone
	if err := bootstrap(c.script); err != nil {
		return nil, fmt.Errorf("make a database in memory: %w", err)
	}
	for _, m := range list {
		if err := c.script(m.SQL); err != nil {
			return nil, fmt.Errorf("migration %d (%s): %w", m.Version, m.Name, err)
		}
	}
	tx := &Tx{s: &session{conn: c}, ctx: ctx}
	defer tx.end()
	return tx.Schema()
}

// Schema returns this database's schema, by kind and name.
func (tx *Tx) Schema() ([]Object, error) {
	rows, err := tx.Query(schemaQuery)
	if err != nil {
		return nil, err
	}
	return readSchema(rows)
}

// schemaQuery leaves out the tables of ANALYZE, which say nothing about rows.
const schemaQuery = `SELECT type, name, coalesce(sql, '') FROM sqlite_schema WHERE name NOT LIKE 'sqlite_stat%'`

func readSchema(rows *Rows) (out []Object, err error) {
	defer rows.Close()
	for rows.Next() {
		var o Object
		if err := rows.Scan(&o.Kind, &o.Name, &o.SQL); err != nil {
			return nil, err
		}
		o.SQL = plain(o.SQL)
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b Object) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
	})
	return out, rows.Err()
}

// plain returns SQL without comments and layout, so that a migration's comments may change.
func plain(sql string) string {
	var out []byte
	for i := 0; i < len(sql); {
		n := skip(sql[i:])
		switch {
		case n > 0 && (sql[i] == '-' || sql[i] == '/'):
			out = append(out, ' ')
		case n > 0:
			out = append(out, sql[i:i+n]...)
		case strings.IndexByte(" \t\n", sql[i]) >= 0:
			out, n = append(out, ' '), 1
		default:
			out, n = append(out, sql[i]), 1
		}
		if last := len(out) - 1; last > 0 && out[last] == ' ' && strings.IndexByte(" (,", out[last-1]) >= 0 {
			out = out[:last]
		} else if last > 0 && strings.IndexByte("(),", out[last]) >= 0 && out[last-1] == ' ' {
			out[last-1], out = out[last], out[:last]
		}
		i += n
	}
	return strings.TrimSpace(string(out))
}

// Violated returns the CHECK constraints of a table, as in o, that some row of this database violates. SQLite's own
// check leaves them out on a connection that cannot write.
func (tx *Tx) Violated(o Object) (out []string, err error) {
	if o.Kind != "table" {
		return nil, nil
	}
	for _, expr := range o.checks() {
		var some bool
		if err := tx.QueryRow(`SELECT EXISTS(SELECT 1 FROM "` + o.Name + `" WHERE NOT (` + expr + `))`).Scan(&some); err != nil {
			return nil, fmt.Errorf("check %s of %s: %w", expr, o.Name, err)
		}
		if some {
			out = append(out, expr)
		}
	}
	return out, nil
}

// checks returns the text in the parentheses behind each CHECK.
func (o Object) checks() (out []string) {
	const word = "CHECK("
	for i := 0; i < len(o.SQL); {
		switch n := skip(o.SQL[i:]); {
		case n > 0:
			i += n
		case len(o.SQL)-i >= len(word) && strings.EqualFold(o.SQL[i:i+len(word)], word):
			i += len(word)
			n := within(o.SQL[i:])
			out = append(out, o.SQL[i:i+n])
			i += n
		default:
			i++
		}
	}
	return out
}

// within returns the length of s before the parenthesis that closes one before s.
func within(s string) int {
	for i, depth := 0, 0; i < len(s); {
		n := skip(s[i:])
		switch {
		case n > 0:
		case s[i] == '(':
			depth++
		case s[i] == ')' && depth == 0:
			return i
		case s[i] == ')':
			depth--
		}
		i += max(n, 1)
	}
	return len(s)
}
