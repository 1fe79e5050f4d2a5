// Package recipes runs each recipe of contrib/recipes against its real program,
// behind a real daemon. It has no code of its own: the stories are in testdata.
package recipes
