package arch_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
	"gated/internal/test/promise"
)

// traced is what the threat model cites, and what there is to cite.
type traced struct {
	items     []item
	page      string
	tree      fs.FS
	cases     map[string]bool // S01a, P12
	rows      map[string]bool // S01, P12
	elsewhere map[string][]string
	explained []string
	tests     map[string][]string
	skipping  map[string]bool
	model     []string
}

// trace reads the pages of a tree. The files of tests are read apart, because that takes longer.
func trace(t *testing.T, tree fs.FS, files []testFile) traced {
	t.Helper()
	read := func(name string) string { return string(must.Get(fs.ReadFile(tree, name))(t)) }
	c := traced{tree: tree, page: read(threatPage), cases: casesOf(files), rows: map[string]bool{}, elsewhere: elsewhere(t, read(matrixPage)),
		explained: explained(t, read(matrixPage))}
	c.items = append(itemsOf(t, c.page, "Goals", "goal"), itemsOf(t, c.page, "Failure scenarios", "scenario")...)
	c.tests, c.skipping = testsOf(files)
	for id := range c.cases {
		c.rows[id[:3]] = true
	}
	for line := range strings.Lines(read(modelPage)) {
		if strings.HasPrefix(line, "| `") {
			c.model = append(c.model, words(line)[0])
		}
	}
	return c
}

// known says what is wrong with a cited id, or "".
func (c traced) known(id string) string {
	files := c.elsewhere[id]
	for _, name := range files {
		if _, err := fs.Stat(c.tree, name); strings.HasPrefix(name, "internal/") && err != nil {
			return id + " is shown in " + name + ", which is not there"
		}
	}
	if c.cases[id] || c.rows[id] || len(files) > 0 {
		return ""
	}
	return "no table of the matrix runs " + id
}

// runs says what is wrong with a cited test or story, or "".
func (c traced) runs(name string) string {
	if strings.HasSuffix(name, ".txtar") {
		text, err := fs.ReadFile(c.tree, name)
		dir := path.Dir(path.Dir(path.Dir(name)))
		switch {
		case err != nil || !slices.Contains(c.tests["TestStories"], dir):
			return "there is no story " + name
		case skipLine.Match(text):
			return "the story " + name + " can skip itself"
		}
		return ""
	}
	switch {
	case len(c.tests[name]) == 0:
		return "there is no test " + name
	case len(c.tests[name]) > 1:
		return "there are several tests " + name
	case c.skipping[c.tests[name][0]+"."+name]:
		return name + " can skip itself"
	}
	return ""
}

var skipLine = regexp.MustCompile(`(?m)^(\[[^\]]*\] *)*skip\b`)

// The threat model cites, for every goal and scenario, a case of the matrix or a test that go test runs.
func TestTheThreatModelIsTraced(t *testing.T) {
	tree := thisModule(t)
	c := trace(t, tree, testFiles(t, tree))
	for _, problem := range c.problems(t) {
		t.Error(problem)
	}
}

func (c traced) problems(t *testing.T) (out []string) {
	t.Helper()
	for _, name := range tables {
		if !slices.Contains(c.tests[name], matrixDir) || c.skipping[matrixDir+"."+name] {
			out = append(out, matrixDir+" has no "+name+", or it can skip itself")
		}
	}
	for _, i := range c.items {
		if len(i.ids)+len(i.more) == 0 {
			out = append(out, i.name+" cites no case and no test")
		}
		for _, m := range modelCited.FindAllStringSubmatch(strings.Join(strings.Fields(i.text), " "), -1) {
			for _, property := range words(m[1]) {
				if !slices.Contains(c.model, property) {
					out = append(out, i.name+": the model has no property "+property)
				}
			}
		}
	}
	ids, more := citedIn(t, c.page)
	for _, id := range slices.Concat(ids, c.explained) {
		if why := c.known(id); why != "" {
			out = append(out, why)
		}
	}
	for _, name := range more {
		if why := c.runs(name); why != "" {
			out = append(out, why)
		}
	}
	return append(out, c.uncited(ids)...)
}

// uncited returns the cases that neither page says anything about.
func (c traced) uncited(ids []string) (out []string) {
	all := map[string]bool{}
	for _, id := range slices.Concat(ids, c.explained) {
		all[id] = true
	}
	for _, id := range slices.Sorted(maps.Keys(c.cases)) {
		if !all[id] && !all[id[:3]] {
			out = append(out, id+": "+threatPage+" does not cite it, and "+matrixPage+" does not say what it stands for")
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.elsewhere)) {
		if !all[id] {
			out = append(out, id+": "+threatPage+" does not cite it")
		}
	}
	return out
}

