package glob

// context is what has been read of the segment that a place in a pattern is in.
//
// What a segment means can depend on all of it: "." and nothing are dropped,
// ".." is refused, "**" is any number of segments. At a segment's first character
// the automaton therefore guesses: that the segment is one of those, of which it
// then reads no character of the path (here, dots, stars), or that it is not, and
// begins to read (inside). A wrong guess ends in a dead state, or, for "**" taken
// as two stars, in a part of what "**" matches.
//
// The contexts that read no character also say what the path has so far: nothing,
// and nothing of the pattern either (Bare); nothing, because "**" took none
// (None); or a segment, so that "/" comes before the next (Some).
type context uint8

const (
	begin context = iota // of the pattern

	hereBare // at a segment's first character
	hereNone
	hereSome

	dotBare // the segment was "." so far
	dotNone
	dotSome
	dotDot // the segment was ".." so far

	starNone // the segment was "*" so far
	starSome
	starsNone // the segment was "**" so far
	starsSome

	// The characters of the path's own segment so far, because no path has a
	// segment "", "." or "..", whatever wildcards would match.
	inside       // none
	insideDot    // "."
	insideDotDot // ".."
	insideName   // anything else

	// The same in a segment that "**" takes.
	among
	amongDot
	amongDotDot
	amongName
)

// dropped returns the context after "/" if the segment was dropped.
func (c context) dropped() context {
	switch c {
	case dotBare:
		return hereBare
	case dotNone:
		return hereNone
	case dotSome:
		return hereSome
	}
	return c
}

// afterDot returns the context after "." at a segment's beginning, if the
// segment is to be dropped.
func (c context) afterDot() context {
	switch c {
	case hereNone:
		return dotNone
	case hereSome:
		return dotSome
	}
	return dotBare
}
