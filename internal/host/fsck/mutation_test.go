package fsck_test

import (
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/host/fsck"
	"gated/internal/log/audit"
	"gated/internal/log/checkpoint"
	"gated/internal/log/journal"
	"gated/internal/test/must"
)

// everything is a database after a day of agents, requesters and operators. Every
// table has rows, most of them several. Its heads are signed.
func everything(t *testing.T) string {
	c := newCrowd(t)
	key := must.Get(checkpoint.NewKey(testGate))(t)
	require.NoError(t, c.store.Close())
	c.key = key.Signer
	c.open()
	c.rules(nil)
	require.NoError(t, c.store.Update(t.Context(), func(tx *store.Tx) error {
		if err := audit.SetPublicKey(tx, testGate, key.Public); err != nil {
			return err
		}
		if _, err := tx.Exec(`INSERT INTO gate_identity VALUES(1, ?, ?, 'm', '7', 1)`, testGate, testHost); err != nil {
			return err
		}
		if _, err := tx.Exec(`INSERT INTO canary VALUES(1, x'7b7d')`); err != nil {
			return err
		}
		if err := journal.AddBackup(tx, "00", time.Unix(1, 0)); err != nil {
			return err
		}
		return c.gate.Append(tx, audit.Entry{Kind: audit.Started, By: "gate", Schema: fsck.IncidentsSchema}, audit.Entry{Kind: audit.Keyed, By: "gate", Parts: audit.Parts{HeadKey: key.Public}})
	}))
	c.people()
	f := floorOf(c.world)
	f.agentsAtWork()
	c.steps()
	sound(t, c.path)
	require.NoError(t, c.store.Close())
	return c.path
}

// people has people sign, prove, reject and wait.
func (c crowd) people() {
	c.approve(c.destroy("a"))
	b := c.destroy("b")
	c.send(b, c.certified(c.carol, "carol@example.com", c.request(b).Payload), c.by(c.frank, c.request(b).Payload))
	r := c.rotation(c.dave.Line("dave", asOperator), c.erin.Line("erin", asOperator))
	p := c.request(r).Payload
	c.approve(r)
	c.send(r, c.by(c.dave, p), c.by(c.erin, p))
	c.offline("c")
	d := c.destroy("d")
	c.send(d, c.by(c.bob, c.request(d).Payload))
	c.reject(d)
	c.broken("k")
	c.pass(2 * time.Minute)
	c.run()
	c.review()
	c.broken("l")
	for _, set := range []string{"web", "db"} {
		must.Get(c.gate.PutSet(c.t.Context(), hub, set, "", []byte("guests: {} # "+set)))(c.t)
	}
}

func (f *floor) agentsAtWork() {
	builder := f.register(hub, "builder", false)
	tester := f.register(other, "tester", true)
	f.reserve(builder, nil, "src/**", "a.go")
	f.reserve(builder, kept, "b.go")
	f.reserve(tester, shared, "docs/**")
	f.reserve(hub, nil, "c.go")
	j := f.submit(hub, op.Ask{Op: op.ReleaseAll, Target: op.Target{Kind: op.KindScope, Name: "s1"}, Params: op.Params{}})
	f.approve(j.Steps[0].ID)
	f.run()
	require.Equal(f.t, op.StateSucceeded, f.job(j.ID).State())
	f.reserve(builder, nil, "src/**", "a.go")
	f.reserve(tester, shared, "docs/**")
	f.reserve(hub, kept, "c.go")
}

// steps runs some steps, lets one fail, takes one back and ends a scratch status.
func (c crowd) steps() {
	c.prints = "done\n"
	c.do(ask("guest.create", "tmp", "scratch", true), ask("guest.create", "db", "memory", int64(256)))
	c.prints = ""
	c.do(ask("guest.snapshot", "db", "snapshot", "s1"))
	require.NoError(c.t, c.gate.Adopt(c.t.Context(), "set", c.guests["tmp"]))
	j := c.submit(hub, ask("guest.create", "e"), ask("guest.create", "f"))
	c.execute(j.Steps[0].ID)
	c.fail = errors.New("the disk broke")
	c.run()
	for i, asks := range [][]op.Ask{{ask("guest.set-config", "db", "memory", int64(512))}, {ask("guest.no-such", "db")}} {
		_, _ = c.gate.Submit(c.t.Context(), op.Submission{Requester: hub, Steps: asks, Reason: "keyed", IdempotencyKey: fmt.Sprint("key", i)})
	}
}

// cell is one column of one row.
type cell struct {
	table, column, kind string
	row                 int // in the order of the table
}

// ofArchives are the tables that have no rows before something is archived. TestEachRowThatArchivingKeepsOrWrites (internal/host/retention) changes these.
const ofArchives = `'segments', 'archived_jobs', 'archived_runs', 'closed_steps', 'audit_bound', 'audit_leaves', 'audit_kept', 'archiving'`

