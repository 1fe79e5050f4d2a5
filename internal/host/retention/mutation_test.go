package retention_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/tlog"

	"gated/internal/base/store"
	"gated/internal/host/fsck"
	"gated/internal/log/audit"
	"gated/internal/test/must"
)

// written are the tables that archiving alone writes, and of which fsck compares each column.
var written = []string{"segments", "archived_jobs", "archived_runs", "closed_steps", "audit_bound", "audit_leaves", "audit_kept"}

// mutant is a change of one row, and whether a check without the files finds it too.
type mutant struct {
	name, sql string
	blind     bool
}

// archivedRows are the conditions for the rows of a table that archiving wrote or left.
func (w *world) archivedRows(table string) (out []string) {
	w.t.Helper()
	where := "1"
	switch table {
	case "jobs":
		where = "id IN (SELECT t.id FROM jobs t JOIN archived_jobs a ON t.id BETWEEN a.first AND a.last)"
	case "requesters", "steps":
		where = "job IN (SELECT t.id FROM jobs t JOIN archived_jobs a ON t.id BETWEEN a.first AND a.last)"
	case "audit_tree":
		where = "level >= 8 AND n << (level - 8) < (SELECT seq / 256 FROM audit_bound)"
	}
	keys := strings.Join(w.strings(`SELECT name FROM pragma_table_info('`+table+`') WHERE pk > 0 ORDER BY pk`), " || ''' AND ")
	for i, key := range strings.Split(keys, " || ''' AND ") {
		if i == 0 {
			keys = ""
		} else {
			keys += ` || ' AND ' || `
		}
		keys += `'` + key + ` = ' || quote(` + key + `)`
	}
	return w.strings(`SELECT ` + keys + ` FROM ` + table + ` WHERE ` + where)
}

// strings returns the values of one column.
func (w *world) strings(query string) (out []string) {
	w.t.Helper()
	w.view(func(tx *store.Tx) error {
		rows, err := tx.Query(query)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var s string
			if err := rows.Scan(&s); err != nil {
				return err
			}
			out = append(out, s)
		}
		return rows.Err()
	})
	return out
}

// mutants are all of these: each row deleted, and each column of each row changed.
func (w *world) mutants(table string) (out []mutant) {
	w.t.Helper()
	counted := table != "closed_steps"
	for _, row := range w.archivedRows(table) {
		out = append(out, mutant{table + ": " + row + " is gone", `DELETE FROM ` + table + ` WHERE ` + row, counted && table != "audit_leaves"})
		for _, column := range w.strings(`SELECT name || ' ' || type FROM pragma_table_info('` + table + `')`) {
			name, kind, _ := strings.Cut(column, " ")
			change := map[string]string{"INTEGER": name + ` + 1`, "TEXT": name + ` || 'x'`, "BLOB": `CAST(` + name + ` || x'78' AS BLOB)`}[kind]
			out = append(out, mutant{table + ": " + row + " with another " + name, `UPDATE ` + table + ` SET ` + name + ` = ` + change + ` WHERE ` + row, false})
		}
	}
	return out
}

// TestEachRowThatArchivingKeepsOrWrites changes one thing at a time. fsck with the files finds each, but for the time of a segment,
// which decides nothing, and leaf hashes that are gone, which were a help for proofs. Without the files a row that is gone is found.
func TestEachRowThatArchivingKeepsOrWrites(t *testing.T) {
	w := archivedWorld(t)
	require.True(t, w.check(w.older()).Sound)
	require.Equal(t, []string{"segment-missing"}, codes(w.check(nil)))
	var all []mutant
	for _, table := range append([]string{"jobs", "requesters", "steps", "audit_tree"}, written...) {
		some := w.mutants(table)
		require.NotEmpty(t, some, table)
		all = append(all, some...)
	}
	require.Greater(t, len(all), 100)
	for _, m := range all {
		var with, without fsck.Report
		err := w.undone(m.sql, func(tx *store.Tx, n int64) {
			require.EqualValues(t, 1, n, m.name)
			with = must.Get(fsck.Checker{Archive: w.dir, Migrations: w.migrations}.Run(tx))(t)
			if m.blind {
				without = must.Get(fsck.Checker{Migrations: w.migrations}.Run(tx))(t)
			}
		})
		if errors.Is(err, store.ErrConstraint) {
			continue // the database does not allow it
		}
		require.NoError(t, err, m.name)
		unseen := strings.HasSuffix(m.name, "with another at") && strings.HasPrefix(m.name, "segments") ||
			strings.HasPrefix(m.name, "audit_leaves") && strings.HasSuffix(m.name, "gone")
		require.Equal(t, unseen, with.Sound, "%s: %s", m.name, fmt.Sprint(with.Problems))
		if m.blind {
			require.NotEqual(t, []string{"segment-missing"}, codes(without), m.name)
		}
	}
}

// TestAnEntryThatIsKeptAndShouldNot: even a true one of another kind is found, with the files and without.
func TestAnEntryThatIsKeptAndShouldNot(t *testing.T) {
	w := archivedWorld(t)
	row := w.segmentRow(1)
	texts := must.Get(w.older().Texts(row))(t)
	at := slices.IndexFunc(texts, func(text []byte) bool { return !audit.Keeps(text) })
	var path []byte
	hashes := []tlog.Hash{}
	for _, text := range texts[:audit.TileWidth] {
		hashes = append(hashes, tlog.RecordHash(text))
	}
	for i := at; len(hashes) > 1; i /= 2 {
		path = append(path, hashes[i^1][:]...)
		var above []tlog.Hash
		for j := 0; j < len(hashes); j += 2 {
			above = append(above, tlog.NodeHash(hashes[j], hashes[j+1]))
		}
		hashes = above
	}
	w.update(func(tx *store.Tx) error {
		_, err := tx.Exec(`INSERT INTO audit_kept(seq, body, path) VALUES(?, ?, ?)`, at+1, texts[at], path)
		return err
	})
	r := w.check(w.older())
	require.Equal(t, []string{"entry-broken"}, codes(r))
	require.Contains(t, r.Problems[0].Detail, "keeps no entry of its kind")
	require.Contains(t, codes(w.check(nil)), "entry-broken")
	w.breaks(r, fsck.AuditLog)
}

func (w *world) segmentRow(number int64) (s audit.Segment) {
	w.t.Helper()
	w.view(func(tx *store.Tx) (err error) {
		s, err = audit.ReadSegment(tx, number)
		return err
	})
	return s
}
