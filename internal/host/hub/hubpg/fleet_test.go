package hubpg_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/pgpool"
	"gated/internal/host/hub"
	"gated/internal/host/hub/hubpg"
	"gated/internal/host/hub/hubstate"
	"gated/internal/host/hub/hubstate/statetest"
	"gated/internal/test/must"
	"gated/internal/test/postgres"
	"gated/internal/test/programs"
)

// size is how large a simulated fleet is, and how long it polls.
type size struct {
	hosts    int
	interval time.Duration // between two polls of a host
	polling  time.Duration
	pages    int // first pages that are read meanwhile
}

// sizeOf is that of GATED_FLEET=10000, which make bench sets, or a small one.
func sizeOf(t testing.TB) size {
	text := os.Getenv("GATED_FLEET")
	if text == "" {
		return size{hosts: 120, interval: 2 * time.Second, polling: 3 * time.Second, pages: 20}
	}
	return size{hosts: must.Get(strconv.Atoi(text))(t), interval: 30 * time.Second, polling: 30 * time.Second, pages: 200}
}

// callers is how many simulated hosts report at a time.
const callers = 32

// fleet is simulated hosts, two hubs and their database. Each host has three waiting requests.
type fleet struct {
	t    testing.TB
	size size
	hubs []*hubProcess

	hosts []*simulated
}

// simulated is one host.
type simulated struct {
	name  string
	gate  op.GateID
	seq   int64
	acked int64 // the highest number that a hub acknowledged
	tags  map[string]string
}

// report is the next report: one request ended, and another came.
func (h *simulated) report() hub.Report {
	h.seq++
	r := hub.Report{Host: h.name, Gate: h.gate, Version: "simulated", StartedAt: statetest.Noon, Seq: h.seq, At: statetest.Noon, Revision: "r1",
		Sets:   []hub.SetReport{{Name: "web", Guests: 4, Converged: 1, Waiting: 3}},
		Guests: []hub.GuestReport{}, Operations: []hub.OperationReport{}}
	for i := range int64(3) {
		n := int(h.seq + i)
		q := statetest.Request(n, fmt.Sprintf("j%d.1", n), "guest.destroy")
		q.Target, q.Reason = fmt.Sprintf("guest/web-%d", i), "the project is over, and its data is in the archive"
		r.Requests = append(r.Requests, q)
	}
	return r
}

// TestFleet plays a fleet against two hubs, one of which is killed in mid-load. GATED_FLEET=10000 is the full size, and its
// figures are lines that make bench reads.
func TestFleet(t *testing.T) {
	f := &fleet{t: t, size: sizeOf(t)}
	c := postgres.Primary(t, "shared_buffers = 128MB", "autovacuum = on")
	require.NoError(t, hubpg.Create(t.Context(), hubpg.Settings{Connection: c.DSN()}))
	s := open(t, c.DSN())
	for i := range f.size.hosts {
		f.hosts = append(f.hosts, &simulated{name: fmt.Sprintf("host%05d", i), gate: op.GateID(fmt.Sprintf("%032x", i)), tags: map[string]string{}})
	}
	f.share(8, func(h *simulated) {
		d := hubstate.Document{Body: []byte(strings.Repeat("x", 500)), Tag: h.name, Revision: "r1"}
		must.Get(s.Publish(t.Context(), h.name, d, d))(t)
	})
	program := buildGated(t)
	for range 2 {
		f.hubs = append(f.hubs, startHub(t, program, c.DSN()))
	}
	f.limit(c)
	f.reports("first reports")
	f.reports("reports")
	f.poll()
	f.busy()
	for i, h := range f.hubs {
		f.figure(fmt.Sprintf("memory of hub %d", i+1), float64(h.memory(t))/1024, "MiB")
	}
	f.kill(program, c.DSN())
	f.whole(s)
}

// figure prints a line that make bench reads.
func (f *fleet) figure(name string, value float64, unit string) {
	f.t.Logf("figure: %s | %g | %s", name, value, unit)
}

// share calls fn for each host, so many at a time.
func (f *fleet) share(at int, fn func(*simulated)) {
	var next atomic.Int64
	var running sync.WaitGroup
	for range at {
		running.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(f.hosts)); i = next.Add(1) - 1 {
				fn(f.hosts[i])
			}
		})
	}
	running.Wait()
}

// reports has each host report once, and measures how many a second are acknowledged.
func (f *fleet) reports(name string) {
	lines := make(chan *line, callers)
	for i := range callers {
		lines <- &line{hub: f.hubs[i%len(f.hubs)]}
	}
	began := time.Now()
	f.share(callers, func(h *simulated) {
		l := <-lines
		require.Equal(f.t, 204, f.send(l, h))
		lines <- l
	})
	f.figure(name, float64(len(f.hosts))/time.Since(began).Seconds(), "/s")
	for range callers {
		(<-lines).close()
	}
}

