package server

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/client/api"
	"gated/internal/agents/agent"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/servicetest"
)

const aJob = `{"op":"guest.start","target":"guest/db"}`

// be registers the test's own process.
func (w *world) be(t *testing.T, name string) api.Agent {
	t.Helper()
	reaper, err := agent.Reaper(t.Context())
	require.NoError(t, err)
	body, err := api.Encode(api.RegisterAgent{Name: name, PID: os.Getpid(), Reaper: reaper})
	require.NoError(t, err)
	var a api.RegisteredAgent
	w.do(t, "POST", "/v1/agents", string(body)).into(t, 201, &a)
	return a.Agent
}

// Each request is written down under the name of the agent that asks.
func TestEveryRequestSaysWhichAgentAsks(t *testing.T) {
	w := start(t, -1, nil)
	me := w.be(t, "me")
	for _, c := range [][3]string{
		{"POST", "/v1/canary/" + number(servicetest.Alert) + "/accept", ""},
		{"POST", "/v1/jobs", aJob}, {"DELETE", "/v1/jobs/j11", ""}, {"PUT", "/v1/desired/web", servicetest.Document},
		{"POST", "/v1/reservations", goodClaim}, {"DELETE", "/v1/reservations/r3", ""}, {"DELETE", "/v1/jobs/j99", ""},
		{"POST", "/v1/requests/j2.1/reject", filled(t, w.World, "@reject@")}, {"POST", "/v1/ops", filled(t, w.World, "@offline@")},
		{"DELETE", "/v1/desired/web", ""},
	} {
		before := w.Head(t)
		w.do(t, c[0], c[1], c[2])
		require.Greater(t, w.Head(t), before, c)
		e := w.newest(t, 1)[0]
		require.Equal(t, "agent:"+me.ID, e.By, c)
	}
	var list api.ReservationList
	w.do(t, "POST", "/v1/reservations", goodClaim)
	w.do(t, "GET", "/v1/reservations", "").into(t, 200, &list)
	mine := map[bool]int{}
	for _, r := range list.Reservations {
		require.Equal(t, r.Agent == me.Name, r.Mine, r.ID)
		mine[r.Mine]++
	}
	require.Len(t, mine, 2, "some are another's")
	w.do(t, "POST", "/v1/reservations/release-mine", "").into(t, 200, &list)
	require.Len(t, list.Reservations, 1, "not those of the bare uid")
	var x api.Explanation // only an agent may ask for scratch
	w.do(t, "POST", "/v1/classify", `{"op":"guest.create","target":"guest/mine","params":{"scratch":true}}`).into(t, 200, &x)
	require.Equal(t, op.Benign, x.Class)
	var self api.Caller
	w.do(t, "GET", "/v1/agents/self", "").into(t, 200, &self)
	require.Equal(t, uint32(os.Getuid()), self.UID)
	require.Equal(t, me.ID, self.Agent.ID)
	w.do(t, "DELETE", "/v1/nothing", "")
	w.do(t, "PATCH", "/v1/jobs", "")
	w.do(t, "POST", "/v1/jobs", "{")
	by := "agent:" + me.ID
	require.Equal(t, []string{by + " malformed DELETE /v1/nothing", by + " malformed PATCH /v1/jobs",
		by + " malformed POST /v1/jobs"}, w.told())
	w.do(t, "DELETE", "/v1/agents/me", "").into(t, 200, &me)
	require.False(t, me.Alive)
}

// say sends a request on a bare connection and reads its answer.
func say(t *testing.T, w io.Writer, r *bufio.Reader, text string) (status int, body []byte) {
	t.Helper()
	_, err := io.WriteString(w, text)
	require.NoError(t, err)
	resp, err := http.ReadResponse(r, nil)
	require.NoError(t, err)
	body, err = io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, body
}

// A name that ends in the middle of a connection is not gone by any longer, nor
// in the middle of a request.
func TestANameThatEndsBetweenTwoRequests(t *testing.T) {
	w := start(t, -1, nil)
	conn := w.dial(t)
	answers := bufio.NewReader(conn)
	claim := func(pattern string, spaces int) string {
		body := strings.Replace(goodClaim, "c/**", pattern, 1) + strings.Repeat(" ", spaces)
		return "POST /v1/reservations HTTP/1.1\r\nHost: x\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
	}
	holder := func(text string) string {
		status, body := say(t, conn, answers, text)
		require.Equal(t, 201, status, "%s", body)
		var r api.Reservation
		require.NoError(t, api.DecodeAnswer(body, &r))
		return r.Agent
	}
	bare := "uid:" + strconv.Itoa(os.Getuid())
	w.be(t, "me")
	require.Equal(t, "me", holder(claim("c1", 0)))
	w.do(t, "DELETE", "/v1/agents/me", "")
	require.Equal(t, bare, holder(claim("c2", 0)))
	w.be(t, "me")
	text := claim("c3", 2*freeBody)
	_, err := io.WriteString(conn, text[:len(text)-10])
	require.NoError(t, err)
	// Once the body has memory, the caller was identified.
	require.Eventually(t, func() bool { return w.inBodies() > 0 }, time.Minute, time.Millisecond)
	w.do(t, "DELETE", "/v1/agents/me", "")
	require.Equal(t, bare, holder(text[len(text)-10:]))
}

