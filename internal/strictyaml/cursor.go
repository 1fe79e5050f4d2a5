package strictyaml

import "go.yaml.in/yaml/v3"

// cursor remembers the place that was looked at last. The library counts
// columns in characters; counting from the beginning of a line for each of a
// million values on it would never end.
type cursor struct{ line, column, offset int }

// isAt reports whether the source at the place of n begins with s.
func (d *doc) isAt(n *yaml.Node, s string) bool {
	if n.Line < 1 || n.Line > len(d.lines) {
		return false
	}
	if d.cur.line != n.Line || d.cur.column > n.Column {
		d.cur = cursor{line: n.Line, column: 1, offset: d.lines[n.Line-1]}
	}
	for d.cur.column < n.Column && d.cur.offset < len(d.src) {
		d.cur.offset++
		for d.cur.offset < len(d.src) && d.src[d.cur.offset]&0xc0 == 0x80 { // the rest of a character
			d.cur.offset++
		}
		d.cur.column++
	}
	end := d.cur.offset + len(s)
	return end <= len(d.src) && string(d.src[d.cur.offset:end]) == s
}
