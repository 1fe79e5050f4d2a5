// Package plant gives the go command a product with faults in it, and copies nothing.
package plant

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
)

// Edit replaces a text that a file of the product has once.
type Edit struct {
	File    string // from the module's root, with slashes
	Was, Is string
}

// Texts returns the files of edits as the edits have them, by their absolute names. top is the module's root. It is an error if a
// file is a test, or has the text not once.
func Texts(top string, edits []Edit) (map[string]string, error) {
	out := map[string]string{}
	for _, e := range edits {
		name, err := filepath.Abs(filepath.Join(top, filepath.FromSlash(e.File)))
		if err != nil {
			return nil, err
		}
		text, known := out[name]
		if !known {
			b, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			text = string(b)
		}
		n := strings.Count(text, e.Was)
		switch {
		case strings.HasSuffix(name, "_test.go"):
			return nil, fmt.Errorf("%s is not the product", e.File)
		case n != 1 || e.Was == e.Is:
			return nil, fmt.Errorf("%s has %q %d times, and a fault changes what is there once", e.File, e.Was, n)
		}
		out[name] = strings.Replace(text, e.Was, e.Is, 1)
	}
	return out, nil
}

// Overlay writes files into dir, and returns the list of them that go build takes as -overlay. texts has them by the absolute names
// that they have in the product. Every user can read them, if dir lets them.
func Overlay(dir string, texts map[string]string) (list string, err error) {
	replace := map[string]string{}
	for name, text := range texts {
		replace[name] = filepath.Join(dir, strconv.Itoa(len(replace))+".go")
		if err := os.WriteFile(replace[name], []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	list = filepath.Join(dir, "overlay.json")
	return list, os.WriteFile(list, b, 0o644)
}
