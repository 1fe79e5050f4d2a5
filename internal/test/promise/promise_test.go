package promise_test

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
	"gated/internal/test/plant"
	"gated/internal/test/promise"
)

var (
	planted  = flag.Bool("planted", false, "plant each fault, and ask that its tests find it and no other case does")
	onePlant = flag.String("plant", "", "only the faults of promises that contain this, or that one of these cases finds")
)

// top is the module's root, from here.
const top = "../../.."

// TestEachFaultCanBePlanted: otherwise the table rots silently while the product changes.
func TestEachFaultCanBePlanted(t *testing.T) {
	all := promise.All()
	ids := casesOf(all)
	for _, p := range all {
		require.NotEmpty(t, p.Faults, p.Says)
		var found []string
		for _, f := range p.Faults {
			require.NotEmpty(t, f.Shows, p.Says)
			require.Subset(t, p.By, finds(p, f), p.Says)
			require.Subset(t, ids, f.Also, p.Says)
			found = append(found, finds(p, f)...)
			for name, text := range edited(t, f) {
				require.NotEmpty(t, withVariants(t, name, string(must.Get(os.ReadFile(name))(t)), map[int]string{1: text}))
			}
		}
		require.Subset(t, found, p.By, "%s: each of these has to find a fault, or asserts nothing that is known", p.Says)
	}
}

// finds returns what has to fail with a fault.
func finds(p promise.Promise, f promise.Fault) []string {
	if f.Finds == nil {
		return p.By
	}
	return f.Finds
}

// casesOf returns the cases of the matrix by which promises are kept.
func casesOf(all []promise.Promise) (ids []string) {
	for _, p := range all {
		for _, by := range p.By {
			if promise.IsCase(by) {
				ids = append(ids, by)
			}
		}
	}
	return ids
}

// edited returns the files of a fault, by their absolute names, as the fault has them.
func edited(t *testing.T, f promise.Fault) map[string]string {
	t.Helper()
	require.NotEmpty(t, f.Edits)
	var edits []plant.Edit
	for _, e := range f.Edits {
		edits = append(edits, plant.Edit(e))
	}
	return must.Get(plant.Texts(top, edits))(t)
}

// place returns the package of what is no case of the matrix, and the pattern that runs it.
func place(t *testing.T, by string) (pkg, run string) {
	t.Helper()
	if story, ok := strings.CutSuffix(by, ".txtar"); ok {
		return filepath.Dir(filepath.Dir(filepath.Dir(by))), "^TestStories$/^" + filepath.Base(story) + "$"
	}
	var dirs []string
	require.NoError(t, fs.WalkDir(os.DirFS(top), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(filepath.Join(top, name))
		if strings.Contains(string(text), "\nfunc "+by+"(t *testing.T) {") {
			dirs = append(dirs, filepath.Dir(name))
		}
		return err
	}))
	require.Len(t, dirs, 1, by)
	return dirs[0], "^" + by + "$"
}
