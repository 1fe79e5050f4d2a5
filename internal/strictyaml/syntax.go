package strictyaml

import (
	"bytes"
	"sort"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxSearch is the size up to which a file is parsed again to find the line
// that broke it, in bytes: a few milliseconds each time.
const maxSearch = 64 << 10

// syntax finds the line of the library's error, which has it in its text alone
// ("yaml: line 3: …") and knows no column.
func (d *doc) syntax(err error) *Error {
	msg, line := splitLine(err)
	// Of what its parser (not its scanner) refuses, the library gives the line
	// before the one in which the surrounding map or list began. People want
	// the line that broke it: the last one of the shortest beginning of the file
	// that is refused for the same reason.
	if strings.HasPrefix(msg, "did not find expected") {
		line++
		if len(d.src) <= maxSearch {
			line = 1 + sort.Search(len(d.lines)-1, func(n int) bool { return d.breaks(n+1, msg) })
		}
	}
	line = max(1, min(line, len(d.lines)))
	for line > 1 && len(bytes.TrimLeft(d.line(line), " ")) == 0 {
		line--
	}
	src := d.line(line)
	return d.fail(line, len(src)-len(bytes.TrimLeft(src, " "))+1, "this is not YAML: "+msg)
}

// breaks reports whether the first n lines alone are refused for that reason.
func (d *doc) breaks(n int, reason string) bool {
	dec := yaml.NewDecoder(bytes.NewReader(d.src[:d.lines[n-1]+len(d.line(n))]))
	for range 2 {
		var node yaml.Node
		if err := dec.Decode(&node); err != nil {
			msg, _ := splitLine(err)
			return msg == reason
		}
	}
	return false
}

func splitLine(err error) (msg string, line int) {
	msg = strings.TrimPrefix(err.Error(), "yaml: ")
	rest, ok := strings.CutPrefix(msg, "line ")
	if !ok {
		return msg, 1
	}
	number, text, ok := strings.Cut(rest, ": ")
	n, err := strconv.Atoi(number)
	if !ok || err != nil {
		return msg, 1
	}
	return text, n
}