func TestToken(t *testing.T) {
	w := start(t, -1, nil)
	w.be(t, "me")
	var r api.Reservation
	w.do(t, "POST", "/v1/reservations", goodClaim, api.TokenHeader, servicetest.Token()).into(t, 201, &r)
	require.Equal(t, "builder", r.Agent)
	before, good := w.reached(), servicetest.Token()

	p := w.do(t, "DELETE", "/v1/reservations/r1", "", api.TokenHeader, "another").problem(t)
	require.Equal(t, refusal.NotAllowed, p.Code, "it is not taken for its process instead")
	require.Equal(t, http.StatusForbidden, p.Status)
	for _, bad := range [][]string{
		{""}, {good, good}, {good, ""}, {"good Token"}, {good + ","}, {"é"}, {strings.Repeat("x", maxToken+1)},
	} {
		var headers []string
		for _, v := range bad {
			headers = append(headers, api.TokenHeader, v)
		}
		p := w.do(t, "DELETE", "/v1/reservations/r1", "", headers...).problem(t)
		require.Equal(t, refusal.Malformed, p.Code, bad)
		require.NotContains(t, p.Detail, good)
	}
	require.Equal(t, refusal.NotAllowed, w.do(t, "GET", "/v1/status", "", api.TokenHeader, strings.Repeat("x", maxToken)).problem(t).Code)
	require.Equal(t, before, w.reached())
	told := w.told()
	require.Len(t, told, 9)
	require.Contains(t, told[0], "not_allowed DELETE /v1/reservations/r1")
	require.Contains(t, told[0], "uid:", "under no name")
}

// pidfds counts the descriptors of processes that this one holds: one for each caller.
func pidfds(t *testing.T) (n int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, e := range entries {
		if to, _ := os.Readlink("/proc/self/fd/" + e.Name()); strings.Contains(to, "pidfd") {
			n++
		}
	}
	return n
}

// Each connection's caller is let go once, however it ends.
func TestCallersAreClosed(t *testing.T) {
	before := pidfds(t)
	w := start(t, -1, func(c *Config) { c.Limits.Conns, c.Limits.ConnsPerUID = 2, 2 })
	w.do(t, "GET", "/v1/status", "")
	var idle []net.Conn
	for range 8 {
		idle = append(idle, w.dial(t)) // takes the place of another
	}
	w.http.CloseIdleConnections()
	require.Equal(t, 200, w.do(t, "GET", "/v1/status", "").status)
	require.Greater(t, pidfds(t), before)
	require.LessOrEqual(t, pidfds(t), before+10)
	for _, conn := range idle {
		require.NoError(t, conn.Close())
	}
	w.stop()
	require.NoError(t, <-w.ended)
	w.ended <- nil // for the cleanup
	require.Eventually(t, func() bool { return pidfds(t) == before }, time.Minute, time.Millisecond)
}

// With one descriptor left, the connection gets it, and nothing tells which process is at its other end.
func TestACallerThatCannotBeLookedAt(t *testing.T) {
	w := start(t, -1, nil)
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	client := os.NewFile(uintptr(fd), "client")
	defer func() { require.NoError(t, client.Close()) }()
	var was unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &was))
	low := was
	low.Cur = uint64(fd) + 40
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &low))
	defer func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &was)) }()
	var taken []int
	for {
		n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			require.ErrorIs(t, err, unix.EMFILE)
			break
		}
		taken = append(taken, n)
	}
	require.NoError(t, unix.Close(taken[0]))
	require.NoError(t, unix.Connect(fd, &unix.SockaddrUnix{Name: w.path}))
	n, err := unix.Read(fd, make([]byte, 1))
	for _, n := range taken[1:] {
		require.NoError(t, unix.Close(n))
	}
	require.NoError(t, err)
	require.Zero(t, n, "it is closed at once")
}

func TestWithoutAgentsEverybodyIsABareUID(t *testing.T) {
	w := start(t, -1, func(c *Config) { c.Agents = nil })
	w.do(t, "POST", "/v1/jobs", aJob)
	require.Equal(t, "uid:"+strconv.Itoa(os.Getuid()), w.newest(t, 1)[0].By)
	require.Equal(t, refusal.Malformed, w.do(t, "GET", "/v1/status", "", api.TokenHeader, "é").problem(t).Code)
	require.Equal(t, refusal.NotAllowed, w.do(t, "GET", "/v1/status", "", api.TokenHeader, "good").problem(t).Code,
		"a token that nobody knows is a wrong one")
}
