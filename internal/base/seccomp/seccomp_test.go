package seccomp

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// call is the part of a call that a filter sees.
type call struct {
	nr   uint32
	arch uint32
	args [6]uint32
}

// run does what the kernel does with a filter, for the instructions that this package makes.
func run(t *testing.T, filter []unix.SockFilter, c call) uint32 {
	t.Helper()
	var acc uint32
	for pc := 0; pc < len(filter); pc++ {
		i := filter[pc]
		skip := func(yes bool) {
			if yes {
				pc += int(i.Jt)
			} else {
				pc += int(i.Jf)
			}
		}
		switch i.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			switch {
			case i.K == Number:
				acc = c.nr
			case i.K == arch:
				acc = c.arch
			default:
				require.Zero(t, (i.K-16)%8, "the low half of an argument")
				acc = c.args[(i.K-16)/8]
			}
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			acc &= i.K
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			skip(acc == i.K)
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			skip(acc >= i.K)
		case unix.BPF_RET | unix.BPF_K:
			return i.K
		default:
			t.Fatalf("instruction %d has the code %#x", pc, i.Code)
		}
	}
	t.Fatal("the filter has no end")
	return 0
}

func TestWhatTheFilterSays(t *testing.T) {
	if auditArch == 0 {
		t.Skip("TestWhatTheFilterSays needs a filter for " + runtime.GOARCH)
	}
	const allow, noPerm, noCall, noFamily = unix.SECCOMP_RET_ALLOW, unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM),
		unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS), unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)
	for _, c := range []struct {
		what     string
		nr       uint32
		args     [6]uint32
		old, new uint32 // with Landlock 1 or 2, and with the latest
	}{
		{"read", unix.SYS_READ, [6]uint32{}, allow, allow},
		{"execve", unix.SYS_EXECVE, [6]uint32{}, allow, allow},
		{"fchmodat", unix.SYS_FCHMODAT, [6]uint32{}, allow, allow},
		{"ftruncate", unix.SYS_FTRUNCATE, [6]uint32{}, allow, allow},
		{"ptrace", unix.SYS_PTRACE, [6]uint32{}, noPerm, noPerm},
		{"clone3", unix.SYS_CLONE3, [6]uint32{}, noCall, noCall},
		{"io_uring_setup", unix.SYS_IO_URING_SETUP, [6]uint32{}, noCall, noCall},
		{"own limits", unix.SYS_PRLIMIT64, [6]uint32{0, unix.RLIMIT_NOFILE}, allow, allow},
		{"another's limits", unix.SYS_PRLIMIT64, [6]uint32{1, unix.RLIMIT_NOFILE}, noPerm, noPerm},
		{"kill one", unix.SYS_KILL, [6]uint32{7, 9}, allow, allow},
		{"kill the group", unix.SYS_KILL, [6]uint32{0, 9}, allow, allow},
		{"kill all", unix.SYS_KILL, [6]uint32{allBits, 9}, noPerm, noPerm},
		{"a thread", unix.SYS_CLONE, [6]uint32{unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_THREAD}, allow, allow},
		{"a child", unix.SYS_CLONE, [6]uint32{uint32(unix.SIGCHLD)}, allow, allow},
		{"a child that ends with a signal of that bit", unix.SYS_CLONE, [6]uint32{unix.CLONE_NEWTIME}, allow, allow},
		{"a user namespace", unix.SYS_CLONE, [6]uint32{unix.CLONE_NEWUSER | uint32(unix.SIGCHLD)}, noPerm, noPerm},
		{"several", unix.SYS_CLONE, [6]uint32{unix.CLONE_NEWNET | unix.CLONE_NEWPID}, noPerm, noPerm},
		{"unshare files", unix.SYS_UNSHARE, [6]uint32{unix.CLONE_FILES}, allow, allow},
		{"unshare mounts", unix.SYS_UNSHARE, [6]uint32{unix.CLONE_FILES | unix.CLONE_NEWNS}, noPerm, noPerm},
		{"unshare time", unix.SYS_UNSHARE, [6]uint32{unix.CLONE_NEWTIME}, noPerm, noPerm},
		{"tcp", unix.SYS_SOCKET, [6]uint32{unix.AF_INET, unix.SOCK_STREAM}, allow, allow},
		{"tcp6", unix.SYS_SOCKET, [6]uint32{unix.AF_INET6, unix.SOCK_STREAM}, allow, allow},
		{"routes", unix.SYS_SOCKET, [6]uint32{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, allow, allow},
		{"audit", unix.SYS_SOCKET, [6]uint32{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT}, noFamily, noFamily},
		{"unix", unix.SYS_SOCKET, [6]uint32{unix.AF_UNIX, unix.SOCK_STREAM}, noFamily, allow},
		{"a pair", unix.SYS_SOCKETPAIR, [6]uint32{unix.AF_UNIX, unix.SOCK_STREAM}, allow, allow},
		{"vsock", unix.SYS_SOCKET, [6]uint32{unix.AF_VSOCK, unix.SOCK_STREAM}, noFamily, noFamily},
		{"alg", unix.SYS_SOCKET, [6]uint32{unix.AF_ALG, unix.SOCK_SEQPACKET}, noFamily, noFamily},
		{"truncate", unix.SYS_TRUNCATE, [6]uint32{}, noPerm, allow},
		{"open and empty, for writing", unix.SYS_OPENAT, [6]uint32{0, 0, unix.O_WRONLY | unix.O_TRUNC | unix.O_CREAT}, allow, allow},
		{"open and empty, for both", unix.SYS_OPENAT, [6]uint32{0, 0, unix.O_RDWR | unix.O_TRUNC}, allow, allow},
		{"open and empty, for reading", unix.SYS_OPENAT, [6]uint32{0, 0, unix.O_RDONLY | unix.O_TRUNC | unix.O_CLOEXEC}, noPerm, allow},
		{"open and empty, for neither", unix.SYS_OPENAT, [6]uint32{0, 0, unix.O_ACCMODE | unix.O_TRUNC}, noPerm, allow},
		{"open", unix.SYS_OPENAT, [6]uint32{0, 0, unix.O_RDONLY}, allow, allow},
		{"openat2", unix.SYS_OPENAT2, [6]uint32{}, noCall, allow},
		{"typing for others", unix.SYS_IOCTL, [6]uint32{0, tiocsti}, noPerm, noPerm},
		{"a window's size", unix.SYS_IOCTL, [6]uint32{0, unix.TIOCGWINSZ}, allow, allow},
	} {
		for _, abi := range []int{0, 1, LandlockTruncates - 1} {
			require.Equal(t, c.old, run(t, Guest(abi), call{c.nr, auditArch, c.args}), "%s, Landlock %d", c.what, abi)
		}
		require.Equal(t, c.new, run(t, Guest(LandlockConnects), call{c.nr, auditArch, c.args}), c.what)
	}
	between := Guest(LandlockConnects - 1)
	require.Equal(t, uint32(noFamily), run(t, between, call{unix.SYS_SOCKET, auditArch, [6]uint32{unix.AF_UNIX}}))
	require.Equal(t, uint32(allow), run(t, between, call{unix.SYS_TRUNCATE, auditArch, [6]uint32{}}))
	require.Equal(t, uint32(noCall), run(t, between, call{unix.SYS_READ, unix.AUDIT_ARCH_I386, [6]uint32{}}), "another architecture")
	require.LessOrEqual(t, len(Guest(0)), 4096, "BPF_MAXINSNS")
	if runtime.GOARCH == "amd64" {
		require.Equal(t, uint32(noCall), run(t, between, call{0x40000000 + unix.SYS_READ, auditArch, [6]uint32{}}), "x32")
	}
}