// cells returns every column of up to n rows of each table.
func cells(t *testing.T, path string, n int) (out []cell) {
	db := must.Get(sql.Open("sqlite", "file:"+path))(t)
	defer db.Close()
	rows := must.Get(db.Query(`SELECT m.name, c.name, c.type FROM sqlite_schema m JOIN pragma_table_info(m.name) c
		WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' AND m.name NOT IN (` + ofArchives + `) ORDER BY m.name, c.cid`))(t)
	var columns []cell
	for rows.Next() {
		var c cell
		require.NoError(t, rows.Scan(&c.table, &c.column, &c.kind))
		columns = append(columns, c)
	}
	require.NoError(t, rows.Err())
	random := rand.New(rand.NewPCG(5, uint64(len(columns))))
	for _, c := range columns {
		var count int
		require.NoError(t, db.QueryRow(`SELECT count(*) FROM "`+c.table+`"`).Scan(&count))
		require.Positive(t, count, "the world has no row in %s", c.table)
		picked := random.Perm(count)
		if !slices.Contains([]string{"nonces", "incarnations", "showings"}, c.table) { // take all: their order is random, and few are scratch
			picked = picked[:min(n, count)]
		}
		for _, c.row = range picked {
			out = append(out, c)
		}
	}
	return out
}

// change changes one cell as any program with the file can. If the database does not
// allow that, ok is false.
func (c cell) change(t *testing.T, path string) (changed string, ok bool) {
	changed = copied(t, path)
	db := must.Get(sql.Open("sqlite", "file:"+changed))(t)
	db.SetMaxOpenConns(1)
	must.Get(db.Exec(`PRAGMA ignore_check_constraints = 1; PRAGMA synchronous = OFF`))(t)
	keys := primary(t, db, c.table)
	to := map[string]string{"INTEGER": `"%s" + 1`, "TEXT": `"%s" || 'x'`, "BLOB": `CAST("%s" || x'78' AS BLOB)`}[c.kind]
	require.NotEmpty(t, to, "%+v", c)
	set := fmt.Sprintf(`"%s" = `+to, c.column, c.column)
	_, err := db.Exec(fmt.Sprintf(`UPDATE "%s" SET %s WHERE (%s) = (SELECT %s FROM "%s" ORDER BY %s LIMIT 1 OFFSET %d)`,
		c.table, set, keys, keys, c.table, keys, c.row))
	require.NoError(t, db.Close())
	return changed, err == nil
}

// primary returns the columns that identify the rows of a table.
func primary(t *testing.T, db *sql.DB, table string) string {
	rows := must.Get(db.Query(`SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk`, table))(t)
	var names []string
	for rows.Next() {
		var name string
		require.NoError(t, rows.Scan(&name))
		names = append(names, `"`+name+`"`)
	}
	require.NoError(t, rows.Err())
	require.NotEmpty(t, names)
	return strings.Join(names, ", ")
}

// notFound reads the table of docs/formats/fsck.md: the columns in which fsck may
// not notice a change.
func notFound(t *testing.T) (out []string) {
	text := must.Get(os.ReadFile("../../../docs/formats/fsck.md"))(t)
	_, section, ok := strings.Cut(string(text), "\n## What is not found\n")
	require.True(t, ok)
	section, _, _ = strings.Cut(section, "\n## ")
	for _, line := range strings.Split(section, "\n") {
		cells := strings.Split(line, " | ")
		if !strings.HasPrefix(line, "| `") || len(cells) != 3 {
			continue
		}
		table := strings.Trim(cells[0], "|` ")
		for _, column := range strings.Fields(strings.ReplaceAll(cells[1], "`", "")) {
			out = append(out, table+"."+column)
		}
	}
	require.NotEmpty(t, out)
	return out
}

// TestOneCellChanged changes single cells of a sound database. What is not found
// is in docs/formats/fsck.md with the reason, and nothing else is: a column that
// is new has to be bound, or to be added there.
func TestOneCellChanged(t *testing.T) {
	t.Parallel()
	path := everything(t)
	missed, tried := map[string]bool{}, map[string]bool{}
	for _, c := range cells(t, path, 3) {
		name := c.table + "." + c.column
		changed, ok := c.change(t, path)
		if !ok {
			continue
		}
		tried[name] = true
		if check(t, changed).Sound {
			missed[name] = true
		}
		require.NoError(t, os.Remove(changed))
	}
	var got []string
	for name := range missed {
		got = append(got, name)
	}
	slices.Sort(got)
	want := notFound(t)
	slices.Sort(want)
	require.Equal(t, strings.Join(want, "\n"), strings.Join(got, "\n"))
	require.Greater(t, len(tried), 120)
}
