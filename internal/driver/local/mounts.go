package local

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"gated/internal/base/refusal"
)

// readMountinfo returns this process's mount table (proc_pid_mountinfo(5)).
func readMountinfo() ([]byte, error) { return os.ReadFile("/proc/self/mountinfo") }

// mountPoints returns the mount points of a mountinfo table.
func mountPoints(table []byte) ([]string, error) {
	var points []string
	lines := bufio.NewScanner(bytes.NewReader(table))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), " ")
		if len(fields) < 10 {
			return nil, fmt.Errorf("mountinfo: a line has %d fields", len(fields))
		}
		points = append(points, unescapeMount(fields[4]))
	}
	return points, lines.Err()
}

// unescapeMount undoes the octal escapes of space, tab, newline and backslash.
func unescapeMount(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// checkNoMount refuses with Conflict if something is mounted at or below path, an absolute path
// without symlinks. It also fails if it cannot read the mount table.
func (d *Driver) checkNoMount(path, doing string) error {
	table, err := d.mountinfo()
	if err != nil {
		return fmt.Errorf("mount table: %w", err)
	}
	points, err := mountPoints(table)
	if err != nil {
		return err
	}
	for _, p := range points {
		if p == path || strings.HasPrefix(p, path+"/") {
			return refusal.New(refusal.Conflict, "%s would reach through the mount at %s", doing, p).WithHint("unmount it first")
		}
	}
	return nil
}
