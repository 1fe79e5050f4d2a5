package server

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/agents/agent"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
	"gated/internal/test/servicetest"
)

// Two uids that are not the tests' own, and the group that lets them connect.
const (
	mallory = 64321
	carol   = 64322
	callers = 64320
)

// TestMain turns the test binary into a caller of another uid when asked.
func TestMain(m *testing.M) {
	agent.MaybeOrphan()
	if call := os.Getenv("GATED_TEST_CALL"); call != "" {
		os.Exit(callOnce(strings.SplitN(call, "\n", 4)))
	}
	if path := os.Getenv("GATED_TEST_FLOOD"); path != "" {
		os.Exit(floodWith(path))
	}
	os.Exit(m.Run())
}

// callOnce makes one call (socket, method, path, body) and prints the answer's
// body. The exit code says only whether there was an answer.
func callOnce(call []string) int {
	client := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", call[0])
	}}}
	req, err := http.NewRequest(call[1], "http://gated"+call[2], strings.NewReader(call[3]))
	if err != nil {
		return 1
	}
	resp, err := client.Do(req)
	if err != nil {
		_, _ = io.WriteString(os.Stdout, err.Error())
		return 1
	}
	_, err = io.Copy(os.Stdout, resp.Body)
	if err != nil {
		return 1
	}
	return 0
}

// as makes one call as another uid and returns the answer's body.
func (w *world) as(t *testing.T, uid uint32, method, path, body string) ([]byte, error) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Dir = "/"
	// The race detector's own pause at exit would cost a second a call.
	cmd.Env = []string{"GORACE=atexit_sleep_ms=0", "GATED_TEST_CALL=" + strings.Join([]string{w.path, method, path, body}, "\n")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: callers}}
	return cmd.Output()
}

// problemAs makes one call as another uid that has to be refused.
func (w *world) problemAs(t *testing.T, uid uint32, method, path, body string) api.Problem {
	t.Helper()
	b, err := w.as(t, uid, method, path, body)
	require.NoError(t, err, "%s", b)
	var p api.Problem
	require.NoError(t, api.DecodeAnswer(b, &p))
	require.NotEmpty(t, p.Code, "%s %s was let through: %s", method, path, b)
	return p
}

// newest returns the last n entries of the log.
func (w *world) newest(t *testing.T, n int64) []api.Entry {
	t.Helper()
	entries, err := w.Log.Audit(t.Context(), w.Head(t)-n, int(n), pageBytes)
	require.NoError(t, err)
	return entries
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, to call as another uid")
	}
}

func TestSocketModeKeepsOthersOut(t *testing.T) {
	needRoot(t)
	w := start(t, -1, nil)
	out, err := w.as(t, mallory, "GET", "/v1/status", "")
	require.Error(t, err)
	require.Contains(t, string(out), "permission denied")
	require.Zero(t, w.reached())
}

func TestTheKernelSaysWhoCalls(t *testing.T) {
	needRoot(t)
	w := start(t, callers, nil)
	_, err := w.as(t, mallory, "POST", "/v1/jobs", `{"op":"guest.start","target":"guest/web-1","reason":"uid=0"}`)
	require.NoError(t, err)
	job, err := w.Gate.Job(t.Context(), 11)
	require.NoError(t, err)
	by := job.Requesters[0]
	require.Equal(t, op.SourceAPI, by.Source)
	require.Equal(t, uint32(mallory), by.UID)
	require.Greater(t, by.PID, int32(1))
	require.NotEqual(t, int32(os.Getpid()), by.PID)
	require.Empty(t, by.Agent, "a bare uid is nobody's agent")
}

// H13: another uid cancels a job, puts desired state.
func TestH13(t *testing.T) {
	needRoot(t)
	w := start(t, callers, func(c *Config) { c.Operators = []uint32{carol} })
	b, err := w.as(t, carol, "POST", "/v1/jobs", aJob)
	require.NoError(t, err)
	require.Contains(t, string(b), `"id":"j11"`)
	require.Equal(t, refusal.NotAllowed, w.problemAs(t, mallory, "DELETE", "/v1/jobs/j11", "").Code)
	b, err = w.as(t, carol, "DELETE", "/v1/jobs/j11", "")
	require.NoError(t, err)
	require.Contains(t, string(b), `"cancelled"`)

	before := w.reached()
	for _, c := range [][3]string{
		{"PUT", "/v1/desired/web", servicetest.Document}, {"GET", "/v1/desired/web", ""}, {"DELETE", "/v1/desired/web", ""},
		{"GET", "/v1/desired", ""}, {"GET", "/v1/backup", ""}, {"POST", "/v1/canary/14/accept", ""}, {"POST", "/v1/reload", ""},
		{"POST", "/v1/backup/verified", `{"sha256":"` + zeros + `"}`},
	} {
		p := w.problemAs(t, mallory, c[0], c[1], c[2])
		require.Equal(t, refusal.NotAllowed, p.Code, c)
		require.Equal(t, http.StatusForbidden, p.Status)
		require.Contains(t, w.told(), "uid:64321 not_allowed "+c[0]+" "+c[1])
	}
	require.Equal(t, before, w.reached(), "a refused call reached the daemon")
	for _, uid := range []uint32{0, carol} {
		_, err := w.as(t, uid, "PUT", "/v1/desired/web", servicetest.Document)
		require.NoError(t, err)
		require.Equal(t, "uid:"+number(int64(uid)), w.newest(t, 1)[0].By)
	}
	require.Equal(t, before+2, w.reached())
}

