package daemon

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/nonce"
)

func TestTheTrashIsKeptWhileTheClockIsNotBelieved(t *testing.T) {
	swept := errors.New("swept")
	sweep := func() error { return swept }
	require.NoError(t, whileTrusted(nonce.Moment{Why: "the clock jumped by 613200h"}, sweep))
	require.ErrorIs(t, whileTrusted(nonce.Moment{Trusted: true}, sweep), swept)
}
