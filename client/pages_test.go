package client

import (
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Lists that come in pages are read to their end.
func TestPagesAreFollowed(t *testing.T) {
	page := func(list, field string, names ...string) map[string]string {
		of := func(names ...string) string {
			return `{"` + list + `":[{"` + field + `":"` + strings.Join(names, `"},{"`+field+`":"`) + `"}]`
		}
		return map[string]string{
			"":       of(names[:2]...) + `,"next":"` + names[1] + `"}`,
			names[1]: of(names[2:4]...) + `,"next":"` + names[3] + `"}`,
			names[3]: of(names[4]) + `}`,
		}
	}
	lists := map[string]map[string]string{
		"/v1/requests": page("requests", "id", "j12.1", "j12.2", "j12.3", "j12.4", "j12.5"),
		"/v1/guests":   page("guests", "name", "g1", "g2", "g3", "g4", "g5"),
		"/v1/scopes":   page("scopes", "id", "s1", "s2", "s3", "s4", "s5"),
	}
	path := filepath.Join(t.TempDir(), "s")
	answer(t, path, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, lists[r.URL.Path][r.URL.Query().Get("after")])
	})
	c := open(t, Options{Socket: path})
	rs, err := c.Requests(t.Context(), "")
	require.NoError(t, err)
	var ids []string
	for _, r := range rs {
		ids = append(ids, r.ID)
	}
	require.Equal(t, []string{"j12.1", "j12.2", "j12.3", "j12.4", "j12.5"}, ids)

	gs, err := c.Guests(t.Context())
	require.NoError(t, err)
	require.Len(t, gs, 5)
	require.Equal(t, "g5", gs[4].Name)

	scopes, err := c.Scopes(t.Context())
	require.NoError(t, err)
	require.Len(t, scopes, 5)
}
