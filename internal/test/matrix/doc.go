// Package matrix holds the adversarial matrix: one table of attacks, each run
// against the real gate, store, trust and local driver over real files, and
// each refused with its code and with nothing changed. It has tests alone;
// docs/matrix.md says what it covers and what is shown elsewhere.
package matrix
