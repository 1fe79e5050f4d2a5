// Package glob decides which paths a pattern matches, and whether two patterns
// can match the same path. docs/formats/patterns.md says what patterns mean.
//
// A pattern becomes a graph whose edges read the characters of a path (overlap.go).
// Alternatives are branches of it, never expanded. It reads paths alone: what ".",
// "..", empty segments, a trailing slash and "**" mean is settled while it is built
// (segment.go), so that afterwards matching and overlap are walks with exact answers.
//
// The package does no input or output but for [Count], and knows nothing of
// reservations.
package glob