// Every promise is one of an item that cites what asserts it.
func TestEveryPromiseIsCited(t *testing.T) {
	tree := thisModule(t)
	c := trace(t, tree, testFiles(t, tree))
	items := map[string]item{}
	for _, i := range c.items {
		items[i.name] = i
	}
	seen := map[string]bool{}
	for _, p := range promise.All() {
		i, ok := items[p.Of]
		require.True(t, ok, "%s: there is no %s", p.Says, p.Of)
		require.False(t, seen[p.Says], "%s is there twice", p.Says)
		seen[p.Says] = true
		require.NotEmpty(t, p.By, p.Says)
		for _, by := range p.By {
			if promise.IsCase(by) {
				assert.Empty(t, c.known(by), p.Says)
				assert.True(t, slices.Contains(i.ids, by) || slices.Contains(i.ids, by[:3]), "%s does not cite %s", p.Of, by)
			} else {
				assert.Empty(t, c.runs(by), p.Says)
				assert.Contains(t, i.more, by, p.Of)
			}
		}
	}
	require.GreaterOrEqual(t, len(seen), 20)
	for _, i := range c.items {
		if strings.HasPrefix(i.name, "goal ") {
			require.True(t, slices.ContainsFunc(promise.All(), func(p promise.Promise) bool { return p.Of == i.name }), "no promise is of %s", i.name)
		}
	}
}

// edited is a tree of which one page is another.
type edited struct {
	fs.FS
	name, text string
}

func (e edited) ReadFile(name string) ([]byte, error) {
	if name == e.name {
		return []byte(e.text), nil
	}
	return fs.ReadFile(e.FS, name)
}

// TestTracingCanFail gives the check one fault at a time.
func TestTracingCanFail(t *testing.T) {
	tree := thisModule(t)
	files := testFiles(t, tree)
	page := string(must.Get(fs.ReadFile(tree, threatPage))(t))
	more := func(what string) string {
		return strings.Replace(page, "\n\n## What is open\n", "\n"+what+"\n\n## What is open\n", 1)
	}
	next := len(itemsOf(t, page, "Failure scenarios", "scenario")) + 1
	for _, c := range []struct{ name, text, want string }{
		{"a scenario that cites nothing", more(strconv.Itoa(next) + ". **Somebody does it**. It is refused (model: `once`)."), "cites no case and no test"},
		{"a row that is not there", more("[T08]"), "no table of the matrix runs T08"},
		{"a case that is not there", more("[S01z]"), "no table of the matrix runs S01z"},
		{"a range that goes too far", more("[T13a–T13d]"), "no table of the matrix runs T13d"},
		{"a test that is not there", more("(`TestNothingAtAll`)"), "there is no test TestNothingAtAll"},
		{"a test of which there are several", more("(`TestStories`)"), "there are several tests TestStories"},
		{"a test that can skip itself", more("(`TestTheKernelSaysTheSame`)"), "TestTheKernelSaysTheSame can skip itself"},
		{"a story that is not there", more("(`cmd/opsign/testdata/script/nothing.txtar`)"), "there is no story cmd/opsign/testdata/script/nothing.txtar"},
		{"a story that can skip itself", more("(`cmd/opsign/testdata/script/web.txtar`)"), "can skip itself"},
		{"a property that the model has not", strings.Replace(page, "(model: `once`, `spent`", "(model: `never`, `spent`", 1), "the model has no property never"},
		{"a row that is not cited", strings.Replace(page, "[S31a, S31b]", "[S31b]", 1), "S31a: docs/threat-model.md does not cite it"},
	} {
		require.NotEqual(t, page, c.text, c.name)
		problems := trace(t, edited{tree, threatPage, c.text}, files).problems(t)
		require.Len(t, problems, 1, "%s: %v", c.name, problems)
		require.Contains(t, problems[0], c.want, c.name)
	}
}

// TestRowsThatNoTableRuns: an id in the code is none that runs, until a table leads to it.
func TestRowsThatNoTableRuns(t *testing.T) {
	const rows = "package matrix_test\n\nvar lost = []attack{{id: \"Z01\", what: \"it\"}}\n\n" +
		"var found = []attack{{id: \"Z02\", what: \"it\"}, row(\"Z03\", \"it\")}\n\nfunc all() []attack { return found }\n\n" +
		"var names = []string{\"Z04\", \"Z05\"}\n\nfunc TestMatrix(t *testing.T) { _ = all() }\n\nfunc TestOther(t *testing.T) { _, _ = names, lost }\n"
	file := testFile{matrixDir, must.Get(parser.ParseFile(token.NewFileSet(), "x_test.go", rows, parser.ParseComments))(t)}
	require.Equal(t, map[string]bool{"Z02": true, "Z03": true}, casesOf([]testFile{file}))
	require.Empty(t, casesOf([]testFile{{"internal/other", file.syntax}}))
	tagged := must.Get(parser.ParseFile(token.NewFileSet(), "x_test.go", "//go:build soak\n\npackage x\n", parser.ParseComments))(t)
	require.False(t, builds(tagged))
	require.True(t, builds(file.syntax))
}
