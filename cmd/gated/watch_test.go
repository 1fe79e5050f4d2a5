package main

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/test/story"
	"gated/internal/wire/cli"
)

func watchedGate(open, done int) watched {
	w := watched{status: api.Status{Host: "pve1", Waiting: open, Running: 1, Health: []api.Health{{Name: "journal", OK: true}, {Name: "disk", Detail: "it is\x1b[2J full"}}}}
	for i := range open {
		w.open = append(w.open, api.Job{ID: "j" + strconv.Itoa(i+1), State: op.StatePending, Reason: "no more\nneeded", RequestedBy: []string{"uid:1000"},
			Steps: []api.Step{{Op: "guest.destroy", Target: "guest/web-" + strconv.Itoa(i)}}})
	}
	for i := range done {
		w.done = append(w.done, api.Entry{Time: since, Kind: "approved", Step: "j" + strconv.Itoa(90-i) + ".1", Op: "guest.destroy", Target: "guest/db", By: "uid:1000"})
	}
	return w
}

// A screen has what is wrong and what was decided, however much waits, in the lines and columns of the terminal.
func TestAWatchedScreen(t *testing.T) {
	for _, size := range [][2]int{{24, 80}, {24, 40}, {12, 50}, {24, 200}, {3, 20}} {
		for _, open := range []int{0, 1, 5, 1000} {
			for _, done := range []int{0, 3, 50} {
				w := watchedGate(open, done)
				for i := range min(done, 2) { // a row that is wider than the screen takes several lines
					w.done[i+1].Target = "guest/" + strings.Repeat("web-front-", 6)
				}
				lines := w.screen(since, size[0], size[1], "...")
				text := strings.Join(lines, "\n")
				require.Equal(t, "Ctrl-C ends", lines[len(lines)-1])
				require.NotContains(t, text, "\x1b")
				if size[0] < 12 {
					continue
				}
				require.LessOrEqual(t, len(lines), size[0], "%v %d %d", size, open, done)
				require.Contains(t, text, "disk BAD")
				require.Equal(t, open > 0, strings.Contains(text, "guest/web-0"))
				require.Equal(t, done > 0, strings.Contains(text, "j90.1"))
				require.NotContains(t, text, "j84.1")
				if size[0] == 24 {
					require.Equal(t, open == 1000, strings.Contains(text, "more: opsign list, gated jobs"), "%v %d %d", size, open, done)
				}
			}
		}
	}
	require.Equal(t, `pve1 at 2026-01-02T03:04:05Z: 1 waiting, 1 step running
disk BAD  "it is\x1b[2J full"
ID  STATE              OP       TARGET       FOR       REASON
j1  pending_signature  destroy  guest/web-0  uid:1000  "no more\nneeded"

DECIDED               WHAT      STEP   OP       TARGET    BY
2026-01-02T03:04:05Z  approved  j90.1  destroy  guest/db  uid:1000
Ctrl-C ends`, strings.Join(watchedGate(1, 1).screen(since, 24, 100, "..."), "\n"))
}

// What is no terminal gets no screens.
func TestAWatchNeedsATerminal(t *testing.T) {
	for _, args := range [][]string{{"status", "--watch"}, {"status", "--watch", "--json"}} {
		var out, errs bytes.Buffer
		tl := testTool()
		tl.Stdout, tl.Stderr = &out, &errs
		require.Equal(t, api.ExitUsage, tl.run(t.Context(), args))
		require.Empty(t, out.String())
		require.Contains(t, errs.String(), "usage: --watch needs a terminal: gated events --follow prints what is decided")
	}
	require.Equal(t, api.ExitUsage, testTool().run(t.Context(), []string{"status", "--watch", "--check"}))
}

// A watch goes on with new screens until it is interrupted, which is no error.
func TestAWatchGoesOn(t *testing.T) {
	asked := make(chan struct{}, 100)
	socket := standIn(t, map[string]http.HandlerFunc{
		"GET /v1/status": func(w http.ResponseWriter, r *http.Request) {
			asked <- struct{}{}
			answers(t, http.StatusOK, api.Status{Host: "pve1", Waiting: 3, AuditHead: api.Head{Seq: 5}})(w, r)
		},
		"GET /v1/jobs":   answers(t, http.StatusOK, api.JobList{Jobs: []api.Job{}}),
		"GET /v1/events": func(http.ResponseWriter, *http.Request) {},
	})
	person, program, err := story.NewTerminal()
	require.NoError(t, err)
	defer person.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan int, 1)
	go func() {
		defer program.Close()
		tl := &tool{Tool: cli.Tool{Stdout: program, Stderr: os.Stderr, Getenv: func(name string) string { return map[string]string{"TERM": "xterm"}[name] }}}
		ended <- tl.run(ctx, []string{"status", "--watch", "--socket", socket})
	}()
	shown := make(chan string, 1)
	go func() {
		var all strings.Builder
		buf := make([]byte, 4096)
		for {
			n, err := person.Read(buf)
			all.Write(buf[:n])
			if err != nil {
				shown <- all.String()
				return
			}
		}
	}()
	for range 2 {
		select {
		case <-asked:
		case <-time.After(time.Minute):
			t.Fatal("no second screen")
		}
	}
	cancel()
	require.Zero(t, <-ended)
	require.Contains(t, <-shown, "\x1b[Hpve1 at ")
}
