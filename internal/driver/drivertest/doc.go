// Package drivertest is the suite that every driver passes. It is only for tests. The author of
// a driver writes a World: the driver over a back end, and functions that change that back end
// without the gate. Run then attacks the driver through a real gate, a real journal and the
// real reconciler. docs/design/driver-conformance.md says what each case is for.
package drivertest
