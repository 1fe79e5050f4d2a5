package matrix_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/refusal"
	"gated/internal/host/ownlog"
	"gated/internal/test/must"
)

// forgeries are words that try to be another label, another sample or another line.
var forgeries = []string{`x"} 1` + "\ngated_up 0\nx{y=\"", "guest.x\nlevel=INFO msg=\"a step is approved\" kind=approved", `x" kind=approved job="j1`,
	"GATED_KIND=approved\nPRIORITY=0", `kind=approved`}

// asksWords asks for an operation, of a target, for a reason, each of these words. All are refused.
func (w *world) asksWords(d wholeDaemon) (last error) {
	w.t.Helper()
	for _, words := range forgeries {
		for _, ask := range []api.Ask{{Op: words, Target: "guest/victim"}, {Op: "guest.destroy", Target: "guest/" + words}, {Op: words, Target: words}} {
			_, err := d.Submit(w.ctx, api.SubmitOf(words, ask), "")
			require.Error(w.t, err)
			_, err = d.Submit(w.ctx, api.SubmitOf("test", ask), "")
			require.Error(w.t, err)
		}
	}
	_, last = d.Submit(w.ctx, api.SubmitOf("test", api.Ask{Op: "guest.none", Target: "guest/victim"}), "")
	return last
}

// lineOfLog is a line of the daemon's log as text: names, each with a value that is in quotes or has neither blank, quote nor =.
var lineOfLog = regexp.MustCompile(`^(?: ?[A-Za-z_]+=(?:"(?:[^"\\]|\\.)*"|[^ "=]*))+$`)

// quoted are the values in quotes.
var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

var watchedRows = []attack{
	{id: "U20e", what: "another uid says that a backup was checked, so that no monitor asks for one", want: refusal.NotAllowed, run: func(w *world) error {
		socket := w.serve()
		w.arm()
		return problem(w.t, w.callAs(socket, "POST", "/v1/backup/verified", `{"sha256":"`+strings.Repeat("0", 64)+`"}`, "application/json"))
	}},
	{id: "U20a", what: "operations, targets and reasons that would be labels or samples of the metrics", want: refusal.UnknownOp, bare: true,
		run: func(w *world) error {
			w.today()
			w.arm()
			d := w.daemon()
			err := w.asksWords(d)
			text := string(must.Get(d.Metrics(w.ctx))(w.t))
			require.Equal(w.t, 1, strings.Count(text, "\ngated_up "))
			for _, words := range []string{"victim", "guest", "x{", "j1", "msg"} {
				require.NotContains(w.t, quoted.FindAllString(text, -1), words)
				require.NotContains(w.t, strings.Join(quoted.FindAllString(text, -1), " "), words)
			}
			d.halt()
			w.open()
			return err
		}},
	{id: "U20b", what: "operations, targets and reasons that would be lines or fields of the daemon's log", want: refusal.UnknownOp, bare: true,
		run: func(w *world) error {
			w.today()
			w.arm()
			var said bytes.Buffer
			log := ownlog.New(&said, "")
			d := w.daemonLogging(log.Logger())
			err := w.asksWords(d)
			d.halt()
			log.Close(context.Background())
			for line := range strings.Lines(said.String()) {
				require.Regexp(w.t, lineOfLog, strings.TrimSuffix(line, "\n"))
				require.NotContains(w.t, quoted.ReplaceAllString(line, ""), "kind=approved")
			}
			require.Contains(w.t, said.String(), "code=unknown_op")
			w.open()
			return err
		}},
	{id: "U20c", what: "a hundred connections, each with a hundred scrapes that it never reads", want: refusal.UnknownOp, bare: true,
		run: func(w *world) error {
			w.today()
			w.arm()
			d := w.daemon()
			scrape := []byte(strings.Repeat("GET /v1/metrics HTTP/1.1\r\nHost: x\r\n\r\n", 100))
			for range 100 {
				conn := must.Get(net.Dial("unix", d.socket))(w.t)
				w.cleanup(func() { _ = conn.Close() })
				go func() { _, _ = io.Copy(conn, bytes.NewReader(scrape)) }() // it ends with the connection
			}
			_, err := d.Submit(w.ctx, api.SubmitOf("test", api.Ask{Op: "guest.none", Target: "guest/victim"}), "")
			require.Equal(w.t, api.HealthOK, must.Get(d.Health(w.ctx))(w.t).State)
			d.halt()
			w.open()
			return err
		}},
	{id: "U20d", what: "the state directory is gone under a daemon that runs, and another database lies in its place", want: reported, bare: true,
		run: func(w *world) error {
			w.today()
			w.armUnlogged("nothing is decided")
			d := w.daemon()
			away := w.dir + ".away"
			require.NoError(w.t, os.Rename(w.dir, away))
			gone := must.Get(d.Health(w.ctx))(w.t)
			require.NoError(w.t, os.Mkdir(w.dir, 0o700))
			require.NoError(w.t, os.WriteFile(w.dir+"/gated.db", []byte("SQLite format 3"), 0o600))
			other := must.Get(d.Health(w.ctx))(w.t)
			aside := w.dir + ".other"
			require.NoError(w.t, os.Rename(w.dir, aside)) // the daemon may write into it
			require.NoError(w.t, os.Rename(away, w.dir))
			require.NoError(w.t, os.RemoveAll(aside))
			// The checks of the start may have met the directory while it was away. A reload, and their next try, mend that.
			require.Eventually(w.t, func() bool {
				must.Get(d.Reload(w.ctx))(w.t)
				return must.Get(d.Health(w.ctx))(w.t).State == api.HealthOK
			}, time.Minute, 10*time.Millisecond)
			d.halt()
			w.open()
			if gone.State != api.HealthBad || other.State != api.HealthBad {
				return nil
			}
			return refusal.New(reported, "health: %s", gone.State)
		}},
}