func TestSubmitters(t *testing.T) {
	needRoot(t)
	w := start(t, callers, func(c *Config) { c.Submitters = []uint32{carol} })
	require.Equal(t, refusal.NotAllowed, w.problemAs(t, mallory, "POST", "/v1/jobs", aJob).Code)
	require.Zero(t, w.reached())
	for uid, job := range map[uint32]string{0: aJob, carol: strings.Replace(aJob, "start", "stop", 1)} {
		_, err := w.as(t, uid, "POST", "/v1/jobs", job)
		require.NoError(t, err)
		require.Equal(t, "uid:"+number(int64(uid)), w.newest(t, 1)[0].By)
	}
	// Who may not submit may still look, and hand in what an operator signed.
	b, err := w.as(t, mallory, "POST", "/v1/requests/j1.1/approve", filled(t, w.World, "@approve@"))
	require.NoError(t, err)
	require.Contains(t, string(b), `"authorized"`)
	require.Equal(t, "uid:64321", w.newest(t, 1)[0].By)
}

// Who gives up a name is looked at by who knows the names; the server says
// whether it is an operator.
func TestUnregisterSaysWhoIsAnOperator(t *testing.T) {
	needRoot(t)
	w := start(t, callers, func(c *Config) { c.Operators = []uint32{carol} })
	require.Equal(t, refusal.NotHolder, w.problemAs(t, mallory, "DELETE", "/v1/agents/builder", "").Code)
	b, err := w.as(t, carol, "DELETE", "/v1/agents/builder", "")
	require.NoError(t, err)
	require.Contains(t, string(b), `"name":"builder"`)
	require.Equal(t, "uid:64322", w.newest(t, 1)[0].By)
}

// An operator's id for a directory takes nothing from its owner. Any other caller must be able to write there.
func TestOperatorsRegisterDirectoriesOfOthers(t *testing.T) {
	needRoot(t)
	w := start(t, callers, func(c *Config) { c.Operators = []uint32{carol} })
	dir := socketDir(t)
	var st syscall.Stat_t
	require.NoError(t, syscall.Stat(dir, &st))
	body := string(must.Get(api.Encode(api.Place{Path: dir, Device: st.Dev, Inode: st.Ino}))(t))
	require.Equal(t, refusal.NotAllowed, w.problemAs(t, mallory, "POST", "/v1/scopes", body).Code)
	b := must.Get(w.as(t, carol, "POST", "/v1/scopes", body))(t)
	var scope api.Scope
	require.NoError(t, api.DecodeAnswer(b, &scope), "%s", b)
	require.Equal(t, dir, scope.Path)
}

// Benign steps wait for operators who read a payload. A caller that signs nothing keeps no step waiting.
func TestOnlyOperatorsAreShownAPayload(t *testing.T) {
	needRoot(t)
	w := start(t, callers, func(c *Config) { c.Operators = []uint32{carol} })
	for _, c := range []struct {
		uid    uint32
		showed int
	}{{mallory, 0}, {carol, 1}} {
		b := must.Get(w.as(t, c.uid, "GET", "/v1/requests/j1.1/payload", ""))(t)
		require.Equal(t, requestOf(t, w).Payload, b)
		require.Equal(t, c.showed, w.showings(t), "uid %d", c.uid)
	}
}

func TestAnEmptyListOfSubmittersIsNobody(t *testing.T) {
	s := New(Config{UID: 7, SingleUser: true, Submitters: []uint32{}})
	require.True(t, s.submitter(op.Requester{Source: op.SourceAPI, UID: 0}))
	require.True(t, s.submitter(op.Requester{Source: op.SourceAPI, UID: 7}))
	require.False(t, s.submitter(op.Requester{Source: op.SourceAPI, UID: 8}))
	require.True(t, New(Config{}).submitter(op.Requester{Source: op.SourceAPI, UID: 8}))
	require.False(t, s.operator(op.Requester{Source: op.SourceAPI, UID: 8}))
	require.True(t, s.operator(op.Requester{Source: op.SourceAPI, UID: 7}))
}

// TestTheDaemonsUIDIsNoOperator: a guest that broke out may have that uid. Not even
// a list that names it makes it an operator or a submitter.
func TestTheDaemonsUIDIsNoOperator(t *testing.T) {
	needRoot(t)
	w := start(t, callers, func(c *Config) {
		c.UID, c.SingleUser = mallory, false
		c.Operators, c.Submitters = []uint32{mallory, carol}, []uint32{mallory, carol}
	})
	for _, c := range [][3]string{
		{"PUT", "/v1/desired/web", servicetest.Document}, {"GET", "/v1/backup", ""}, {"POST", "/v1/canary/14/accept", ""},
		{"POST", "/v1/backup/verified", `{"sha256":"` + zeros + `"}`},
		{"POST", "/v1/jobs", aJob}, {"POST", "/v1/reload", ""},
	} {
		require.Equal(t, refusal.NotAllowed, w.problemAs(t, mallory, c[0], c[1], c[2]).Code, c)
	}
	require.Zero(t, w.reached(), "a refused call reached the daemon")
	require.Equal(t, refusal.NotHolder, w.problemAs(t, mallory, "DELETE", "/v1/agents/builder", "").Code)
	before := w.reached()
	_, err := w.as(t, carol, "PUT", "/v1/desired/web", servicetest.Document)
	require.NoError(t, err)
	require.Equal(t, before+1, w.reached())
}
