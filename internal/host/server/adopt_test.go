package server

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// unitSocket makes a socket as a service manager does, with a mode.
func unitSocket(t *testing.T, path string, mode os.FileMode) *os.File {
	t.Helper()
	l := must.Get(net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}))(t)
	l.SetUnlinkOnClose(false)
	require.NoError(t, os.Chmod(path, mode))
	return fileOf(t, l)
}

// fileOf is a listener's descriptor, as it is passed on.
func fileOf(t *testing.T, l interface {
	File() (*os.File, error)
	Close() error
}) *os.File {
	t.Helper()
	f := must.Get(l.File())(t)
	require.NoError(t, l.Close())
	return f
}

func TestAdopt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	unit := unitSocket(t, path, 0o660)
	again := must.Get(dup(unit))(t) // the service manager's own
	for range 2 {
		s := must.Get(Adopt([]*os.File{must.Get(dup(again))(t)}, path))(t)
		require.True(t, s.Adopted())
		require.Equal(t, path, s.Path())
		c := must.Get(net.Dial("unix", path))(t)
		served := must.Get(s.Accept())(t)
		require.NoError(t, errors.Join(c.Close(), served.Close(), s.Close()))
		// A caller that comes while no daemon runs waits for the next one.
		waits := must.Get(net.Dial("unix", path))(t)
		next := must.Get(Adopt([]*os.File{must.Get(dup(again))(t)}, ""))(t)
		served = must.Get(next.Accept())(t)
		require.NoError(t, errors.Join(waits.Close(), served.Close(), next.Close()))
	}
	require.FileExists(t, path, "the socket stays")
	require.NoError(t, errors.Join(unit.Close(), again.Close()))
}

func dup(f *os.File) (*os.File, error) {
	l, err := net.FileListener(f)
	if err != nil {
		return nil, err
	}
	unix := l.(*net.UnixListener)
	unix.SetUnlinkOnClose(false)
	out, err := unix.File()
	return out, errors.Join(err, unix.Close())
}

func TestWhatIsNotAdopted(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	tcp := must.Get(net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}))(t)
	datagram := must.Get(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: in("dgram"), Net: "unixgram"}))(t)
	abstract := must.Get(net.ListenUnix("unix", &net.UnixAddr{Name: "@gated-adopt-test", Net: "unix"}))(t)
	pair := must.Get(net.ListenUnix("unix", &net.UnixAddr{Name: in("pair"), Net: "unix"}))(t)
	client := must.Get(net.DialUnix("unix", nil, &net.UnixAddr{Name: in("pair"), Net: "unix"}))(t)
	open := in("open")
	require.NoError(t, os.Mkdir(open, 0o700))
	require.NoError(t, os.Chmod(open, 0o777))
	sticky := in("sticky")
	require.NoError(t, os.Mkdir(sticky, 0o700))
	require.NoError(t, os.Chmod(sticky, 0o777|os.ModeSticky))
	gone := unitSocket(t, in("gone"), 0o600)
	require.NoError(t, os.Remove(in("gone")))
	swapped := unitSocket(t, in("swapped"), 0o600)
	require.NoError(t, os.Rename(in("swapped"), in("old")))
	require.NoError(t, os.WriteFile(in("swapped"), nil, 0o600))

	for name, c := range map[string]struct {
		fds  []*os.File
		told string
		code refusal.Code
		says string
	}{
		"two":              {[]*os.File{unitSocket(t, in("a"), 0o600), unitSocket(t, in("b"), 0o600)}, "", refusal.BadParams, "passes 2 descriptors"},
		"TCP":              {[]*os.File{fileOf(t, tcp)}, "", refusal.BadParams, "it is not a unix socket"},
		"datagrams":        {[]*os.File{fileOf(t, datagram)}, "", refusal.BadParams, "it is not a stream socket"},
		"a connection":     {[]*os.File{fileOf(t, client)}, "", refusal.BadParams, "it does not listen"},
		"abstract":         {[]*os.File{fileOf(t, abstract)}, "", refusal.BadParams, "it has no absolute path"},
		"a file":           {[]*os.File{must.Get(os.Open(os.DevNull))(t)}, "", refusal.BadParams, "it is not a unix socket"},
		"elsewhere":        {[]*os.File{unitSocket(t, in("e"), 0o600)}, in("told"), refusal.BadParams, "but gated was told"},
		"world-writable":   {[]*os.File{unitSocket(t, in("w"), 0o666)}, in("w"), refusal.NotAllowed, "has mode 0666, and gated takes 0660 at most"},
		"open directory":   {[]*os.File{unitSocket(t, filepath.Join(open, "s"), 0o600)}, "", refusal.NotAllowed, "may be written by others"},
		"sticky directory": {[]*os.File{unitSocket(t, filepath.Join(sticky, "s"), 0o600)}, "", refusal.NotAllowed, "may be written by others"},
		"gone":             {[]*os.File{gone}, "", refusal.Conflict, "is not at"},
		"replaced":         {[]*os.File{swapped}, "", refusal.Conflict, "is not a socket any more"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Adopt(c.fds, c.told)
			require.Nil(t, s)
			require.ErrorIs(t, err, c.code)
			require.ErrorContains(t, err, c.says)
			require.NotEmpty(t, refusal.As(err).Hint)
			for _, f := range c.fds {
				require.ErrorIs(t, f.Close(), os.ErrClosed, "what was refused is closed")
			}
		})
	}
	require.NoError(t, pair.Close())
	if os.Geteuid() == 0 {
		f := unitSocket(t, in("others"), 0o600)
		require.NoError(t, os.Chown(in("others"), 64321, -1))
		_, err := Adopt([]*os.File{f}, "")
		require.ErrorIs(t, err, refusal.NotAllowed)
		require.ErrorContains(t, err, "belongs to uid 64321")
	}
}

// Every mode at the limit and above it.
func TestTheWidestModeOfAnAdoptedSocket(t *testing.T) {
	for mode, ok := range map[os.FileMode]bool{0o600: true, 0o660: true, 0o640: true, 0o661: false, 0o662: false, 0o664: false, 0o760: false, 0o670: false} {
		path := filepath.Join(t.TempDir(), "s")
		s, err := Adopt([]*os.File{unitSocket(t, path, mode)}, path)
		require.Equal(t, ok, err == nil, "%o: %v", mode, err)
		if err == nil {
			require.NoError(t, s.Close())
		}
	}
}
