package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
)

// lyingHub serves pages as a test says.
func lyingHub(t *testing.T, page func(asked int) api.FleetQueue) string {
	t.Helper()
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		b, err := api.Encode(page(asked))
		if err == nil {
			_, err = w.Write(b)
		}
		if err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func runFleet(t *testing.T, args ...string) (code int, out, said string) {
	t.Helper()
	dir := t.TempDir()
	var stdout, stderr bytes.Buffer
	tl := testTool()
	tl.Stdout, tl.Stderr = &stdout, &stderr
	tl.Getenv = func(name string) string {
		return map[string]string{"XDG_CONFIG_HOME": dir, "XDG_STATE_HOME": dir}[name]
	}
	code = tl.run(t.Context(), append([]string{"list"}, args...))
	return code, stdout.String(), stderr.String()
}

// A hub whose pages never end keeps nobody, and one that forges lines of a terminal forges none.
func TestHubsThatLie(t *testing.T) {
	row := api.FleetRow{Host: "pve1", Gate: "0123456789abcdef0123456789abcdef", FleetRequest: api.FleetRequest{Request: "j1.1", Op: "guest.destroy",
		Target: "guest/\x1b[2Ja", Reason: "\u202eknown  same\tsame"}}
	u := lyingHub(t, func(int) api.FleetQueue {
		return api.FleetQueue{Requests: []api.FleetRow{row}, Next: "1.70.6a", Waiting: 1 << 62}
	})
	code, out, said := runFleet(t, "--hub", u, "--all")
	require.Equal(t, api.ExitRefused, code)
	require.Contains(t, said, "the hub's pages do not end")
	require.Equal(t, 2, bytes.Count([]byte(out), []byte("\n")), "a header and a row: %q", out)
	require.NotContains(t, out, "\x1b")
	require.NotContains(t, out, "\u202e")

	u = lyingHub(t, func(n int) api.FleetQueue { return api.FleetQueue{Next: fmt.Sprint(n) + ".70.6a"} })
	code, _, said = runFleet(t, "--hub", u, "--all")
	require.Equal(t, api.ExitRefused, code)
	require.Contains(t, said, "the hub's pages do not end")

	u = lyingHub(t, func(n int) api.FleetQueue { return api.FleetQueue{Requests: []api.FleetRow{row}} })
	code, out, said = runFleet(t, "--hub", u, "--verify")
	require.Equal(t, api.ExitRefused, code)
	require.Contains(t, out, "unknown-gate")
	require.Contains(t, said, wordsHubsWord)
}

// All pages are one table, and on a pipe its columns are the same whatever the rows have.
func TestAllPagesAreOneTable(t *testing.T) {
	columns := func(change func(*api.FleetRow)) []string {
		u := lyingHub(t, func(n int) api.FleetQueue {
			row := api.FleetRow{Host: "pve1", Gate: "0123456789abcdef0123456789abcdef", FleetRequest: api.FleetRequest{Request: fmt.Sprintf("j%d.1", n),
				Op: "guest.destroy", Target: "guest/a"}}
			change(&row)
			q := api.FleetQueue{Requests: []api.FleetRow{row}}
			if n < 3 {
				q.Next = fmt.Sprint(n) + ".70.6a"
			}
			return q
		})
		code, out, _ := runFleet(t, "--hub", u, "--all")
		require.Equal(t, api.ExitDone, code)
		lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
		require.Len(t, lines, 4, "a header and three rows: %q", out)
		require.Equal(t, 1, strings.Count(out, "HOST"))
		return strings.Fields(lines[0])
	}
	want := []string{"HOST", "ID", "AGE", "OP", "TARGET", "ADDRESS", "CHECKED", "FOR", "REASON"}
	require.Equal(t, want, columns(func(*api.FleetRow) {}))
	require.Equal(t, want, columns(func(r *api.FleetRow) { r.Reason, r.RequestedBy = "why", "uid:1000" }))
}

// TestRowsOfNoForm: a row whose ids people could not copy as they are is left out and said, and hides no other row.
func TestRowsOfNoForm(t *testing.T) {
	good := api.FleetRow{Host: "pve1", Gate: "0123456789abcdef0123456789abcdef", FleetRequest: api.FleetRequest{Request: "j1.1", Op: "guest.destroy",
		Target: "guest/a"}}
	for name, change := range map[string]func(*api.FleetRow){
		"an escape in a request":      func(r *api.FleetRow) { r.Request = "j1.1\x1b[2J" },
		"more words after a request":  func(r *api.FleetRow) { r.Request = "j1.1 --yes" },
		"a command after a request":   func(r *api.FleetRow) { r.Request = "j1.1;reboot" },
		"another way to write it":     func(r *api.FleetRow) { r.Request = "j01.1" },
		"a job":                       func(r *api.FleetRow) { r.Request = "j1" },
		"no request":                  func(r *api.FleetRow) { r.Request = "" },
		"an escape in a host":         func(r *api.FleetRow) { r.Host = "pve1\x1b]0;x\x07" },
		"two lines of a host":         func(r *api.FleetRow) { r.Host = "pve1\npve2" },
		"a host that reads backwards": func(r *api.FleetRow) { r.Host = "\u202epve1" },
		"a long host":                 func(r *api.FleetRow) { r.Host = strings.Repeat("h", 254) },
		"a command after a host":      func(r *api.FleetRow) { r.Host = "pve1;reboot" },
		"a command inside a host":     func(r *api.FleetRow) { r.Host = "pve$(reboot)" },
		"a command in quotes":         func(r *api.FleetRow) { r.Host = "pve`reboot`" },
		"a host and a file":           func(r *api.FleetRow) { r.Host = "pve1>x" },
		"a host that is a flag":       func(r *api.FleetRow) { r.Host = "--yes" },
		"more words after a host":     func(r *api.FleetRow) { r.Host = "pve1 j2.1" },
		"a host that ends a text":     func(r *api.FleetRow) { r.Host = "pve1'" },
		"another gate's request":      func(r *api.FleetRow) { r.Host = "pve2/j1.1" },
		"no host":                     func(r *api.FleetRow) { r.Host = "" },
		"no gate":                     func(r *api.FleetRow) { r.Gate = "" },
		"an escape in a gate":         func(r *api.FleetRow) { r.Gate = "0123456789abcdef0123456789abcde\x1b" },
	} {
		bad := good
		change(&bad)
		for _, flags := range [][]string{{}, {"--json"}, {"--verify"}} {
			u := lyingHub(t, func(int) api.FleetQueue { return api.FleetQueue{Requests: []api.FleetRow{bad, good}} })
			code, out, said := runFleet(t, append(flags, "--hub", u)...)
			require.Equal(t, api.ExitRefused, code, name)
			require.Contains(t, said, "left out: the hub lists \"", name)
			require.Contains(t, out, "j1.1", name)
			lines := map[bool]int{false: 2, true: 1}[slices.Contains(flags, "--json")]
			require.Equal(t, lines, strings.Count(out, "\n"), "%s: %q", name, out)
			require.NotContains(t, out+said, "\x1b", name)
			require.NotContains(t, out+said, "\u202e", name)
		}
	}
	// A page of which nothing is shown is not the end.
	alone := good
	alone.Host = "--yes"
	u := lyingHub(t, func(int) api.FleetQueue {
		return api.FleetQueue{Requests: []api.FleetRow{alone}, Waiting: 2, Next: "1.70.6a"}
	})
	code, out, said := runFleet(t, "--hub", u)
	require.Equal(t, api.ExitRefused, code)
	require.NotContains(t, out+said, "nothing waits")
	require.Contains(t, out+said, "--after")
	for _, host := range []string{strings.Repeat("h", 253), "PVE_1.example.net", "büro-1", "пве1", "root@pve1", "pve1:8006"} {
		good.Host = host
		u := lyingHub(t, func(int) api.FleetQueue { return api.FleetQueue{Requests: []api.FleetRow{good}} })
		code, _, said := runFleet(t, "--hub", u)
		require.Equal(t, api.ExitDone, code, host)
		require.NotContains(t, said, "left out", host)
	}
}

// What the hub says of a request is held against what its gate says is open.
func TestRowsAreCompared(t *testing.T) {
	s := api.Status{Gate: "0123456789abcdef0123456789abcdef", Host: "pve1"}
	open := []api.Request{{ID: "j1.1", Op: "guest.destroy", Target: "guest/a", PayloadSHA256: "d", State: op.StatePending},
		{ID: "j2.1", Op: "guest.destroy", Target: "guest/b", PayloadSHA256: "e", State: op.StateAuthorized}}
	honest := api.FleetRow{Host: "pve1", Gate: s.Gate, FleetRequest: api.FleetRequest{Request: "j1.1", Op: "guest.destroy", Target: "guest/a", PayloadSHA256: "d"}}
	for want, change := range map[string]func(*api.FleetRow){
		checkedSame: func(*api.FleetRow) {}, checkedDiffers: func(r *api.FleetRow) { r.Target = "guest/b" }, checkedGone: func(r *api.FleetRow) { r.Request = "j9.1" },
	} {
		r := fleetRow{FleetRow: honest}
		change(&r.FleetRow)
		r.compare(s, open)
		require.Equal(t, want, r.Checked)
		require.Equal(t, want == checkedDiffers, r.code == api.ExitRefused)
		require.Equal(t, want == checkedSame, r.Detail == "")
	}
	r := fleetRow{FleetRow: honest}
	r.Request, r.Target, r.PayloadSHA256 = "j2.1", "guest/b", "e"
	r.compare(s, open)
	require.Equal(t, checkedGone, r.Checked)
	require.Contains(t, r.Detail, "it waits no more")
}
