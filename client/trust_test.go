package client

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// Uids and a group that are not the tests' own.
const (
	mallory = 64321
	victim  = 64322
	group   = 64320
)

// TestMain turns the test binary into a process of another uid when asked.
func TestMain(m *testing.M) {
	if path := os.Getenv("GATED_TEST_SQUAT"); path != "" {
		os.Exit(squat(path))
	}
	if path := os.Getenv("GATED_TEST_STATUS"); path != "" {
		os.Exit(status(path))
	}
	if path := os.Getenv("GATED_TEST_RELAY"); path != "" {
		os.Exit(dialed(path))
	}
	os.Exit(m.Run())
}

// squat listens at path and says so, until its input ends.
func squat(path string) int {
	l, err := net.Listen("unix", path)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("listening")
	_, _ = os.Stdin.Read(make([]byte, 1))
	_ = l.Close()
	return 0
}

// status calls through the client and prints the error.
func status(path string) int {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := New(Options{Socket: path})
	if err == nil {
		_, err = c.Status(ctx)
	}
	fmt.Println(err)
	return 0
}

func helper(uid uint32, what string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Dir = "/"
	cmd.Env = []string{"GORACE=atexit_sleep_ms=0", what}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: group}}
	return cmd
}

// openDir returns a directory in which every uid may make a socket.
func openDir(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, to run as another uid")
	}
	dir := must.Get(os.MkdirTemp("", "gated"))(t)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o777))
	return dir
}

// squatAs lets another uid listen at path until the test ends.
func squatAs(t *testing.T, uid uint32, path string) {
	t.Helper()
	cmd := helper(uid, "GATED_TEST_SQUAT="+path)
	in := must.Get(cmd.StdinPipe())(t)
	out := must.Get(cmd.StdoutPipe())(t)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, in.Close())
		require.NoError(t, cmd.Wait())
	})
	b := make([]byte, 256)
	n := must.Get(out.Read(b))(t)
	require.Equal(t, "listening\n", string(b[:n]))
}

// H12: a fake socket at the default path.
func TestH12AFakeSocket(t *testing.T) {
	path := filepath.Join(openDir(t), "gated.sock")
	squatAs(t, mallory, path)
	gone := unreachable(t, errOf(open(t, Options{System: path}).Status(t.Context())))
	require.ErrorContains(t, gone, "belongs to uid 64321")
	require.ErrorContains(t, gone, "GATED_UID=64321")

	// The owner can be made up by root, the listener cannot.
	require.NoError(t, os.Chown(path, 0, 0))
	gone = unreachable(t, errOf(open(t, Options{System: path}).Status(t.Context())))
	require.ErrorContains(t, gone, "uid 64321 listens")
	require.Regexp(t, `: process [1-9][0-9]* of uid 64321 listens there, who is neither root nor you \(uid 0\); nothing was sent \(`, gone.Error())
	require.ErrorContains(t, gone, path)

	// The other way round: a socket file of mallory's where root listens.
	require.NoError(t, os.Remove(path))
	answer(t, path, says("fake"))
	require.NoError(t, os.Chown(path, mallory, group))
	gone = unreachable(t, errOf(open(t, Options{System: path}).Status(t.Context())))
	require.ErrorContains(t, gone, "belongs to uid 64321")

	c := open(t, Options{System: path, Getenv: env{"GATED_UID": "64321"}.get})
	st := must.Get(c.Status(t.Context()))(t, "GATED_UID names whom to believe")
	require.Equal(t, "fake", st.Host)
}

func TestH12GatedUIDNamesOneMore(t *testing.T) {
	path := filepath.Join(openDir(t), "gated.sock")
	squatAs(t, mallory, path)
	c := open(t, Options{Socket: path, Getenv: env{"GATED_UID": "64321"}.get})
	conn := must.Get(c.dial(t.Context()))(t)
	require.NoError(t, conn.Close())
	c = open(t, Options{Socket: path, Getenv: env{"GATED_UID": "64322"}.get})
	_, err := c.dial(t.Context())
	unreachable(t, err)
}

