package client

import (
	"fmt"
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"gated/internal/base/ownfile"
)

// nobody is the uid that the kernel shows for a user outside of this user namespace (user_namespaces(7)).
const nobody = 65534

// checkPeer asks the kernel which process listens. The path's owner proves little: a path can be moved, but the
// listener's credentials cannot.
func (c *Client) checkPeer(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return err
	}
	if credErr != nil {
		return fmt.Errorf("ask who listens: %w", credErr)
	}
	if !c.trusted[cred.Uid] {
		return c.distrust(fmt.Sprintf("process %d of %%s listens there", cred.Pid), cred.Uid)
	}
	return nil
}

// distrust refuses to talk to a socket whose owner or listener is another uid. The refusal names that uid, names the
// right ones, and says that nothing was sent.
func (c *Client) distrust(who string, uid uint32) error {
	expected := []string{"root", fmt.Sprintf("you (uid %d)", os.Geteuid())}
	if uid := c.configured; uid != "" {
		expected = append(expected, "GATED_UID="+uid)
	}
	last := len(expected) - 1
	err := fmt.Errorf(who+", who is neither %s nor %s; nothing was sent", ownfile.Owner(uid), strings.Join(expected[:last], " nor "), expected[last])
	hint := fmt.Sprintf("any user can make a socket and answer on it. If the gate runs as that user, set GATED_UID=%d; "+
		"if not, find out what that process is and why the path is its", uid)
	if uid == nobody {
		hint = "the kernel shows uid 65534 for everybody outside of this user namespace: ask from where the gate's own user is seen"
	}
	return &attemptError{err: err, hint: hint}
}
