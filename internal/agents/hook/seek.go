package hook

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"

	"gated/internal/base/refusal"
)

// maxSought is in how many directories a file is looked for.
const maxSought = 2000

// sought returns the files that a product may edit in the place of a relative path that does not exist. It looks for the
// file as the product does, but in directories that git ignores too, and asks about every file that it finds.
func (f form) sought(c rawCall, named []string) ([]string, error) {
	bases, err := f.bases(c)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, path := range named {
		if filepath.IsAbs(path) || path == "" {
			continue
		}
		for _, dir := range bases {
			if _, missing := os.Stat(filepath.Join(dir, path)); missing == nil {
				continue
			}
			found, wrong := seek(dir, path)
			out = append(out, found...)
			err = cmp.Or(err, wrong)
		}
	}
	return out, err
}

// seek returns the files below a directory whose paths end with a text, the nearest first. It follows no links.
func seek(dir, end string) (out []string, err error) {
	end = strings.ReplaceAll(end, `\`, "/")
	queue := []string{dir}
	for at := 0; at < len(queue); at++ {
		if at == maxSought || len(out) > maxFiles {
			return out, refusal.New(refusal.OverLimit,
				"the call names a file that is not there, and the product would look for it in more than %d directories", maxSought)
		}
		entries, err := os.ReadDir(queue[at])
		if err != nil {
			continue // the product skips it too
		}
		for _, e := range entries {
			path := filepath.Join(queue[at], e.Name())
			switch {
			case e.IsDir() && e.Name() != ".git":
				queue = append(queue, path)
			case e.Type().IsRegular() && e.Name() == filepath.Base(end) && strings.HasSuffix(path, end):
				out = append(out, path)
			}
		}
	}
	return out, nil
}
