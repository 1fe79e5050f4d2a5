// Package mint makes keys, SSHSIG signatures and certificates for tests: good
// ones as OpenSSH makes them, and ones in which a single field is wrong. No
// program that is installed links it.
//
// A key is a function of its type and its name, and a signature one of its
// inputs, so that a failure can be repeated; a test that wants a key of its own
// gives it a name of its own. There is no clock in here. What cannot work ends
// the test.
package mint

// TB is what of testing.TB this package needs; a *rapid.T is one too.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
}
