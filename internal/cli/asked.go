package cli

import "gated/internal/op"

// maxAsked is how many characters of parameters stand in a line of a list.
const maxAsked = 60

// Asked names a target with what is asked of it: its parameters as they are
// signed, cut where they are long, and nothing where there are none. It is for a
// line of a list (see Inline); what is signed is shown whole elsewhere.
func Asked(target string, p op.Params) string {
	if len(p) == 0 {
		return Inline(target)
	}
	text := []rune(string(p.Canonical()))
	if len(text) > maxAsked {
		text = append(text[:maxAsked:maxAsked], []rune("...")...)
	}
	return Inline(target) + " " + Inline(string(text))
}
