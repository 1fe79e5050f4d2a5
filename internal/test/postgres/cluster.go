package postgres

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"gated/internal/test/ports"
)

// bin has Debian's programs of PostgreSQL 15.
const bin = "/usr/lib/postgresql/15/bin"

// limit bounds each step of a cluster: initdb, a start, a stop, a promotion. On a busy machine initdb takes more than a minute.
const limit = 5 * time.Minute

// owner is the role that owns a cluster and makes every connection. Connections over loopback need no password.
const owner = "gated"

// Cluster is one PostgreSQL server and its data.
type Cluster struct {
	Port int // on 127.0.0.1

	name   string
	dir    string
	server *server // nil while it is down
}

// Need skips a test where scripts/needs.sh did not install PostgreSQL.
func Need(t testing.TB) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(bin, "postgres")); err != nil {
		t.Skip("needs PostgreSQL 15: scripts/needs.sh install")
	}
}

// Primary starts a new cluster with further lines of postgresql.conf. It ends with the test.
func Primary(t testing.TB, lines ...string) *Cluster {
	t.Helper()
	Need(t)
	dir := directory(t)
	return primaryIn(t, dir, lines...)
}

// PrimaryOn is Primary with its data below a directory that any user can enter.
func PrimaryOn(t testing.TB, parent string, lines ...string) *Cluster {
	t.Helper()
	Need(t)
	dir := filepath.Join(parent, "data")
	ok(t, os.Mkdir(dir, 0o700))
	own(t, dir)
	return primaryIn(t, dir, lines...)
}

func primaryIn(t testing.TB, dir string, lines ...string) *Cluster {
	t.Helper()
	c := &Cluster{Port: ports.Free(t), name: "first", dir: dir}
	initialize(t, c.data())
	c.configure(t, lines...)
	c.Start(t)
	t.Cleanup(func() { c.end(t) })
	return c
}

// Standby copies a primary, which it then follows at the port as application name, with further lines of postgresql.conf. It
// ends with the test.
func (c *Cluster) Standby(t testing.TB, name string, follows int, lines ...string) *Cluster {
	t.Helper()
	s := &Cluster{Port: ports.Free(t), name: name, dir: directory(t)}
	run(t, "pg_basebackup", "-d", c.DSN(), "-D", s.data(), "-X", "stream", "-c", "fast", "--no-sync")
	ok(t, os.WriteFile(filepath.Join(s.data(), "standby.signal"), nil, 0o600))
	s.configure(t, append([]string{fmt.Sprintf("primary_conninfo = 'host=127.0.0.1 port=%d user=%s application_name=%s'", follows, owner, name),
		"wal_retrieve_retry_interval = 100ms"}, lines...)...)
	own(t, filepath.Join(s.data(), "standby.signal"))
	s.Start(t)
	t.Cleanup(func() { s.end(t) })
	return s
}

// DSN is how pgconn connects.
func (c *Cluster) DSN() string { return DSN(c.Port) }

// DSN connects to ports of 127.0.0.1, of which the first that takes writes is used.
func DSN(ports ...int) string {
	var hosts, list []string
	for _, p := range ports {
		hosts, list = append(hosts, "127.0.0.1"), append(list, strconv.Itoa(p))
	}
	return fmt.Sprintf("host=%s port=%s user=%s dbname=postgres sslmode=disable", strings.Join(hosts, ","), strings.Join(list, ","), owner)
}

// Exec runs statements, and returns the last one's rows as text.
func (c *Cluster) Exec(t testing.TB, sql string) [][]string {
	t.Helper()
	rows, err := c.Try(sql)
	ok(t, err)
	return rows
}

// Try is Exec that returns its error.
func (c *Cluster) Try(sql string) ([][]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	conn, err := pgconn.Connect(ctx, c.DSN())
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(ctx) }()
	results, err := conn.Exec(ctx, sql).ReadAll()
	if err != nil || len(results) == 0 {
		return nil, err
	}
	var out [][]string
	for _, row := range results[len(results)-1].Rows {
		var texts []string
		for _, value := range row {
			texts = append(texts, string(value))
		}
		out = append(out, texts)
	}
	return out, nil
}

// Set changes a setting of a running server, and waits until new connections have it.
func (c *Cluster) Set(t testing.TB, name, value string) {
	t.Helper()
	c.Exec(t, fmt.Sprintf("ALTER SYSTEM SET %s = '%s'", name, value))
	c.Exec(t, "SELECT pg_reload_conf()")
	c.Until(t, fmt.Sprintf("SELECT current_setting('%s') = '%s'", name, value))
}

// Until waits until a query answers true.
func (c *Cluster) Until(t testing.TB, sql string) {
	t.Helper()
	last := "no answer"
	until(t, sql, &last, func() bool {
		rows, err := c.Try(sql)
		last = fmt.Sprint(rows, err)
		return err == nil && len(rows) == 1 && rows[0][0] == "t"
	})
}

// Synchronous waits until a standby of this primary is synchronous.
func (c *Cluster) Synchronous(t testing.TB) {
	t.Helper()
	c.Until(t, "SELECT count(*) > 0 FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')")
}

// until asks again and again, because PostgreSQL tells no client about these changes.
func until(t testing.TB, what string, last *string, done func() bool) {
	t.Helper()
	end := time.After(limit)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("after %s: %s: %s", limit, what, *last)
		}
	}
}

func (c *Cluster) data() string { return filepath.Join(c.dir, "data") }

func (c *Cluster) configure(t testing.TB, lines ...string) {
	t.Helper()
	path := filepath.Join(c.data(), "postgresql.conf")
	text, err := os.ReadFile(path)
	ok(t, err)
	lines = append([]string{
		fmt.Sprintf("port = %d", c.Port), "listen_addresses = '127.0.0.1'", "unix_socket_directories = ''",
		"max_connections = 60", "shared_buffers = 16MB", "wal_keep_size = 64MB", "max_wal_size = 256MB", "autovacuum = off",
		"log_min_messages = warning", "logging_collector = off", "log_destination = stderr", "log_line_prefix = '%p '",
		"wal_sender_timeout = 10s", "wal_receiver_timeout = 10s", "wal_receiver_status_interval = 1s",
	}, lines...)
	ok(t, os.WriteFile(path, append(text, "\n"+strings.Join(lines, "\n")+"\n"...), 0o600))
	own(t, path)
}

// directory makes one that the server's user owns. A test's own TempDir is closed to that user.
func directory(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "gated-postgres")
	ok(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	own(t, dir)
	return dir
}

// account is the user of the servers if this process is root, because PostgreSQL refuses to run as root.
func account(t testing.TB) *syscall.Credential {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	ok(t, err)
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	ok(t, err)
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	ok(t, err)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

func own(t testing.TB, path string) {
	t.Helper()
	if a := account(t); a != nil {
		ok(t, os.Chown(path, int(a.Uid), int(a.Gid)))
	}
}

// run runs one of PostgreSQL's programs to its end.
func run(t testing.TB, program string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(bin, program), args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: account(t)}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", program, err, out)
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
