package daemon_test

import (
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/test/must"
)

// peak is the most memory that a program has had, in bytes.
func (s *served) peak() int64 {
	s.w.t.Helper()
	text := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid)))(s.w.t)
	for line := range strings.Lines(string(text)) {
		var n int64
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &n); err == nil {
			return n << 10
		}
	}
	s.w.t.Fatal("the kernel does not say how much memory the program has had")
	return 0
}

// maxMemory is what the daemon may take under any flood of one uid.
const maxMemory = 300 << 20

// A journal of 11 MiB of labels, read by many at once, of whom some take nothing of
// what they are sent.
func TestListsNeedLittleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("it fills a journal")
	}
	buildProgram(t)
	w := newInitialised(t)
	w.config("limits: {journal_quota: 1024}\n")
	s := w.start()
	w.waiting("web")
	labels := map[string]any{}
	for i := range 60 {
		labels[fmt.Sprint("l", i)] = strings.Repeat("x", 250)
	}
	const jobs, steps = 12, 60
	ask := api.Submit{Reason: "many", Steps: []api.Ask{{Op: "guest.destroy", Target: "guest/web", Params: op.Params{}}}}
	for i := range steps {
		ask.Steps = append(ask.Steps, api.Ask{Op: "guest.create", Target: fmt.Sprint("guest/n", i), Params: op.Params{"labels": labels}})
	}
	for range jobs {
		must.Get(w.client.Submit(t.Context(), ask, ""))(t)
	}
	before := s.peak()

	var silent []net.Conn
	for range 48 {
		c := must.Get(net.Dial("unix", w.socket))(t)
		silent = append(silent, c)
		must.Get(fmt.Fprintf(c, "GET /v1/jobs?limit=500 HTTP/1.1\r\nHost: gated\r\n\r\n"))(t)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { // what they are told does not matter while the silent ones have the uid's part
			_, _ = w.eachJob()
			_, _ = w.client.Requests(t.Context(), "")
			_, _ = w.client.Audit(t.Context(), 0, 1000)
		})
	}
	all.Wait()
	after := s.peak()
	t.Logf("VmHWM %d MiB before, %d MiB after", before>>20, after>>20)
	require.Less(t, after, int64(maxMemory))
	for _, c := range silent {
		require.NoError(t, c.Close())
	}
	var n int
	require.Eventually(t, func() (ok bool) {
		var err error
		n, err = w.eachJob()
		return err == nil
	}, patience, 100*time.Millisecond)
	require.Equal(t, jobs+1, n, "the pages lead to all")
	code, log := s.stop()
	require.Zero(t, code, log)
}

// eachJob follows the pages of what waits, and counts it.
func (w *world) eachJob() (n int, err error) {
	for q := (client.JobQuery{Limit: 500, State: op.StatePending}); ; {
		page, err := w.client.Jobs(w.t.Context(), q)
		if err != nil {
			return n, err
		}
		n += len(page.Jobs)
		if page.Next == nil {
			return n, nil
		}
		q.After = *page.Next
	}
}
