// Package op has the nouns that all other packages use: targets, steps, jobs,
// requests, the catalogue of operations, the canonical bytes that an operator signs,
// and the codes of refusals.
//
// It does no input or output and imports no other package of this module.
package op
