package daemon_test

import (
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/test/must"
)

// A stop lets calls finish; who does not want to wait for that sends a second
// signal, which is a kill, and loses nothing either.
func TestASecondSignalEndsTheStop(t *testing.T) {
	buildProgram(t)
	w := newInitialised(t)
	s := w.start()
	request := w.waiting("web")

	conn := must.Get(net.Dial("unix", w.socket))(t)
	defer conn.Close()
	_, err := io.WriteString(conn, "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1000\r\n\r\n")
	require.NoError(t, err)
	line := make([]byte, len("HTTP/1.1 100"))
	must.Get(io.ReadFull(conn, line))(t)
	require.Equal(t, "HTTP/1.1 100", string(line), "the call is under way")

	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	w.said("STOPPING=1")
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	_, log := s.exit()
	status, ok := s.cmd.ProcessState.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	require.True(t, status.Signaled(), log)
	require.Equal(t, syscall.SIGTERM, status.Signal())

	s = w.start()
	require.NoError(t, w.approve(request))
	require.Equal(t, op.StateSucceeded, w.endOf(request).State)
	code, log := s.stop()
	require.Zero(t, code, log)
	w.sound()
}

func TestAStopIsInTheLog(t *testing.T) {
	w := newServing(t)
	require.NotContains(t, w.log.String(), "stopp")
	w.halt()
	text := w.log.String()
	require.Contains(t, text, `level=INFO msg="stopping: `)
	require.Contains(t, text, "deadline=45s")
	require.True(t, strings.HasSuffix(strings.TrimSpace(text), "level=INFO msg=stopped"), text)
}
