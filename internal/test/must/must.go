// Package must ends a test at a call whose error is not the expected one. The test is an argument of its own,
// because Go passes both results of a call on only if they are the only arguments:
//
//	trust := must.Get(authz.LoadTrust(text))(t)
//	must.Fail(g.Approve(ctx, by, id, envelope))(t, refusal.Replayed)
package must

import "github.com/stretchr/testify/require"

// Get returns the first result of a call. It ends the test with the message if the call failed.
func Get[T any](v T, err error) func(t require.TestingT, message ...any) T {
	return func(t require.TestingT, message ...any) T {
		helper(t)
		require.NoError(t, err, message...)
		return v
	}
}

// Two returns the first two results of a call. It ends the test with the message if the call failed.
func Two[T, U any](v T, w U, err error) func(t require.TestingT, message ...any) (T, U) {
	return func(t require.TestingT, message ...any) (T, U) {
		helper(t)
		require.NoError(t, err, message...)
		return v, w
	}
}

// Err returns the error of a call. It ends the test with the message if the call did not fail.
func Err[T any](_ T, err error) func(t require.TestingT, message ...any) error {
	return func(t require.TestingT, message ...any) error {
		helper(t)
		require.Error(t, err, message...)
		return err
	}
}

// Fail ends the test with the message unless the call failed with this error, as errors.Is compares them.
func Fail[T any](_ T, err error) func(t require.TestingT, want error, message ...any) {
	return func(t require.TestingT, want error, message ...any) {
		helper(t)
		require.ErrorIs(t, err, want, message...)
	}
}

// helper lets a failure name the line of the caller. A property under test has no Helper.
func helper(t require.TestingT) {
	if h, ok := t.(interface{ Helper() }); ok {
		h.Helper()
	}
}
