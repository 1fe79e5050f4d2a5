package must_test

import (
	"errors"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// ended notes whether a check ended the test.
type ended bool

func (*ended) Errorf(string, ...any) {}
func (e *ended) FailNow()            { *e = true }

func TestGet(t *testing.T) {
	var e ended
	require.Equal(t, 7, must.Get(strconv.Atoi("7"))(&e))
	require.False(t, bool(e))
	must.Get(strconv.Atoi("seven"))(&e)
	require.True(t, bool(e))
}

func TestTwo(t *testing.T) {
	var e ended
	n, s := must.Two(7, "seven", nil)(&e)
	require.Equal(t, 7, n)
	require.Equal(t, "seven", s)
	require.False(t, bool(e))
	must.Two(7, "seven", strconv.ErrSyntax)(&e)
	require.True(t, bool(e))
}

func TestErr(t *testing.T) {
	var e ended
	require.ErrorIs(t, must.Err(strconv.Atoi("seven"))(&e), strconv.ErrSyntax)
	require.False(t, bool(e))
	must.Err(strconv.Atoi("7"))(&e)
	require.True(t, bool(e))
}

func TestFail(t *testing.T) {
	for text, want := range map[string]bool{"seven": false, "7": true, "99999999999999999999": true} {
		var e ended
		must.Fail(strconv.Atoi(text))(&e, strconv.ErrSyntax)
		require.Equal(t, want, bool(e), text)
	}
	var e ended
	must.Fail(0, errors.ErrUnsupported)(&e, errors.ErrUnsupported)
	require.False(t, bool(e))
}
