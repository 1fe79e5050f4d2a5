// Package libvirttest starts a real libvirtd for tests, without systemd. It has its own mount
// namespace, so that it does not touch the files of the machine's libvirtd. It has its own pid
// namespace, so that no process stays after the test.
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

	"gated/internal/test/must"
)

// Packages is the command that installs the needed packages on Debian.
const Packages = "apt-get install libvirt-daemon-system libvirt-daemon-driver-qemu qemu-system-x86 qemu-utils libvirt-clients"

// patience is how long a libvirtd may take to listen.
const patience = 30 * time.Second

// Libvirtd is a real libvirtd with QEMU's emulation and a pool "default".
type Libvirtd struct {
	Socket string // read and write
	Images string // the directory of the pool "default"
	URI    string // for virsh and similar programs

	t   testing.TB
	dir string
	cmd *exec.Cmd
	pid int // of libvirtd itself
}

// inside makes the namespace's own directories. It is the parent of every process in it.
const inside = `set -e
mount --make-rprivate /
mount --bind "$1/etc" /etc/libvirt
mount --bind "$1/lib" /var/lib/libvirt
mount --bind "$1/cache" /var/cache/libvirt
mount --bind "$1/log" /var/log/libvirt
mount --bind "$1/run" /run
/usr/sbin/libvirtd & wait $!`

// daemonProgram is not in every user's PATH.
const daemonProgram = "libvirtd"

const daemonConf = `unix_sock_dir = "%DIR%/sock"
unix_sock_rw_perms = "0700"
auth_unix_rw = "none"
auth_unix_ro = "none"
`

// qemuConf: with Debian's own settings, every definition takes half a minute if there is no
// systemd.
const qemuConf = `user = "root"
group = "root"
stdio_handler = "file"
namespaces = []
cgroup_controllers = []
security_driver = "none"
`

// Start starts a libvirtd that ends with the test. It skips the test if Debian's packages are
// missing or the user is not root.
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
	// A socket's path has at most 107 bytes, and a test's directory may be longer.
	dir := must.Get(os.MkdirTemp("", "gated-libvirt-"))(t)
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

// For returns the same libvirtd for a subtest. A fault then fails that subtest.
func (l *Libvirtd) For(t testing.TB) *Libvirtd {
	part := *l
	part.t = t
	return &part
}

// Up starts the libvirtd with the state that it had when it was stopped. Guests that ran are
// stopped now.
func (l *Libvirtd) Up() {
	l.t.Helper()
	_ = os.Remove(l.Socket) // a killed libvirtd leaves it
	log := must.Get(os.OpenFile(filepath.Join(l.dir, "libvirtd.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))(l.t)
	defer func() { _ = log.Close() }()
	l.cmd = exec.Command("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", inside, "sh", l.dir)
	l.cmd.Stdout, l.cmd.Stderr = log, log
	l.cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR=")
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	require.NoError(l.t, l.cmd.Start())
	l.listens(filepath.Join(l.dir, "libvirtd.log"))
}

// listens waits until the socket accepts connections, and finds the pid of libvirtd.
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
	raw := must.Get(conn.SyscallConn())(t)
	var cred *unix.Ucred
	var credErr error
	require.NoError(t, raw.Control(func(fd uintptr) { cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }))
	require.NoError(t, credErr)
	return int(cred.Pid)
}

// Stop ends libvirtd and every guest, because the kernel ends all processes of the namespace. A
// second call does nothing.
func (l *Libvirtd) Stop() {
	if l.cmd == nil {
		return
	}
	_ = l.cmd.Process.Kill()
	_ = l.cmd.Wait() // Stop killed it, so its error says nothing new
	l.cmd = nil
	// The namespace ends after its first process, and libvirtd may write until then.
	for late := time.After(time.Minute); l.pid > 0 && syscall.Kill(l.pid, 0) == nil; {
		select {
		case <-late:
			return // Start's cleanup says what is left
		case <-time.After(time.Millisecond):
		}
	}
}

// Freeze makes libvirtd hang until thaw is called, as if it waited for a disk.
func (l *Libvirtd) Freeze() (thaw func()) {
	l.t.Helper()
	pid := l.pid
	require.NoError(l.t, syscall.Kill(pid, syscall.SIGSTOP))
	thaw = func() { _ = syscall.Kill(pid, syscall.SIGCONT) } // libvirtd may have ended
	l.t.Cleanup(thaw)
	return thaw
}

// Virsh runs a virsh command and returns its output.
func (l *Libvirtd) Virsh(args ...string) string {
	l.t.Helper()
	return l.Run("virsh", append([]string{"-q", "-c", l.URI}, args...)...)
}

// Run runs a program that must succeed, and returns its output.
func (l *Libvirtd) Run(program string, args ...string) string {
	l.t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Stderr = &stderr
	out := must.Get(cmd.Output())(l.t, "%s %s: %s", program, strings.Join(args, " "), stderr.String())
	return strings.TrimSpace(string(out))
}

// Define defines a domain from XML.
func (l *Libvirtd) Define(text string) {
	l.t.Helper()
	file := filepath.Join(l.dir, "domain.xml")
	require.NoError(l.t, os.WriteFile(file, []byte(text), 0o600))
	l.Virsh("define", file)
}
