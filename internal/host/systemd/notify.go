package systemd

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// What the service manager is told.
const (
	Ready    = "READY=1"
	Stopping = "STOPPING=1"
	Alive    = "WATCHDOG=1"
)

// patience bounds how long a message waits for a service manager whose queue is full.
const patience = 2 * time.Second

// Reloading returns what the service manager is told when a reload begins. Ready ends the reload. The time is that of
// CLOCK_MONOTONIC, by which the manager tells an old message from a new one.
func Reloading() (string, error) {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &at); err != nil {
		return "", fmt.Errorf("read the monotonic clock: %w", err)
	}
	return fmt.Sprintf("RELOADING=1\nMONOTONIC_USEC=%d", at.Nano()/int64(time.Microsecond)), nil
}

// Notify tells the service manager how the daemon stands. It does nothing if there is no NOTIFY_SOCKET.
func Notify(state string) error {
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
	if err := c.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err = c.Write([]byte(state))
	return err
}

// Watchdog returns how often the service manager wants to be told Alive: half of WatchdogSec, as
// sd_watchdog_enabled(3) advises. It is 0 if the manager does not watch this process.
func Watchdog() time.Duration {
	if pid := os.Getenv("WATCHDOG_PID"); pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0
	}
	n, err := strconv.ParseUint(os.Getenv("WATCHDOG_USEC"), 10, 63)
	if err != nil || n > uint64(time.Hour*24/time.Microsecond) {
		return 0
	}
	return time.Duration(n) * time.Microsecond / 2
}
