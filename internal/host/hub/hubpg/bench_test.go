package hubpg_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/host/hub/hubstate"
	"gated/internal/host/hub/hubstate/statetest"
	"gated/internal/test/must"
	"gated/internal/test/postgres"
)

// BenchmarkPut keeps reports of 1,000 hosts one after the other, each with a request that ended and one that came. It tells
// the CPU of both sides, which depends less on what else runs than the time does.
func BenchmarkPut(b *testing.B) {
	c := postgres.Primary(b)
	s := created(b, c)
	var hosts []*simulated
	for i := range 1000 {
		h := &simulated{name: fmt.Sprintf("host%04d", i), gate: op.GateID(fmt.Sprintf("%032x", i))}
		know(b, s, h.name)
		hosts = append(hosts, h)
	}
	n := 0
	server, own := serverCPU(b, c), ownCPU(b)
	for b.Loop() {
		h := hosts[n%len(hosts)]
		n++
		r := h.report()
		must.Get(s.Put(b.Context(), hubstate.Arrived{Host: h.name, Report: r, Body: must.Get(api.Encode(r))(b), At: statetest.Noon}))(b)
	}
	b.ReportMetric(float64((serverCPU(b, c)-server).Microseconds())/float64(n), "µs-server/op")
	b.ReportMetric(float64((ownCPU(b)-own).Microseconds())/float64(n), "µs-own/op")
}

// serverCPU is the CPU of the sessions of the server's clients.
func serverCPU(t testing.TB, c *postgres.Cluster) (total time.Duration) {
	t.Helper()
	for _, row := range c.Exec(t, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()") {
		text := string(must.Get(os.ReadFile("/proc/" + row[0] + "/stat"))(t))
		fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
		for _, ticks := range fields[11:13] { // utime and stime (proc(5)), 100 a second
			total += time.Duration(must.Get(strconv.Atoi(ticks))(t)) * 10 * time.Millisecond
		}
	}
	return total
}

func ownCPU(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
