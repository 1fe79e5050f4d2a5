package ownlog

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
)

// streamOf is the JOURNAL_STREAM of a file.
func streamOf(t *testing.T, f *os.File) string {
	t.Helper()
	info, err := f.Stat()
	require.NoError(t, err)
	st := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%d:%d", st.Dev, st.Ino)
}

// journalFields reads a datagram of the journal's native protocol (systemd's docs/JOURNAL_NATIVE_PROTOCOL.md).
func journalFields(t *testing.T, b []byte) map[string]string {
	t.Helper()
	out := map[string]string{}
	for len(b) > 0 {
		name, rest, ok := bytes.Cut(b, []byte("\n"))
		require.True(t, ok)
		if k, v, plain := bytes.Cut(name, []byte("=")); plain {
			require.NotContains(t, out, string(k), "a field twice")
			out[string(k)], b = string(v), rest
			continue
		}
		n := binary.LittleEndian.Uint64(rest)
		require.NotContains(t, out, string(name), "a field twice")
		out[string(name)] = string(rest[8 : 8+n])
		require.EqualValues(t, '\n', rest[8+n])
		b = rest[8+n+1:]
	}
	return out
}

// inOwnMounts runs this test again in a mount namespace of its own, where /run is empty. There the test can be the
// journal, whose socket has a fixed path.
func inOwnMounts(t *testing.T) bool {
	t.Helper()
	if os.Getenv("GATED_TEST_OWN_RUN") != "" {
		require.NoError(t, syscall.Mount("tmpfs", "/run", "tmpfs", 0, ""))
		return true
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root, for a mount namespace")
	}
	c := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	c.Env = append(os.Environ(), "GATED_TEST_OWN_RUN=1")
	c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name())
	return false
}

// The journal gets each attribute as a field, and no words of a caller's make another field.
func TestTheJournalsNativeForm(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	require.ErrorContains(t, New(io.Discard, "").Configure(Journal, slog.LevelInfo), journalSocket, "or each line would be lost")
	require.NoError(t, os.MkdirAll("/run/systemd/journal", 0o755))
	journal, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: "/run/systemd/journal/socket", Net: "unixgram"})
	require.NoError(t, err)
	defer journal.Close()
	r, stderr, err := os.Pipe()
	require.NoError(t, err)
	l := New(stderr, streamOf(t, stderr))
	require.NoError(t, l.Configure(Auto, slog.LevelInfo))
	datagram := func() map[string]string {
		b := make([]byte, 64<<10)
		n, _, err := journal.ReadFromUnix(b)
		require.NoError(t, err)
		return journalFields(t, b[:n])
	}
	usual := []string{"MESSAGE", "PRIORITY", "SYSLOG_TIMESTAMP", "SYSLOG_IDENTIFIER", "GATED_KIND", "GATED_ENTRY", "GATED_JOB", "GATED_STEP",
		"GATED_REQUEST", "GATED_OP", "GATED_TARGET", "GATED_REQUESTER", "GATED_CLASS", "GATED_RULE", "GATED_CODE", "GATED_SIGNERS", "GATED_REASON",
		"GATED_DETAIL"}
	for _, words := range hostile {
		Decision(l.Logger(), refused(words))
		f := datagram()
		names := []string{}
		for k := range f {
			names = append(names, k)
		}
		require.ElementsMatch(t, usual, names, "%q", words)
		require.Equal(t, []string{"j1", "j1.1", "6", "refused"}, []string{f["GATED_JOB"], f["GATED_REQUEST"], f["PRIORITY"], f["GATED_KIND"]})
		require.True(t, strings.HasPrefix(f["MESSAGE"], "the gate refused kind=refused entry=7 job=j1 "), f["MESSAGE"])
		require.NotContains(t, f["MESSAGE"], "\n")
		require.Equal(t, op.Shown(cut(words, maxWords)), f["GATED_REASON"])
	}
	l.Logger().With("Part-1", "x\ny").WithGroup("g").Error("broke", "k", "v")
	f := datagram()
	require.Equal(t, []string{"3", `broke Part-1="x\ny" g.k=v`, `"x\ny"`, "v"},
		[]string{f["PRIORITY"], f["MESSAGE"], f["GATED_PART_1"], f["GATED_G_K"]})
	l.Close(t.Context())
	require.NoError(t, stderr.Close())
	rest, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Empty(t, rest, "nothing goes to standard error too")
}
