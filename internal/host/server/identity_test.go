package server

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/api"
)

const aJob = `{"op":"guest.start","target":"guest/web-1"}`

// Whoever asks is written down under its name, whatever it asks for.
func TestEveryRequestSaysWhichAgentAsks(t *testing.T) {
	w := start(t, -1, nil)
	w.goBy("builder#7")
	want := op.Requester{Source: op.SourceAPI, UID: uint32(os.Getuid()), PID: int32(os.Getpid()), Agent: "builder#7"}
	w.do(t, "POST", "/v1/jobs", aJob)
	_, sub := w.last()
	require.Equal(t, want, sub.Requester)
	for _, c := range [][3]string{
		{"DELETE", "/v1/jobs/j12"}, {"POST", "/v1/reservations", goodClaim}, {"DELETE", "/v1/reservations/r12"},
		{"POST", "/v1/reservations/release-mine"}, {"GET", "/v1/reservations"}, {"DELETE", "/v1/agents/builder"},
		{"POST", "/v1/classify", aJob}, {"PUT", "/v1/desired/web", "host: h"},
	} {
		w.do(t, c[0], c[1], c[2])
		by, _ := w.last()
		require.Equal(t, want, by, c)
	}
	var self api.Caller
	w.do(t, "GET", "/v1/agents/self", "").into(t, 200, &self)
	require.Equal(t, api.Caller{UID: 7, PID: 8, Why: "builder#7"}, self)
	w.do(t, "GET", "/v1/nothing", "")
	w.do(t, "PATCH", "/v1/jobs", "")
	w.do(t, "POST", "/v1/jobs", "{")
	require.Equal(t, []string{"agent:builder#7 malformed GET /v1/nothing", "agent:builder#7 malformed PATCH /v1/jobs",
		"agent:builder#7 malformed POST /v1/jobs"}, w.told())
}

// say sends a request on a bare connection and reads its answer's status.
func say(t *testing.T, w io.Writer, r *bufio.Reader, text string) int {
	t.Helper()
	_, err := io.WriteString(w, text)
	require.NoError(t, err)
	resp, err := http.ReadResponse(r, nil)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	return resp.StatusCode
}

// A name that ends in the middle of a connection is not gone by any longer, nor
// in the middle of a request.
func TestANameThatEndsBetweenTwoRequests(t *testing.T) {
	w := start(t, -1, nil)
	conn := w.dial(t)
	answers := bufio.NewReader(conn)
	const cancel = "DELETE /v1/reservations/r12 HTTP/1.1\r\nHost: x\r\n\r\n"
	for _, agent := range []string{"builder#7", "", "builder#8"} {
		w.goBy(agent)
		require.Equal(t, 200, say(t, conn, answers, cancel))
		by, _ := w.last()
		require.Equal(t, agent, by.Agent)
	}
	asked := w.asked.Load()
	_, err := io.WriteString(conn, "POST /v1/scopes HTTP/1.1\r\nHost: x\r\nContent-Length: 13\r\n\r\n{\"path\":")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return w.asked.Load() > asked }, 10*time.Second, time.Millisecond)
	w.goBy("")
	require.Equal(t, 200, say(t, conn, answers, `"/a"}`))
	by, _ := w.last()
	require.Empty(t, by.Agent)
}

func TestToken(t *testing.T) {
	w := start(t, -1, nil)
	w.goBy("builder#7")
	w.change(func() { w.tokens = map[string]string{"good-Token_1": "container#9"} })
	require.Equal(t, 200, w.do(t, "DELETE", "/v1/reservations/r12", "", api.TokenHeader, "good-Token_1").status)
	by, _ := w.last()
	require.Equal(t, "container#9", by.Agent)
	reached := len(w.calls())

	p := w.do(t, "DELETE", "/v1/reservations/r12", "", api.TokenHeader, "another").problem(t)
	require.Equal(t, refusal.NotAllowed, p.Code, "it is not taken for its process instead")
	require.Equal(t, http.StatusForbidden, p.Status)
	for _, bad := range [][]string{
		{""}, {"good-Token_1", "good-Token_1"}, {"good-Token_1", ""}, {"good Token"}, {"good-Token_1,"}, {"é"}, {strings.Repeat("x", maxToken+1)},
	} {
		var headers []string
		for _, v := range bad {
			headers = append(headers, api.TokenHeader, v)
		}
		p := w.do(t, "DELETE", "/v1/reservations/r12", "", headers...).problem(t)
		require.Equal(t, refusal.Malformed, p.Code, bad)
		require.NotContains(t, p.Detail, "good")
	}
	require.Equal(t, refusal.NotAllowed, w.do(t, "GET", "/v1/status", "", api.TokenHeader, strings.Repeat("x", maxToken)).problem(t).Code)
	require.Len(t, w.calls(), reached)
	told := w.told()
	require.Len(t, told, 9)
	require.Contains(t, told[0], "not_allowed DELETE /v1/reservations/r12")
	require.Contains(t, told[0], "uid:", "under no name")
}

// Each connection's caller is let go once, however it ends.
func TestCallersAreClosed(t *testing.T) {
	w := start(t, -1, func(c *Config) { c.Limits.Conns, c.Limits.ConnsPerUID = 2, 2 })
	w.do(t, "GET", "/v1/status", "")
	var idle []net.Conn
	for range 8 {
		idle = append(idle, w.dial(t)) // takes the place of another
	}
	w.http.CloseIdleConnections()
	require.Equal(t, 200, w.do(t, "GET", "/v1/status", "").status)
	require.LessOrEqual(t, w.open.Load(), int64(10))
	for _, conn := range idle {
		require.NoError(t, conn.Close())
	}
	w.stop()
	require.NoError(t, <-w.ended)
	w.ended <- nil // for the cleanup
	require.Eventually(t, func() bool { return w.open.Load() == 0 }, 10*time.Second, time.Millisecond)
}

func TestACallerThatCannotBeLookedAt(t *testing.T) {
	w := start(t, -1, nil)
	w.change(func() { w.connects = errors.New("no descriptors") })
	conn := w.dial(t)
	b, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Empty(t, b)
}

func TestWithoutAgentsEverybodyIsABareUID(t *testing.T) {
	w := start(t, -1, func(c *Config) { c.Agents = nil })
	w.do(t, "POST", "/v1/jobs", aJob)
	_, sub := w.last()
	require.Empty(t, sub.Requester.Agent)
	require.Equal(t, refusal.Malformed, w.do(t, "GET", "/v1/status", "", api.TokenHeader, "é").problem(t).Code)
	require.Equal(t, refusal.NotAllowed, w.do(t, "GET", "/v1/status", "", api.TokenHeader, "good").problem(t).Code,
		"a token that nobody knows is a wrong one")
}
