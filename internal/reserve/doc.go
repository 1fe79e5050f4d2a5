// Package reserve keeps agents' claims on paths. What is granted is exact: two
// reservations of different holders never overlap unless both are shared, in
// whichever scopes they were made. docs/design/reservations.md says how.
package reserve
