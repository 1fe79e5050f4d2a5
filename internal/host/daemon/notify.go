package daemon

import (
	"net"
	"os"
)

// notify tells the service manager how the daemon stands (sd_notify(3)). It
// does nothing where there is no NOTIFY_SOCKET.
func notify(state string) error {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil
	}
	if path[0] == '@' {
		path = "\x00" + path[1:] // the abstract name space (unix(7))
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Write([]byte(state))
	return err
}
