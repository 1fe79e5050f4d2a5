package strictyaml

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// checkNode refuses, in the order of the file, everything that could make one
// text mean another value than it shows.
func (d *doc) checkNode(n *yaml.Node, depth int) *Error {
	if depth > MaxDepth {
		e := d.failAt(n, fmt.Sprintf("maps and lists are nested deeper than %d", MaxDepth))
		e.TooLarge = true
		return e
	}
	if err := d.checkPlain(n); err != nil {
		return err
	}
	switch n.Kind {
	case yaml.MappingNode:
		return d.checkMap(n, depth)
	case yaml.SequenceNode:
		for _, c := range n.Content {
			if err := d.checkNode(c, depth+1); err != nil {
				return err
			}
		}
		return nil
	default:
		return d.checkScalar(n)
	}
}

// checkPlain refuses what stands before or in place of a value.
func (d *doc) checkPlain(n *yaml.Node) *Error {
	switch {
	case n.Kind == yaml.AliasNode:
		return d.failAt(n, "an alias: write the value out")
	case n.Anchor != "":
		return d.failAt(n, "an anchor: write the value out where it is meant")
	case n.Style&yaml.TaggedStyle != 0 || d.isAt(n, "!"):
		// The library drops the tag "!", so the source is asked as well.
		return d.failAt(n, "a tag: write the value alone")
	}
	return nil
}

func (d *doc) checkMap(n *yaml.Node, depth int) *Error {
	seen := make(map[string]bool, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if err := d.checkPlain(k); err != nil {
			return err
		}
		switch {
		case k.Kind != yaml.ScalarNode:
			return d.failAt(k, "a key that is a map or a list")
		case k.Tag == "!!merge":
			return d.failAt(k, "a merge: write the keys out")
		case k.Tag == "!!null":
			return d.failAt(k, "an empty key")
		case k.Tag != "!!str":
			return d.failAt(k, fmt.Sprintf("the key %s is not text; put it in quotes", k.Value))
		case seen[k.Value]:
			return d.failAt(k, fmt.Sprintf("the key %s is here twice", k.Value))
		case v.Kind == yaml.ScalarNode && v.Tag == "!!null":
			return d.failAt(k, fmt.Sprintf("%s has no value; leave the key out", k.Value))
		}
		seen[k.Value] = true
		if err := d.checkScalar(k); err != nil {
			return err
		}
		if err := d.checkNode(v, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (d *doc) checkScalar(n *yaml.Node) *Error {
	if n.Tag == "!!null" {
		return d.failAt(n, "an empty value")
	}
	// An escape in quotes can hold what the source itself cannot.
	for _, r := range n.Value {
		if r == '\n' {
			return d.failAt(n, "a text of several lines")
		}
		if unprintable(r) {
			return d.failAt(n, fmt.Sprintf("the character %U does not show as it is", r))
		}
	}
	if n.Style == 0 && strings.Contains(n.Value, " ") && !d.isAt(n, n.Value) {
		// A file that was cut short after the first line would hold another
		// value and still be valid; in quotes it would not be.
		return d.failAt(n, "a text that goes on in the next line; put it in quotes")
	}
	return nil
}