// The refusal says who answers, who should, and what to do.
func TestH12WhatTheRefusalSays(t *testing.T) {
	c := open(t, Options{Getenv: env{"GATED_UID": "64322"}.get})
	var a *attemptError
	require.ErrorAs(t, c.distrust("the socket belongs to %s", 1), &a)
	require.Regexp(t, `^the socket belongs to uid 1 \([a-z]+\), who is neither root nor you \(uid [0-9]+\) nor GATED_UID=64322; nothing was sent$`, a.Error())
	require.Contains(t, a.hint, "GATED_UID=1;")
	// Whom the kernel has no uid for is nobody to be trusted by that uid.
	require.ErrorAs(t, c.distrust("the socket belongs to %s", nobody), &a)
	require.NotContains(t, a.hint, "set GATED_UID")
	require.Contains(t, a.hint, "user namespace")
}

// Another user's daemon is not believed either, root's and one's own are.
func TestH12AsAnOrdinaryUser(t *testing.T) {
	dir := openDir(t)
	theirs, mine, roots := filepath.Join(dir, "theirs"), filepath.Join(dir, "mine"), filepath.Join(dir, "roots")
	squatAs(t, mallory, theirs)
	squatAs(t, victim, mine)
	answer(t, roots, says("root"))
	for _, path := range []string{theirs, mine, roots} {
		require.NoError(t, os.Chmod(path, 0o777))
	}
	say := func(path string) string {
		out := must.Get(helper(victim, "GATED_TEST_STATUS="+path).Output())(t)
		return string(out)
	}
	require.Contains(t, say(theirs), "belongs to uid 64321")
	require.Contains(t, say(mine), "no answer in time", "talked to, though nothing answers")
	require.Equal(t, "<nil>\n", say(roots))
}

func TestEACCESSaysWhichGroupToJoin(t *testing.T) {
	dir := openDir(t)
	path := filepath.Join(dir, "gated.sock")
	answer(t, path, says("root"))
	asker := uint32(victim)
	say := func() string {
		out := must.Get(helper(asker, "GATED_TEST_STATUS="+path).Output())(t)
		require.Contains(t, string(out), "permission denied")
		require.Contains(t, string(out), path)
		return string(out)
	}
	require.NoError(t, os.Chown(path, 0, 1))
	require.NoError(t, os.Chmod(path, 0o660))
	name := groupName(t, "1")
	require.Contains(t, say(), "join the group "+name)
	asker = 1 // whom the list of users has in that group, and the process is not in it
	require.Contains(t, say(), "this login began before the user was in the group "+name+": log in again")
	asker = victim
	require.NoError(t, os.Chown(path, victim, group)) // a process of that group, which its owner's bits keep out
	require.NoError(t, os.Chmod(path, 0o060))
	require.Contains(t, say(), "this process is in the group "+groupName(t, strconv.Itoa(group))+
		", which may use it: getfacl "+path+" shows what keeps it out")
	require.NoError(t, os.Chown(path, 0, 1))
	require.NoError(t, os.Chmod(path, 0o600))
	require.Contains(t, say(), "only uid 0 may use it")

	// The same where already the directory keeps others out.
	require.NoError(t, os.Chown(dir, 0, 1))
	require.NoError(t, os.Chmod(dir, 0o750))
	require.Contains(t, say(), "join the group "+name)
	require.NoError(t, os.Chmod(dir, 0o700))
	require.Contains(t, say(), "only uid 0 may use it")
}

// groupName reads a group's name as the system has it.
func groupName(t *testing.T, gid string) string {
	t.Helper()
	b := must.Get(os.ReadFile("/etc/group"))(t)
	for line := range strings.Lines(string(b)) {
		if f := strings.Split(line, ":"); len(f) > 2 && f[2] == gid {
			return f[0]
		}
	}
	return gid
}
