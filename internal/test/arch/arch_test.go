package arch_test

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"gated/internal/test/arch"
	"gated/internal/test/must"
)

func thisModule(t *testing.T) fs.FS {
	t.Helper()
	root := os.DirFS("../../..")
	must.Get(fs.Stat(root, "go.mod"))(t)
	return root
}

func TestThisModule(t *testing.T) {
	problems := must.Get(arch.Check(thisModule(t)))(t)
	for _, p := range problems {
		t.Error(p)
	}
}

func TestLinksOfThisModule(t *testing.T) {
	problems := must.Get(arch.CheckLinks(thisModule(t)))(t)
	for _, p := range problems {
		t.Error(p)
	}
}

const table = "# The packages\n\n## Packages\n\n" +
	"| package | its one job | may import | its tests also |\n|---|---|---|---|\n" +
	"| `base/op` | nouns | - | - |\n" +
	"| `base/store` | rows | - | base/op |\n" +
	"| `gate` | decides | base/op base/store | - |\n" +
	"| `driver/local` | acts | base/op gate | - |\n" +
	"| `cmd/gated` | words | base/op | - |\n" +
	"| `client` | calls | client/api | - |\n" +
	"| `client/api` | objects | base/op | - |\n" +
	"| `test/must` | tests everywhere: ends a test | - | - |\n" +
	"| `test/world` | tests alone: a gate | - | - |\n" +
	"\n## Modules\n\n| module | imported by | for |\n|---|---|---|\n" +
	"| `modernc.org/sqlite` | base/store | rows |\n" +
	"| `github.com/stretchr/testify` | - | tests |\n" +
	"| `golang.org/x/crypto` | - | nothing |\n" +
	"| `golang.org/x/crypto/ssh` | gate | keys |\n" +
	"\n## Clocks\n\n| package | why |\n|---|---|\n| `cmd/gated` | wiring |\n"

