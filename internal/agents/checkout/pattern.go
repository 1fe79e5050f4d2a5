package checkout

import (
	"path/filepath"
	"slices"
	"strings"

	"gated/client/api"
	"gated/internal/agents/glob"
	"gated/internal/base/refusal"
)

// Pattern returns a pattern relative to a place that matches the files it leads to. It resolves the names before the
// first wildcard as File does, because an edit through a symbolic link edits the link's destination. It returns
// unchanged a relative pattern without links, and one that glob.Parse will refuse. BadParams if the pattern leads out
// of the place; errors of the file system are passed on.
func Pattern(p api.Place, pattern string) (string, error) {
	if len(pattern) > glob.MaxBytes {
		return pattern, nil // no file system can have such a name
	}
	names, rest := spelled(pattern)
	if len(names) == 0 {
		return pattern, nil
	}
	if filepath.IsAbs(pattern) {
		return rooted(p, pattern, "/"+strings.Join(names, "/"), rest)
	}
	if slices.Contains(names, "..") {
		return pattern, nil // the gate refuses it in any case
	}
	path := p.Path + "/" + strings.Join(names, "/")
	real, err := Resolve(path)
	if err != nil {
		return "", err
	}
	if real == filepath.Clean(path) {
		return pattern, nil
	}
	return rooted(p, pattern, path, rest)
}

// rooted resolves the path that a pattern begins with.
func rooted(p api.Place, pattern, path, rest string) (string, error) {
	real, err := Resolve(path)
	if err != nil {
		return "", err
	}
	rel, err := Rel(p, real)
	switch {
	case err != nil:
		return "", outside(p, pattern, real)
	case rel == "." && strings.Trim(rest, "/") == "":
		return "." + rest, nil
	case rel == ".":
		return strings.TrimLeft(rest, "/"), nil
	default:
		return glob.Quote(rel) + rest, nil
	}
}

func outside(p api.Place, pattern, real string) error {
	refused := refusal.New(refusal.BadParams, "%s leads to %s, which is outside the scope %s", pattern, real, p.Path)
	if other, _, err := File(real); err == nil && other.Path != p.Path {
		return refused.WithHint("name its scope: --scope %s", other.Path)
	}
	return refused.WithHint("name a directory around it: --scope DIR")
}

// spelled returns the names before a pattern's first wildcard or alternative, and the rest, which is empty or begins
// with "/".
func spelled(pattern string) (names []string, rest string) {
	rest = pattern
	for rest != "" {
		segment, after, more := strings.Cut(rest, "/")
		name, ok := literal(segment)
		switch {
		case !ok:
			if len(names) > 0 || strings.HasPrefix(pattern, "/") {
				rest = "/" + rest
			}
			return names, rest
		case name != "":
			names = append(names, name)
		}
		if !more {
			return names, ""
		}
		if after == "" {
			return names, "/"
		}
		rest = after
	}
	return names, ""
}

// literal returns the name that a segment spells; false if it spells several.
func literal(segment string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(segment); i++ {
		switch c := segment[i]; {
		case strings.IndexByte("*?[{}", c) >= 0:
			return "", false
		case c == '\\':
			if i++; i == len(segment) {
				return "", false
			}
			b.WriteByte(segment[i])
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), true
}