// limit measures what the database does at most: single rows of a report's size, each committed, on as many connections
// as two hubs have.
func (f *fleet) limit(c *postgres.Cluster) {
	c.Exec(f.t, "CREATE TABLE bare (host bytea PRIMARY KEY, body bytea NOT NULL)")
	p := must.Get(pgpool.New(pgpool.Settings{Connection: c.DSN(), What: "the database", Size: 16, Limit: time.Minute}))(f.t)
	defer p.Close()
	body := pgpool.Bytes(make([]byte, 1500))
	began := time.Now()
	f.share(16, func(h *simulated) {
		must.Get(p.Transaction(f.t.Context(), pgpool.Say("INSERT INTO bare VALUES ($1, $2)", pgpool.Text(h.name), body)))(f.t)
	})
	f.figure("limit", float64(len(f.hosts))/time.Since(began).Seconds(), "/s")
}

// busy reads first pages while every host reports.
func (f *fleet) busy() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.reports("reports while pages are read")
	}()
	took := f.read(func() bool {
		select {
		case <-done:
			return true
		default:
			return false
		}
	})
	f.figure("first page p50 while all report", took[len(took)/2], "ms")
	f.figure("first page p99 while all report", took[len(took)*99/100], "ms")
}

// send sends the next report of a host, and notes what was acknowledged. The status is 0 if there was no answer.
func (f *fleet) send(l *line, h *simulated) int {
	body, err := api.Encode(h.report())
	if err != nil {
		f.t.Error(err)
	}
	status, _, err := l.call("POST", hub.Path(h.name, hub.PathReport), "", body)
	if err != nil {
		l.close()
		return 0
	}
	if status == 204 {
		h.acked = h.seq
	}
	return status
}

// poll has each host poll by its interval on a connection of its own, which stays open until the hub closes it, and reads
// first pages of the queue meanwhile.
func (f *fleet) poll() {
	ctx, stop := context.WithTimeout(f.t.Context(), f.size.polling)
	defer stop()
	var polls, failed atomic.Int64
	var running sync.WaitGroup
	due := make(chan *simulated, len(f.hosts))
	for range callers {
		running.Go(func() {
			for h := range due {
				l := &line{hub: f.hubs[int(polls.Add(1))%len(f.hubs)]}
				for _, what := range []string{hub.PathDesired, hub.PathOperations} {
					status, tag, err := l.call("GET", hub.Path(h.name, what), h.tags[what], nil)
					if err != nil || status != 200 && status != 304 {
						failed.Add(1)
					}
					h.tags[what] = tag
				}
				time.AfterFunc(2*time.Minute, l.close) // the hub closes it long before
			}
		})
	}
	running.Go(func() {
		defer close(due)
		tick := time.NewTicker(f.size.interval / time.Duration(len(f.hosts)))
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				due <- f.hosts[i%len(f.hosts)]
			}
		}
	})
	f.pages()
	<-ctx.Done()
	running.Wait()
	require.Zero(f.t, failed.Load())
	f.figure("polls", float64(polls.Load())/f.size.polling.Seconds(), "/s")
}

// pages measures first pages.
func (f *fleet) pages() {
	n := 0
	took := f.read(func() bool { n++; return n > f.size.pages })
	f.figure("first page p50", took[len(took)/2], "ms")
	f.figure("first page p99", took[len(took)*99/100], "ms")
}

// read reads first pages until enough, and returns the milliseconds of each, sorted.
func (f *fleet) read(enough func() bool) (took []float64) {
	q := must.Get(client.NewHub(client.HubOptions{URL: f.hubs[0].url}))(f.t)
	defer q.Close()
	for len(took) == 0 || !enough() {
		began := time.Now()
		page := must.Get(q.Queue(f.t.Context(), client.HubFilter{}))(f.t)
		took = append(took, float64(time.Since(began).Microseconds())/1000)
		require.Len(f.t, page.Requests, hubstate.PageRows)
		require.Equal(f.t, int64(3*len(f.hosts)), page.Waiting)
	}
	slices.Sort(took)
	return took
}