// sound is a module that keeps every rule.
func sound() fstest.MapFS {
	m := fstest.MapFS{}
	for name, content := range map[string]string{
		arch.TablePath:                         table,
		"internal/base/op/op.go":               "package op\n",
		"internal/base/op/op_test.go":          "package op_test\n\nimport (\n\t_ \"gated/internal/base/op\"\n\t_ \"github.com/stretchr/testify/require\"\n)\n",
		"internal/base/store/store.go":         "package store\n\nimport _ \"modernc.org/sqlite/lib\"\n",
		"internal/base/store/store_test.go":    "package store\n\nimport _ \"gated/internal/base/op\"\n",
		"internal/gate/gate.go":                "package gate\n\nimport (\n\t\"time\"\n\n\t_ \"gated/internal/base/op\"\n\t_ \"golang.org/x/crypto/ssh/agent\"\n)\n\nvar now = time.Now\n",
		"internal/driver/local/local.go":       "package local\n\nimport _ \"gated/internal/gate\"\n",
		"internal/driver/local/local_test.go":  "package local\n\nimport _ \"gated/internal/test/must\"\n",
		"internal/test/must/must.go":           "package must\n",
		"internal/test/world/world.go":         "package world\n\nimport _ \"gated/internal/test/must\"\n",
		"client/client.go":                     "package client\n\nimport _ \"gated/client/api\"\n",
		"client/api/api.go":                    "package api\n\nimport \"gated/internal/base/op\"\n\ntype State = op.State\n\ntype x struct{ s op.State }\n\ntype Y struct{ s op.State }\n\nfunc Z(s State) { _ = op.State(s) }\n",
		"cmd/gated/main.go":                    "package main\n\nimport \"time\"\n\nfunc main() { _ = time.Now() }\n",
		"internal/base/op/testdata/bad/bad.go": "this is no Go",
		"bin/README.md":                        "[nowhere](nowhere.md)",
		"tools/go.mod":                         "module other\n",
		"tools/x/x.go":                         "package x\n\nimport _ \"encoding/json\"\n",
		"internal/gate/opens_test.go":          "package gate\n\nimport \"gated/internal/base/store\"\n\n//fsck:none it holds nothing\nvar _, _ = store.Open(nil)\n\nvar _ = store.Options{}\n",
		"internal/gate/open.go":                "package gate\n\nimport \"gated/internal/base/store\"\n\nvar _, _ = store.Open(nil)\n",
		"internal/base/store/own_test.go":      "package store_test\n\nimport \"gated/internal/base/store\"\n\nvar _, _ = store.Open(nil)\n",
		"internal/gate/moment_test.go":         "package gate\n\nimport \"time\"\n\nvar started = time.Now()\n",
		".hidden/x.go":                         "package x\n\nimport \"C\"\n",
		"internal/driver/local/notes.txt":      "gated/internal/base/store",
		"internal/gate/testdata/corpus/seed":   "",
	} {
		m[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return m
}

func TestASoundModulePasses(t *testing.T) {
	require.Empty(t, must.Get(arch.Check(sound()))(t))
}

// TestEachRuleFails gives the checker one fault at a time.
func TestEachRuleFails(t *testing.T) {
	lines := func(n int) string { return strings.Repeat("// a line\n", n-2) }
	function := func(n int) string { return "package op\n\nfunc f() {\n" + strings.Repeat("\tprintln()\n", n-2) + "}\n" }
	for _, c := range []struct{ name, path, content, want string }{
		{"an arrow the table does not have", "internal/base/op/x.go", "package op\n\nimport _ \"gated/internal/base/store\"\n", "internal/base/op/x.go:3: internal/base/op may not import internal/base/store"},
		{"an arrow of tests in the program", "internal/base/store/x.go", "package store\n\nimport _ \"gated/internal/base/op\"\n", "internal/base/store may not import internal/base/op"},
		{"an arrow that tests do not have either", "internal/base/op/x_test.go", "package op\n\nimport _ \"gated/internal/gate\"\n", "internal/base/op may not import internal/gate"},
		{"an arrow behind a build constraint", "internal/base/op/x.go", "//go:build never\n\npackage op\n\nimport _ \"gated/internal/gate\"\n", "internal/base/op may not import internal/gate"},
		{"a program that imports what is for tests everywhere", "internal/base/op/x.go", "package op\n\nimport _ \"gated/internal/test/must\"\n", "internal/base/op may not import internal/test/must"},
		{"a test that imports what is for tests alone", "internal/base/op/x_test.go", "package op\n\nimport _ \"gated/internal/test/world\"\n", "internal/base/op may not import internal/test/world"},
		{"drivers never import each other", "internal/driver/local/x.go", "package local\n\nimport _ \"gated/internal/driver/other\"\n", "may not import internal/driver/other"},
		{"an unlisted package", "internal/helper/x.go", "package helper\n", "internal/helper is not in"},
		{"an unlisted package with tests alone", "internal/helper/x_test.go", "package helper\n", "internal/helper is not in"},
		{"an unlisted program", "cmd/other/main.go", "package main\n", "cmd/other is not in"},
		{"an arrow of a package that others import", "client/x.go", "package client\n\nimport _ \"gated/internal/gate\"\n", "client may not import internal/gate"},
		{"a type that others cannot name", "client/api/x.go", "package api\n\nimport \"gated/internal/base/op\"\n\ntype X struct{ a, B op.State }\n", "client/api/x.go:5: an exported declaration names op.State"},
		{"one in a result", "client/api/x.go", "package api\n\nimport o \"gated/internal/base/op\"\n\nfunc X() (*[]o.State, error)\n", "names o.State"},
		{"one of a variable", "client/api/x.go", "package api\n\nimport \"gated/internal/base/op\"\n\nvar X map[string]op.State\n", "names op.State"},
		{"one that is embedded", "client/api/x.go", "package api\n\nimport \"gated/internal/base/op\"\n\ntype X struct{ op.State }\n", "names op.State"},
		{"an unlisted package that others could import", "client/other/x.go", "package other\n", "client/other is not in"},
		{"a package at the root", "x.go", "package gated\n", "is not in"},
		{"an unlisted module", "internal/base/op/x.go", "package op\n\nimport _ \"example.org/x\"\n", "example.org/x is of no module"},
		{"a module whose name begins alike", "internal/base/store/x.go", "package store\n\nimport _ \"modernc.org/sqliteother\"\n", "is of no module"},
		{"a module that is another's", "internal/base/op/x.go", "package op\n\nimport _ \"modernc.org/sqlite\"\n", "internal/base/op may not import modernc.org/sqlite"},
		{"the longer prefix decides", "internal/gate/x.go", "package gate\n\nimport _ \"golang.org/x/crypto/sha3\"\n", "internal/gate may not import golang.org/x/crypto/sha3"},
		{"a module for tests", "internal/base/op/x.go", "package op\n\nimport _ \"github.com/stretchr/testify/require\"\n", "may not import github.com/stretchr/testify"},
		{"cgo", "internal/base/op/x.go", "package op\n\nimport \"C\"\n", "cgo"},
		{"encoding/json", "internal/base/op/x.go", "package op\n\nimport _ \"encoding/json\"\n", "encoding/json"},
		{"encoding/json in a test", "internal/base/op/x_test.go", "package op\n\nimport j \"encoding/json\"\n\nvar _ = j.Valid\n", "encoding/json"},
		{"a dot import", "internal/base/op/x.go", "package op\n\nimport . \"time\"\n", "dot import"},
		{"time.Now", "internal/base/op/x.go", "package op\n\nimport \"time\"\n\nvar t = time.Now()\n", "internal/base/op/x.go:5: time.Now"},
		{"time.Now under another name", "internal/base/op/x.go", "package op\n\nimport clock \"time\"\n\nvar t = clock.Now()\n", "time.Now"},
		{"time.Sleep", "cmd/gated/x.go", "package main\n\nimport \"time\"\n\nfunc f() { time.Sleep(1) }\n", "time.Sleep"},
		{"a pattern at the start", "cmd/gated/x.go", "package main\n\nimport \"regexp\"\n\nvar p = regexp.MustCompile(`x`)\n", "use sync.OnceValue"},
		{"time.Sleep in a test", "internal/base/op/x_test.go", "package op\n\nimport \"time\"\n\nfunc f() { time.Sleep(1) }\n", "time.Sleep"},
		{"time.Sleep as a value", "internal/base/op/x.go", "package op\n\nimport \"time\"\n\nvar wait = time.Sleep\n", "time.Sleep"},
		{"a short wait", "internal/base/op/x_test.go", "package op\n\nimport \"time\"\n\nfunc f() { require.Eventually(t, nil, 29*time.Second, time.Second) }\n", "Eventually waits for 29s"},
		{"a wait of one unit", "internal/base/op/x_test.go", "package op\n\nimport clock \"time\"\n\nfunc f() { assert.EventuallyWithT(t, nil, clock.Second, 1) }\n", "EventuallyWithT waits for 1s"},
		{"a short wait by a name", "internal/base/op/x_test.go", "package op\n\nimport \"time\"\n\nconst patience = (time.Millisecond * 2)\n\nfunc f() { require.Eventually(t, nil, patience, 1) }\n", "waits for 2ms"},
		{"a short wait in a select", "internal/base/op/x_test.go", "package op\n\nimport \"time\"\n\nfunc f() {\n\tselect {\n\tcase <-time.After(5 * time.Second):\n\t\tt.Fatal()\n\t}\n}\n", "time.After waits for 5s"},
		{"a short wait at a socket", "internal/base/op/x_test.go", "package op\n\nimport \"time\"\n\nfunc f() { conn.SetReadDeadline(start.Add(5 * time.Second)) }\n", "SetReadDeadline waits for 5s"},
		{"work left behind", "internal/base/op/x.go", "package op\n\n// TO" + "DO: later\n", "internal/base/op/x.go:3: TO" + "DO"},
		{"work left behind in a test", "internal/base/op/x_test.go", "package op\n\n/* FIX" + "ME */\n", "FIX" + "ME"},
		{"a stub", "internal/base/op/x.go", "package op\n\nfunc f() { panic(\"not " + "implemented\") }\n", "not " + "implemented"},
		{"a database that nobody checks", "internal/gate/x_test.go", "package gate\n\nimport \"gated/internal/base/store\"\n\nvar _, _ = store.Open(nil)\n", "internal/gate/x_test.go:5: store.Open in a test"},
		{"one under another name", "internal/gate/x_test.go", "package gate\n\nimport s \"gated/internal/base/store\"\n\nvar _ = s.Open\n", "s.Open in a test"},
		{"one without a reason", "internal/gate/x_test.go", "package gate\n\nimport \"gated/internal/base/store\"\n\n//fsck:none \nvar _, _ = store.Open(nil)\n", "x_test.go:6: store.Open in a test"},
		{"a file too long", "internal/base/op/x.go", "package op\n\n" + lines(601), "601 lines"},
		{"a function too long", "internal/base/op/x.go", function(61), "f has 61 lines"},
	} {
		tree := sound()
		tree[c.path] = &fstest.MapFile{Data: []byte(c.content)}
		problems := must.Get(arch.Check(tree))(t, c.name)
		require.Len(t, problems, 1, "%s: %v", c.name, problems)
		require.Contains(t, problems[0].String(), c.want, c.name)
	}
}

// TestLimitsAtTheLimit: neither limit is off by one, and tests may be longer.
func TestLimitsAtTheLimit(t *testing.T) {
	tree := sound()
	tree["internal/base/op/file.go"] = &fstest.MapFile{Data: []byte("package op\n\n" + strings.Repeat("// a line\n", 598))}
	tree["internal/base/op/func.go"] = &fstest.MapFile{Data: []byte("package op\n\nfunc f() {\n" + strings.Repeat("\tprintln()\n", 58) + "}\n")}
	tree["internal/base/op/long_test.go"] = &fstest.MapFile{Data: []byte("package op\n\nfunc g() {\n" + strings.Repeat("\tprintln()\n", 500) + "}\n")}
	require.Empty(t, must.Get(arch.Check(tree))(t))
}

// TestFoldersInACircle: each package alone imports nothing that imports it, and
// the folders do all the same.
func TestFoldersInACircle(t *testing.T) {
	rows := func(job string) string {
		return "\n## Packages\n\n| `low/a` | first | - | - |\n| `low/b` | " + job + " | high/c | - |\n| `high/c` | third | low/a | - |\n"
	}
	tree := sound()
	for _, name := range []string{"low/a", "low/b", "high/c"} {
		tree["internal/"+name+"/x.go"] = &fstest.MapFile{Data: []byte("package x\n")}
	}
	tree[arch.TablePath] = &fstest.MapFile{Data: []byte(table + rows("second"))}
	problems := must.Get(arch.Check(tree))(t)
	require.Len(t, problems, 2, "%v", problems)
	require.Contains(t, problems[0].What, "a circle of folders: high to low (internal/high/c imports internal/low/a)")
	require.Contains(t, problems[1].What, "a circle of folders: low to high (internal/low/b imports internal/high/c)")
	tree[arch.TablePath] = &fstest.MapFile{Data: []byte(table + rows("tests alone: second"))}
	problems = must.Get(arch.Check(tree))(t)
	require.Empty(t, problems)
}

func TestTheTableTellsNoTales(t *testing.T) {
	for name, extra := range map[string]string{
		"a package":           "\n## Packages\n\n| `ghost` | nothing | - | - |\n",
		"an arrow to nowhere": "\n## Packages\n\n| `cmd/opsign` | words | ghost | - |\n",
		"a module's importer": "\n## Modules\n\n| `example.org/x` | ghost | nothing |\n",
		"a clock":             "\n## Clocks\n\n| `ghost` | none |\n",
	} {
		tree := sound()
		tree[arch.TablePath] = &fstest.MapFile{Data: []byte(table + extra)}
		tree["cmd/opsign/main.go"] = &fstest.MapFile{Data: []byte("package main\n")}
		if name != "an arrow to nowhere" {
			delete(tree, "cmd/opsign/main.go")
		}
		problems := must.Get(arch.Check(tree))(t, name)
		require.Len(t, problems, 1, "%s: %v", name, problems)
		require.Contains(t, problems[0].What, "internal/ghost", name)
	}
}

// TestWhatCannotBeCheckedIsAnError: nothing to look at is not a pass.
func TestWhatCannotBeCheckedIsAnError(t *testing.T) {
	for name, spoil := range map[string]func(fstest.MapFS){
		"no table":       func(m fstest.MapFS) { delete(m, arch.TablePath) },
		"an empty table": func(m fstest.MapFS) { m[arch.TablePath] = &fstest.MapFile{Data: []byte("# Packages\n")} },
		"a row without columns": func(m fstest.MapFS) {
			m[arch.TablePath] = &fstest.MapFile{Data: []byte("## Packages\n\n| `base/op` | - |\n")}
		},
		"a package without job": func(m fstest.MapFS) {
			m[arch.TablePath] = &fstest.MapFile{Data: []byte("## Packages\n\n| `base/op` | | - | - |\n")}
		},
		"a row twice": func(m fstest.MapFS) {
			m[arch.TablePath] = &fstest.MapFile{Data: []byte(table + "\n## Packages\n\n| `base/op` | again | - | - |\n")}
		},
		"a file that is no Go": func(m fstest.MapFS) { m["internal/base/op/x.go"] = &fstest.MapFile{Data: []byte("this is no Go")} },
		"no Go files": func(m fstest.MapFS) {
			for name := range m {
				if strings.HasSuffix(name, ".go") {
					delete(m, name)
				}
			}
		},
	} {
		tree := sound()
		spoil(tree)
		must.Err(arch.Check(tree))(t, name)
	}
}

func TestLinks(t *testing.T) {
	tree := fstest.MapFS{
		"README.md": &fstest.MapFile{Data: []byte("# Read me\n\n[a](docs/a.md) [b](docs/a.md#two-words) [c](#read-me) [d](https://example.org/x) [e](docs)\n" +
			"`[code](nowhere.md)`\n\n```\n[fenced](nowhere.md)\n```\n\n    [indented](nowhere.md)\n")},
		"docs/a.md": &fstest.MapFile{Data: []byte("# A\n\n## Two `words`!\n\n[up](../README.md \"title\") [me](mailto:me@example.org)\n")},
	}
	problems := must.Get(arch.CheckLinks(tree))(t)
	require.Empty(t, problems)

	for link, want := range map[string]string{
		"nowhere.md":      "nowhere.md, which is not there",
		"docs/b.md":       "docs/b.md, which is not there",
		"docs/a.md#three": "a heading of docs/a.md",
		"#nothing":        "a heading of README.md",
		"../outside.md":   "which is not there",
		"/docs/a.md":      "which is not there",
	} {
		tree["README.md"] = &fstest.MapFile{Data: []byte("# Read me\n\nsee [it](" + link + ")\n")}
		problems := must.Get(arch.CheckLinks(tree))(t)
		require.Len(t, problems, 1, link)
		require.Equal(t, 3, problems[0].Line)
		require.Contains(t, problems[0].What, want)
	}

	must.Err(arch.CheckLinks(fstest.MapFS{"a.txt": &fstest.MapFile{}}))(t, "nothing to look at is not a pass")
}

// Each path that CONTRIBUTING.md names in backticks is there.
func TestPathsOfContributing(t *testing.T) {
	tree := thisModule(t)
	page := must.Get(fs.ReadFile(tree, "CONTRIBUTING.md"))(t)
	paths := regexp.MustCompile("`((?:internal|cmd|client|docs|scripts|contrib|examples)/[A-Za-z0-9_./-]+[A-Za-z0-9_-])`").FindAllStringSubmatch(string(page), -1)
	require.Greater(t, len(paths), 30)
	for _, m := range paths {
		must.Get(fs.Stat(tree, m[1]))(t, m[1])
	}
}

func TestAPageWithAMergesMarkerIsFound(t *testing.T) {
	tree := fstest.MapFS{"a.md": &fstest.MapFile{Data: []byte("text\n<<<<<<< HEAD\none\n=======\ntwo\n>>>>>>> main\n")}}
	problems := must.Get(arch.CheckLinks(tree))(t)
	require.Len(t, problems, 2)
	require.Equal(t, 2, problems[0].Line)
}
