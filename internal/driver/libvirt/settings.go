package libvirt

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
)

// settings are the parts of an option's value. A dot is before each node further down: "file.filename".
type settings map[string]string

// parseSettings reads parts in either of QEMU's forms: JSON, or key=value with a comma written twice in a value. The first
// part may leave out a key, which is implied. QEMU itself also reads JSON that is none, with apostrophes.
func parseSettings(text, implied string) (settings, error) {
	s := settings{}
	if strings.HasPrefix(text, "{") {
		return s, s.object("", text)
	}
	const comma = "\x00"
	for i, part := range strings.Split(strings.ReplaceAll(text, ",,", comma), ",") {
		key, value, is := strings.Cut(strings.ReplaceAll(part, comma, ","), "=")
		if !is && i == 0 && implied != "" {
			key, value = implied, key
		}
		if err := s.put(key, value); err != nil {
			return s, err
		}
	}
	return s, nil
}

// put adds a part. QEMU takes one of two values of one key, and not always the last.
func (s settings) put(key, value string) error {
	if _, twice := s[key]; twice {
		return fmt.Errorf("says %s twice", key)
	}
	s[key] = value
	return nil
}

// object adds the members of a JSON object to a node.
func (s settings) object(node, text string) error {
	var v map[string]any
	if json.Unmarshal([]byte(text), &v) != nil {
		return errors.New("has JSON that the driver does not read: each string takes quotation marks, and no name may be there twice")
	}
	return s.value(node, v)
}

func (s settings) value(at string, v any) error {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if err := s.value(join(at, name), v[name]); err != nil {
				return err
			}
		}
	case []any:
		for i, v := range v {
			if err := s.value(join(at, strconv.Itoa(i)), v); err != nil {
				return err
			}
		}
	case string:
		return s.put(at, v)
	case bool:
		return s.put(at, choose(v, "on", "off"))
	}
	return nil // a number or null names nothing
}

func join(node, name string) string {
	if node == "" {
		return name
	}
	return node + "." + name
}

// split is the opposite of join.
func split(key string) (node, name string) {
	if i := strings.LastIndexByte(key, '.'); i >= 0 {
		return key[:i], key[i+1:]
	}
	return "", key
}

// reads reports whether a node reads what is in it as raw. -drive says it as format, too.
func (s settings) reads(node string) (raw bool) {
	driver := s[join(node, "driver")]
	if node == "" && s["format"] != "" {
		return s["format"] == formatRaw && (driver == "" || driver == formatRaw)
	}
	return driver == formatRaw
}

// readOnly reports whether the guest only reads it. A node further down says nothing of that.
func (s settings) readOnly() bool { return s["readonly"] == "on" || s["read-only"] == "on" }

// relative reports whether a name is no absolute path. QEMU takes it from a directory that the driver does not know, or from
// the files that QEMU itself has open.
func relative(name string) bool {
	for _, own := range []string{"/dev/fd", "/proc"} {
		if name == own || strings.HasPrefix(filepath.Clean(name), own+"/") || strings.HasPrefix(filepath.Clean(name), own+"set/") {
			return true
		}
	}
	return !filepath.IsAbs(name)
}
