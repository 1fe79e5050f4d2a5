// Package drivertest is the one suite that every driver passes. It is for tests
// alone. A driver's author fills in a World: the driver over a back end, and the
// hands of somebody else who works on that back end behind the gate's back. Run
// then attacks the driver through a real gate, a real journal and the real
// reconciler. docs/design/driver-conformance.md says what each case is for.
package drivertest
