package server

import (
	"bufio"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// A read of a wrong form, or of what is not there, changes nothing, so the log has no entry of it. A refused change, a read
// that is not allowed and a read with a body have one.
func TestReadsOfAWrongFormAreNoEntries(t *testing.T) {
	w := start(t, -1, func(c *Config) { c.Operators, c.UID, c.Commands = nil, 1, nil })
	for _, path := range []string{"/v1/nothing", "/v1/jobs/x", "/v1/jobs?limit=none", "/v1/jobs?typo=1", "/v1/commands/drop-db", "/v1/guests/%00"} {
		require.GreaterOrEqual(t, w.do(t, "GET", path, "").status, 400, path)
	}
	conn := w.dial(t) // as opsign's ssh does, to find out whether a gate answers
	_ = must.Get(io.WriteString(conn, "HEAD /v1/status HTTP/1.1\r\nHost: x\r\n\r\n"))(t)
	resp := must.Get(http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: http.MethodHead}))(t)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 405, resp.StatusCode)
	require.Empty(t, w.told())
	require.Equal(t, 404, w.do(t, "DELETE", "/v1/nothing", "").status)
	require.Len(t, w.told(), 1)
	require.Equal(t, 400, w.do(t, "POST", "/v1/jobs", "{").status)
	require.Len(t, w.told(), 2)
	require.Equal(t, 400, w.do(t, "GET", "/v1/jobs", "a body").status)
	require.Len(t, w.told(), 3, "a change can hide in a read with a body")
}