// kill kills one hub while every host reports, and starts it again. A host whose hub does not answer reports to the other.
func (f *fleet) kill(program, dsn string) {
	var sent, unanswered atomic.Int64
	killed := make(chan struct{})
	var once sync.Once
	lines := make(chan [2]*line, callers)
	for range callers {
		lines <- [2]*line{{hub: f.hubs[0]}, {hub: f.hubs[1]}}
	}
	go func() {
		<-killed
		_ = f.hubs[0].cmd.Process.Kill()
	}()
	f.share(callers, func(h *simulated) {
		two := <-lines
		if sent.Add(1) == int64(len(f.hosts)/3) {
			once.Do(func() { close(killed) })
		}
		first := int(h.gate[len(h.gate)-1]) % 2
		if f.send(two[first], h) != 204 {
			unanswered.Add(1)
			require.Equal(f.t, 204, f.send(two[1-first], h), "the other hub takes it")
		}
		lines <- two
	})
	f.hubs[0].wait()
	require.Positive(f.t, unanswered.Load(), "the kill was in mid-load")
	f.figure("reports without an answer", float64(unanswered.Load()), "")
	f.hubs[0] = startHub(f.t, program, dsn)
}

// whole checks that the database has what was acknowledged, and that what waits is that of the kept reports alone.
func (f *fleet) whole(s *hubpg.Store) {
	var lost atomic.Int64
	f.share(8, func(h *simulated) {
		kept := must.Get(s.Report(f.t.Context(), h.name))(f.t)
		if kept == nil || kept.Report.Seq < h.acked {
			lost.Add(1)
			return
		}
		page := must.Get(s.Queue(f.t.Context(), hubstate.Query{Host: h.name, Limit: 10}))(f.t)
		var want, got []string
		for _, r := range kept.Report.Requests {
			want = append(want, r.Request)
		}
		for _, r := range page.Requests {
			got = append(got, r.Request)
		}
		if !slices.Equal(want, got) {
			f.t.Errorf("%s: the queue has %v, the report %v", h.name, got, want)
		}
	})
	f.figure("acknowledged and lost", float64(lost.Load()), "")
	require.Zero(f.t, lost.Load())
}

// line is one connection of a simulated host, without the cost of a whole HTTP client.
type line struct {
	hub  *hubProcess
	conn net.Conn
	in   *bufio.Reader
}

func (l *line) call(method, path, tag string, body []byte) (status int, etag string, err error) {
	if l.conn == nil {
		if l.conn, err = net.DialTimeout("tcp", l.hub.address, 30*time.Second); err != nil {
			l.conn = nil
			return 0, "", err
		}
		l.in = bufio.NewReaderSize(l.conn, 2048)
	}
	if err := l.conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return 0, "", err
	}
	head := method + " " + path + " HTTP/1.1\r\nHost: " + l.hub.address + "\r\n"
	if tag != "" {
		head += "If-None-Match: " + tag + "\r\n"
	}
	if body != nil {
		head += "Content-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n"
	}
	if _, err := l.conn.Write(append([]byte(head+"\r\n"), body...)); err != nil {
		return 0, "", err
	}
	resp, err := http.ReadResponse(l.in, &http.Request{Method: method})
	if err != nil {
		return 0, "", err
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return 0, "", err
	}
	return resp.StatusCode, resp.Header.Get("ETag"), nil
}

func (l *line) close() {
	if l.conn != nil {
		_ = l.conn.Close()
		l.conn = nil
	}
}

// hubProcess is one hub.
type hubProcess struct {
	cmd          *exec.Cmd
	url, address string
	done         chan struct{}
}

func buildGated(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, programs.Into(dir, "gated"))
	return filepath.Join(dir, "gated")
}

// startHub starts a hub, and waits until it listens. It ends with the test.
func startHub(t testing.TB, program, dsn string) *hubProcess {
	t.Helper()
	h := &hubProcess{cmd: exec.Command(program, "hub", "--postgres", dsn, "--listen", "127.0.0.1:0"), done: make(chan struct{})}
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out := must.Get(h.cmd.StdoutPipe())(t)
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // Pdeathsig is sent when the thread ends that started the process
		defer close(h.done)
		err := h.cmd.Start()
		started <- err
		if err == nil {
			_, _ = h.cmd.Process.Wait()
		}
	}()
	require.NoError(t, <-started)
	t.Cleanup(func() { _ = h.cmd.Process.Kill(); h.wait() })
	said := must.Get(bufio.NewReader(out).ReadString('\n'))(t)
	_, rest, found := strings.Cut(said, "listening on ")
	require.True(t, found, said)
	h.url, _, _ = strings.Cut(rest, ",")
	h.address = strings.TrimPrefix(h.url, "http://")
	return h
}

func (h *hubProcess) wait() { <-h.done }

// memory returns the resident memory at its highest, in KiB.
func (h *hubProcess) memory(t testing.TB) int {
	t.Helper()
	for line := range strings.Lines(string(must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/status", h.cmd.Process.Pid)))(t))) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			return must.Get(strconv.Atoi(strings.Fields(rest)[0]))(t)
		}
	}
	t.Fatal("the kernel does not say how much memory it had")
	return 0
}
