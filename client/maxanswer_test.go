package client

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/refusal"
)

// Values are counted before anything is decoded of them.
func TestMaxValues(t *testing.T) {
	const most = 100
	for n, refused := range map[int]bool{(most - 5) / 2: false, (most-5)/2 + 1: true} { // 5 are around the list: {, its name, [, ] and }
		path := filepath.Join(t.TempDir(), "s")
		answer(t, path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", api.ContentType)
			_, _ = w.Write([]byte(`{"requests":[` + strings.TrimSuffix(strings.Repeat("{},", n), ",") + `]}`))
		})
		list, err := open(t, Options{Socket: path, MaxValues: most}).RequestPage(context.Background(), "", 1)
		if refused {
			require.ErrorIs(t, err, refusal.TooComplex)
			require.Empty(t, list.Requests)
		} else {
			require.NoError(t, err)
		}
		list, err = open(t, Options{Socket: path}).RequestPage(context.Background(), "", 1)
		require.NoError(t, err)
		require.Len(t, list.Requests, n)
	}
}

func TestMaxAnswer(t *testing.T) {
	const most = 1000
	for n, refused := range map[int]bool{most: false, most + 1: true} {
		path := filepath.Join(t.TempDir(), "s")
		answer(t, path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", api.ContentType)
			_, _ = w.Write([]byte("{}" + strings.Repeat(" ", n-2)))
		})
		_, err := open(t, Options{Socket: path, MaxAnswer: most}).Status(context.Background())
		if refused {
			require.ErrorIs(t, err, refusal.Oversized)
		} else {
			require.NoError(t, err)
		}
		_, err = open(t, Options{Socket: path}).Status(context.Background())
		require.NoError(t, err)
	}
}

// A refusal has lists, too.
func TestARefusalWithManyValues(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	answer(t, path, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", api.ProblemType)
		w.WriteHeader(http.StatusConflict)
		_, _ = w.Write([]byte(`{"code":"conflict","conflicts":[` + strings.TrimSuffix(strings.Repeat("{},", 100), ",") + `]}`))
	})
	_, err := open(t, Options{Socket: path}).Status(context.Background())
	require.ErrorIs(t, err, refusal.Conflict)
	_, err = open(t, Options{Socket: path, MaxValues: 100}).Status(context.Background())
	require.ErrorIs(t, err, refusal.Internal)
	require.NotErrorAs(t, err, new(*Conflicted))
}
