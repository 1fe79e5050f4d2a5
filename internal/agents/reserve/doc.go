// Package reserve keeps agents' claims on paths. It grants exactly: two reservations of different holders never overlap
// unless both are shared, whichever scopes they were made in. docs/design/reservations.md says how.
package reserve
