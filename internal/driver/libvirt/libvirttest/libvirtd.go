// Package libvirttest starts a real libvirtd for tests, without systemd: in a
// mount namespace of its own, so that no path of the machine's own libvirtd is
// touched, and in a pid namespace, so that nothing of it is left, whatever ends
// the test.
package libvirttest

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Packages are what has to be installed on Debian.
const Packages = "apt-get install libvirt-daemon-system libvirt-daemon-driver-qemu qemu-system-x86 qemu-utils libvirt-clients"

// patience is how long a libvirtd may take until it listens.
const patience = 30 * time.Second

// Libvirtd is a real one, with QEMU's emulation, and a pool "default".
type Libvirtd struct {
	Socket string // read and write
	Images string // the directory of the pool "default"
	URI    string // for virsh and qemu-img's friends

	t   testing.TB
	dir string
	cmd *exec.Cmd
	pid int // of libvirtd itself
}

// inside makes the namespace's own directories and is the parent of all in it.
const inside = `set -e
mount --make-rprivate /
mount --bind "$1/etc" /etc/libvirt
mount --bind "$1/lib" /var/lib/libvirt
mount --bind "$1/cache" /var/cache/libvirt
mount --bind "$1/log" /var/log/libvirt
mount --bind "$1/run" /run
/usr/sbin/libvirtd & wait $!`

// daemonProgram is not in everybody's PATH.
const daemonProgram = "libvirtd"

const daemonConf = `unix_sock_dir = "%DIR%/sock"
unix_sock_rw_perms = "0700"
auth_unix_rw = "none"
auth_unix_ro = "none"
`

// qemuConf: with Debian's own settings every definition takes half a minute where
// there is no systemd.
const qemuConf = `user = "root"
group = "root"
stdio_handler = "file"
namespaces = []
cgroup_controllers = []
security_driver = "none"
`

// Start starts a libvirtd that ends with the test. It skips the test where Debian's
// packages are missing or the user is not root.
func Start(t testing.TB) *Libvirtd {
	t.Helper()
	for _, program := range []string{"virsh", "qemu-img", "qemu-io", "qemu-system-x86_64", "unshare"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is missing: %s", program, Packages)
		}
	}
	if _, err := os.Stat("/usr/sbin/" + daemonProgram); err != nil {
		t.Skipf("%s is missing: %s", daemonProgram, Packages)
	}
	if os.Geteuid() != 0 {
		t.Skip("a libvirtd of its own takes root: sudo -E go test")
	}
	// A socket's path has 107 bytes at most, which a test's directory may exceed.
	dir, err := os.MkdirTemp("", "gated-libvirt-")
	require.NoError(t, err)
	l := &Libvirtd{t: t, dir: dir, Socket: filepath.Join(dir, "sock", "libvirt-sock"), Images: filepath.Join(dir, "images")}
	l.URI = "qemu:///system?socket=" + l.Socket
	for _, sub := range []string{"etc/qemu", "lib/qemu", "cache", "log", "run", "sock", "images"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, sub), 0o700))
	}
	conf := strings.ReplaceAll(daemonConf, "%DIR%", dir)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "etc", "libvirtd.conf"), []byte(conf), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "etc", "qemu.conf"), []byte(qemuConf), 0o600))
	t.Cleanup(func() {
		l.Stop()
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("the directory of libvirtd: %v", err)
		}
	})
	l.Up()
	l.Virsh("pool-define-as", "default", "dir", "--target", l.Images)
	l.Virsh("pool-start", "default")
	l.Virsh("pool-autostart", "default")
	return l
}

// For returns the same libvirtd for a part of the test, which is failed where
// something does not work.
func (l *Libvirtd) For(t testing.TB) *Libvirtd {
	part := *l
	part.t = t
	return &part
}

// Up starts the libvirtd, as it was when it was stopped but for guests that ran.
func (l *Libvirtd) Up() {
	l.t.Helper()
	_ = os.Remove(l.Socket) // of one that was killed
	log, err := os.OpenFile(filepath.Join(l.dir, "libvirtd.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(l.t, err)
	defer func() { _ = log.Close() }()
	l.cmd = exec.Command("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", inside, "sh", l.dir)
	l.cmd.Stdout, l.cmd.Stderr = log, log
	l.cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR=")
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	require.NoError(l.t, l.cmd.Start())
	l.listens(filepath.Join(l.dir, "libvirtd.log"))
}

// listens waits until the socket takes connections, and asks whose it is.
func (l *Libvirtd) listens(log string) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if conn, err := net.Dial("unix", l.Socket); err == nil {
			l.pid = owner(l.t, conn.(*net.UnixConn))
			return
		}
		select {
		case <-ctx.Done():
			said, _ := os.ReadFile(log)
			l.t.Fatalf("libvirtd does not listen: %s", said)
		case <-tick.C:
		}
	}
}

// owner returns the pid of the process that listens, and closes the connection.
func owner(t testing.TB, conn *net.UnixConn) int {
	t.Helper()
	defer func() { _ = conn.Close() }()
	raw, err := conn.SyscallConn()
	require.NoError(t, err)
	var cred *unix.Ucred
	var credErr error
	require.NoError(t, raw.Control(func(fd uintptr) { cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }))
	require.NoError(t, credErr)
	return int(cred.Pid)
}

// Stop ends libvirtd and every guest with it: the kernel ends all processes of the
// namespace. It can be called again.
func (l *Libvirtd) Stop() {
	if l.cmd == nil {
		return
	}
	_ = l.cmd.Process.Kill()
	_ = l.cmd.Wait() // that it was killed is no news
	l.cmd = nil
}

// Freeze makes libvirtd hang, as if it waited for a disk, until thaw is called.
func (l *Libvirtd) Freeze() (thaw func()) {
	l.t.Helper()
	pid := l.pid
	require.NoError(l.t, syscall.Kill(pid, syscall.SIGSTOP))
	thaw = func() { _ = syscall.Kill(pid, syscall.SIGCONT) } // it may have ended
	l.t.Cleanup(thaw)
	return thaw
}

// Virsh runs a command of virsh's and returns what it printed.
func (l *Libvirtd) Virsh(args ...string) string {
	l.t.Helper()
	return l.Run("virsh", append([]string{"-q", "-c", l.URI}, args...)...)
}

// Run runs a program that must not fail, and returns what it printed.
func (l *Libvirtd) Run(program string, args ...string) string {
	l.t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(l.t, err, "%s %s: %s", program, strings.Join(args, " "), stderr.String())
	return strings.TrimSpace(string(out))
}

// Define defines a domain from XML.
func (l *Libvirtd) Define(text string) {
	l.t.Helper()
	file := filepath.Join(l.dir, "domain.xml")
	require.NoError(l.t, os.WriteFile(file, []byte(text), 0o600))
	l.Virsh("define", file)
}
