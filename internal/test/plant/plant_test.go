package plant_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
	"gated/internal/test/plant"
)

// A fault is planted where its text is once, and in the product alone.
func TestWhatCanBePlanted(t *testing.T) {
	top := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(top, "a.go"), []byte("one two two"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(top, "a_test.go"), []byte("one"), 0o600))
	texts := must.Get(plant.Texts(top, []plant.Edit{{File: "a.go", Was: "one", Is: "1"}, {File: "a.go", Was: "1 two", Is: "1 2"}}))(t)
	require.Equal(t, map[string]string{filepath.Join(top, "a.go"): "1 2 two"}, texts)
	for _, e := range []plant.Edit{{File: "a.go", Was: "two", Is: "2"}, {File: "a.go", Was: "three", Is: "3"}, {File: "a.go", Was: "one", Is: "one"},
		{File: "a_test.go", Was: "one", Is: "1"}, {File: "none.go", Was: "one", Is: "1"}} {
		_, err := plant.Texts(top, []plant.Edit{e})
		require.Error(t, err, "%v", e)
	}
}

// The go command builds what the overlay says, and the files stay as they are.
func TestAnOverlayIsBuilt(t *testing.T) {
	top, dir := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{"go.mod": "module m\n", "m.go": "package main\n\nfunc main() { println(word) }\n", "word.go": "package main\n\nconst word = \"whole\"\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(top, name), []byte(text), 0o600))
	}
	texts := must.Get(plant.Texts(top, []plant.Edit{{File: "word.go", Was: "whole", Is: "broken"}}))(t)
	list := must.Get(plant.Overlay(dir, texts))(t)
	for says, args := range map[string][]string{"broken\n": {"run", "-overlay", list, "."}, "whole\n": {"run", "."}} {
		run := exec.CommandContext(t.Context(), "go", args...)
		run.Dir = top
		require.Equal(t, says, string(must.Get(run.CombinedOutput())(t)))
	}
}