// TestTheKernelTakesIt: a program with the filter gets the filter's answers, and a program
// without it gets others.
func TestTheKernelTakesIt(t *testing.T) {
	if !Supported() {
		t.Skip("TestTheKernelTakesIt needs seccomp")
	}
	without, err := exec.Command("/proc/self/exe", "behind", "nothing").CombinedOutput()
	require.NoError(t, err, string(without))
	behind, err := exec.Command("/proc/self/exe", "behind", "filter").CombinedOutput()
	require.NoError(t, err, string(behind))
	require.Equal(t, "unshare 22\nkeyctl 0\nunix 0\ntruncate 0\nclone3 22\nwait: <nil>\n", string(without))
	require.Equal(t, "unshare 1\nkeyctl 1\nunix 97\ntruncate 1\nclone3 38\nwait: <nil>\n", string(behind))
}

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "behind" {
		runtime.LockOSThread()
		if err := behind(os.Args[2] == "filter"); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// behind makes calls that a filter refuses. It also runs a child, which the filter allows.
func behind(filter bool) error {
	file, err := os.CreateTemp("", "seccomp")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	if filter {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return err
		}
		if err := Install(Guest(1)); err != nil {
			return err
		}
	}
	said := &strings.Builder{}
	say := func(what string, err error) {
		errno, _ := err.(unix.Errno)
		fmt.Fprintln(said, what, int(errno))
	}
	// Without a filter these two return EINVAL, because of threads and of invalid arguments.
	say("unshare", unix.Unshare(unix.CLONE_NEWUSER))
	_, err = unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, true)
	say("keyctl", err)
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	say("unix", err)
	_ = unix.Close(fd)
	say("truncate", unix.Truncate(file.Name(), 0))
	_, _, errno := unix.Syscall(unix.SYS_CLONE3, 0, 0, 0)
	say("clone3", errno)
	fmt.Print(said)
	_, err = exec.Command("/bin/true").CombinedOutput()
	fmt.Println("wait:", err)
	return nil
}
