package faults

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"unsafe"

	"gated/internal/base/seccomp"

	"golang.org/x/sys/unix"
)

// launchArg is the name under which this program is started to become another
// one behind a filter.
const launchArg = "gated-behind-faults"

// listenerFD is where the launched process finds its end of the socket over
// which the supervisor gets its descriptor.
const listenerFD = 3

// MaybeLaunch takes over the process if Start made it, and does not return
// then. TestMain calls it first.
func MaybeLaunch() {
	if len(os.Args) < 2 || os.Args[0] != launchArg {
		return
	}
	fmt.Fprintln(os.Stderr, "behind faults:", launch(os.Args[1], os.Args[1:]))
	os.Exit(127)
}

// launch puts the filter before this thread, hands its listener on, and becomes
// the program: the filter holds for whatever that program does.
func launch(path string, args []string) error {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	filter := program()
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	listener, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	// From here on only calls that the filter lets through: nobody listens yet.
	if err := unix.Sendmsg(listenerFD, []byte{1}, unix.UnixRights(int(listener)), nil, 0); err != nil {
		return err
	}
	if err := errors.Join(unix.Close(int(listener)), unix.Close(listenerFD)); err != nil {
		return err
	}
	return syscall.Exec(path, args, os.Environ())
}

// program is the filter: what is watched goes to the supervisor, but for
// mappings of no file, which the runtime makes all the time. The high half of an
// argument is not looked at: a descriptor has 32 bits.
func program() []unix.SockFilter {
	const mapsFile = 4 // the argument of mmap
	out := []unix.SockFilter{
		seccomp.Load(seccomp.Number),
		seccomp.Equal(unix.SYS_MMAP, 0, 3),
		seccomp.Load(seccomp.Arg(mapsFile)),
		seccomp.Equal(0xffffffff, 0, 1),
		seccomp.Return(unix.SECCOMP_RET_ALLOW),
		seccomp.Load(seccomp.Number),
	}
	for _, nr := range watched() {
		out = append(out, seccomp.Equal(uint32(nr), 0, 1), seccomp.Return(unix.SECCOMP_RET_USER_NOTIF))
	}
	return append(out, seccomp.Return(unix.SECCOMP_RET_ALLOW))
}

func watched() []int32 {
	var all []int32
	for nr := range calls {
		all = append(all, nr)
	}
	slices.Sort(all)
	return all
}

// Start starts cmd with its calls on files below dir in the supervisor's hands,
// armed with f from its first call on. This program has to call MaybeLaunch. dir
// has no symbolic links in it.
func Start(cmd *exec.Cmd, dir string, f Fault) (*Supervisor, error) {
	path := cmd.Path
	if cmd.Err != nil {
		return nil, cmd.Err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	theirs := os.NewFile(uintptr(pair[1]), "listener")
	cmd.Path, cmd.Args = "/proc/self/exe", append([]string{launchArg, path}, cmd.Args[1:]...)
	cmd.ExtraFiles = append([]*os.File{theirs}, cmd.ExtraFiles...)
	err = errors.Join(cmd.Start(), theirs.Close())
	if err != nil {
		return nil, errors.Join(err, unix.Close(pair[0]))
	}
	listener, err := receive(pair[0])
	if err := errors.Join(err, unix.Close(pair[0])); err != nil {
		return nil, errors.Join(fmt.Errorf("the program did not get behind its filter: %w", err), cmd.Process.Kill(), cmd.Wait())
	}
	s := &Supervisor{listener: listener, dir: dir, ended: make(chan struct{})}
	s.Arm(f)
	go s.run()
	return s, nil
}

// receive takes the listener from the launched process.
func receive(from int) (int, error) {
	oob := make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := unix.Recvmsg(from, make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return 0, err
	}
	if n == 0 {
		return 0, errors.New("it ended")
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(messages) != 1 {
		return 0, errors.Join(errors.New("no descriptor came"), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return 0, errors.Join(errors.New("no descriptor came"), err)
	}
	return fds[0], nil
}
