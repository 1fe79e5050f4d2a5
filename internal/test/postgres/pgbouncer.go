package postgres

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"gated/internal/test/ports"
)

// PgBouncer starts a pooler in front of a cluster, with the pool mode, and returns its port. It drops the settings of a
// session that ignores names, with commas between, and refuses others. It ends with the test.
func PgBouncer(t testing.TB, c *Cluster, mode, ignores string) int {
	t.Helper()
	program := "/usr/sbin/pgbouncer"
	if _, err := os.Stat(program); err != nil {
		t.Skip("needs PgBouncer: scripts/needs.sh install")
	}
	dir, port := directory(t), ports.Free(t)
	settings := filepath.Join(dir, "pgbouncer.ini")
	ok(t, os.WriteFile(settings, fmt.Appendf(nil, `[databases]
postgres = host=127.0.0.1 port=%d user=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = %s
ignore_startup_parameters = %s
`, c.Port, owner, port, mode, ignores), 0o644))
	own(t, settings)
	cmd := exec.Command(program, settings)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: account(t), Pdeathsig: syscall.SIGKILL}
	started, done := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // Pdeathsig is sent when the thread ends that started the process
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	ok(t, <-started)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-done
	})
	last := "no answer"
	until(t, "pgbouncer", &last, func() bool {
		_, err := (&Cluster{Port: port}).Try("SELECT 1")
		last = fmt.Sprint(err)
		return err == nil
	})
	return port
}
