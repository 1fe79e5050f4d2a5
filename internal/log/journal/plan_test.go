package journal_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/store"
	"gated/internal/test/must"
)

// hot has the functions that run in decisions or in every round, and the index that
// each must use. Ended jobs must not make them slower.
var hot = map[string]string{
	"ReadStep":       "PRIMARY KEY",
	"RejectionAfter": "rejections_wish", "HasRejections": "rejections_caller", "RejectionsOf": "rejections_wish",
	"AddRejection": "rejections_caller", "ForgetRejections": "rejections_age",
	"StepsOf":        "PRIMARY KEY",
	"OpenSteps":      "steps_open",
	"OpenTargets":    "steps_state",
	"Busy":           "steps_open",
	"InState":        "steps_state",
	"PendingOf":      "steps_state",
	"OutOfTime":      "steps_state",
	"Count":          "steps_state",
	"ReadWaiting":    "steps_state",
	"RequestedAt":    "PRIMARY KEY",
	"Rejected":       "steps_rejected",
	"overtake":       "steps_rejected",
	"HasRejected":    "steps_rejected",
	"ForgetRejected": "steps_rejected",
	"Move":           "PRIMARY KEY",
	"Dispatch":       "PRIMARY KEY",
	"Rebind":         "PRIMARY KEY",
	"OthersSince":    "steps_turn",
	"Recall":         "PRIMARY KEY",
	"ForgetKeys":     "idempotency_age",
	"Reasons":        "PRIMARY KEY",
	"IsStorage":      "storage_id",
	"ReadProvenance": "PRIMARY KEY",
	"EndScratch":     "PRIMARY KEY",
	"Finish":         "steps_open",
	"outputs":        "PRIMARY KEY",
}

func TestHotQueriesUseTheirIndexes(t *testing.T) {
	queries := queriesOf(t)
	s := newStore(t)
	for name, index := range hot {
		t.Run(name, func(t *testing.T) {
			require.NotEmpty(t, queries[name], "no query was found in the function")
			for _, query := range queries[name] {
				plan := explain(t, s, query)
				if name != "Finish" { // its job is read by rowid; any index of steps is good
					require.Contains(t, plan, index)
				}
				for _, line := range strings.Split(plan, "\n") {
					scan := strings.HasPrefix(line, "SCAN") && line != "SCAN CONSTANT ROW" && !strings.Contains(line, index)
					require.False(t, scan, "it reads a whole table:\n%s", plan)
				}
			}
		})
	}
}

func explain(t *testing.T, s *store.Store, query string) string {
	var plan []string
	require.NoError(t, s.View(t.Context(), func(tx *store.Tx) error {
		rows, err := tx.Query("EXPLAIN QUERY PLAN "+query, make([]any, strings.Count(query, "?"))...)
		if err != nil {
			return err
		}
		for rows.Next() {
			var id, parent, unused int
			var detail string
			if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
				return err
			}
			plan = append(plan, detail)
		}
		return rows.Err()
	}), query)
	return strings.Join(plan, "\n")
}

// queriesOf reads the SQL of each function from the source, so that the tested query
// is the one that runs.
func queriesOf(t *testing.T) map[string][]string {
	files := must.Get(filepath.Glob("*.go"))(t)
	out, consts := map[string][]string{}, map[string]string{}
	var parsed []*ast.File
	for _, name := range files {
		f := must.Get(parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution))(t)
		parsed = append(parsed, f)
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
				for _, spec := range g.Specs {
					v := spec.(*ast.ValueSpec)
					if text, ok := textOf(v.Values[0], consts); ok {
						consts[v.Names[0].Name] = text
					}
				}
			}
		}
	}
	for _, f := range parsed {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				for _, arg := range call.Args {
					if text, ok := textOf(arg, consts); ok && isQuery(text) {
						out[fn.Name.Name] = append(out[fn.Name.Name], text)
					}
				}
				return true
			})
		}
	}
	return out
}

func isQuery(text string) bool {
	return strings.HasPrefix(text, "SELECT") || strings.HasPrefix(text, "UPDATE") || strings.HasPrefix(text, "DELETE")
}

// textOf evaluates a constant expression of strings.
func textOf(e ast.Expr, consts map[string]string) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.Ident:
		text, ok := consts[e.Name]
		return text, ok
	case *ast.BinaryExpr:
		a, okA := textOf(e.X, consts)
		b, okB := textOf(e.Y, consts)
		return a + b, okA && okB
	}
	return "", false
}

func TestTheIndexTestSeesAScan(t *testing.T) {
	plan := explain(t, newStore(t), `SELECT * FROM steps WHERE detail = ?`)
	require.Contains(t, plan, "SCAN steps", fmt.Sprintf("plan: %s", plan))
}
