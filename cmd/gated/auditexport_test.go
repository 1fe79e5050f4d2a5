package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// logOf answers as a gate whose log has these entries, and says that it has so
// many.
func logOf(t *testing.T, says int64, texts ...string) *tool {
	return archivedLogOf(t, says, 0, texts...)
}

// archivedLogOf is logOf of a gate whose first entries are archived: it sends none of them, and refuses to read on among them.
func archivedLogOf(t *testing.T, says int64, archived int, texts ...string) *tool {
	dir := must.Get(os.MkdirTemp("/tmp", "ga"))(t)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	path := filepath.Join(dir, "s")
	l := must.Get(net.Listen("unix", path))(t)
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/audit/head", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"seq":%d,"hash":"","archived":%d}`, says, archived)
	})
	mux.HandleFunc("/v1/audit", func(w http.ResponseWriter, r *http.Request) {
		after, err := strconv.Atoi(r.FormValue("after"))
		if err != nil || after < archived {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		after = min(after, len(texts))
		limit, err := strconv.Atoi(r.FormValue("limit"))
		if err != nil {
			limit = 2
		}
		_, _ = fmt.Fprintf(w, `{"entries":[%s]}`, strings.Join(texts[after:min(len(texts), after+min(limit, 2))], ","))
	})
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { require.NoError(t, srv.Close()) })
	tl := testTool()
	tl.Socket = path
	return tl
}

func numbered(seqs ...int) []string {
	out := make([]string, len(seqs))
	for i, n := range seqs {
		out[i] = fmt.Sprintf(`{"seq":%d,"time":"2026-01-02T03:04:05Z","kind":"started"}`, n)
	}
	return out
}

// exportOf runs an export and returns what it wrote.
func exportOf(t *testing.T, tl *tool, after int64) (string, error) {
	cl := must.Get(tl.Client())(t)
	defer cl.Close()
	var b strings.Builder
	_, _, err := tl.export(context.Background(), cl, after, entryFilter{}, func(line []byte) error {
		_, err := b.Write(line)
		return err
	})
	return b.String(), err
}

func TestAnExportIsWholeOrSaysSo(t *testing.T) {
	all := numbered(1, 2, 3, 4, 5)
	text := must.Get(exportOf(t, logOf(t, 5, all...), 0))(t)
	require.Equal(t, strings.Join(all, "\n")+"\n", text, "byte for byte")
	text = must.Get(exportOf(t, logOf(t, 5, all...), 5))(t)
	require.Empty(t, text)
	must.Fail(exportOf(t, logOf(t, 7, all...), 0))(t, refusal.Conflict, "cut off at the end")
	must.Fail(exportOf(t, logOf(t, 5, numbered(1, 2, 4, 5)...), 0))(t, refusal.Conflict, "cut out in the middle")
	must.Fail(exportOf(t, logOf(t, 5, numbered(1, 2, 2, 3)...), 0))(t, refusal.Conflict, "the same again")
	must.Fail(exportOf(t, logOf(t, 5, all...), 6))(t, refusal.UnknownTarget)
}

// TestAnExportBeginsAfterWhatIsArchived, and says so. One that was to go on among archived entries is refused.
func TestAnExportBeginsAfterWhatIsArchived(t *testing.T) {
	all := numbered(1, 2, 3, 4, 5)
	tl := archivedLogOf(t, 5, 2, all...)
	var said strings.Builder
	tl.Stderr = &said
	text := must.Get(exportOf(t, tl, 0))(t)
	require.Equal(t, strings.Join(all[2:], "\n")+"\n", text)
	require.Equal(t, "note: entries 1 to 2 are archived, so this begins with entry 3; gated archive show N prints an archived one\n", said.String())
	_, err := exportOf(t, tl, 1)
	require.Error(t, err)
	said.Reset()
	require.Equal(t, strings.Join(all[3:], "\n")+"\n", must.Get(exportOf(t, tl, 3))(t))
	require.Empty(t, said.String())

	cl := must.Get(tl.Client())(t)
	defer cl.Close()
	head := api.Head{Seq: 5, Archived: 2}
	for _, f := range []entryFilter{{}, {kinds: []string{"refused"}}} {
		require.EqualValues(t, 2, must.Get(newest(context.Background(), cl, head, 4, f))(t), "tail reads no archived entry either")
	}
}

// TestNewestReadsBackwards and counts what is wanted alone.
func TestNewestReadsBackwards(t *testing.T) {
	texts := numbered(1, 2, 3, 4, 5, 6, 7)
	for _, i := range []int{1, 4} {
		texts[i] = strings.Replace(texts[i], "started", "refused", 1)
	}
	tl := logOf(t, 7, texts...)
	cl := must.Get(tl.Client())(t)
	defer cl.Close()
	only := entryFilter{kinds: []string{"refused"}}
	for n, want := range map[int64]int64{1: 4, 2: 1, 3: 0} {
		got := must.Get(newest(context.Background(), cl, api.Head{Seq: 7}, n, only))(t)
		require.Equal(t, want, got, n)
	}
	for n, want := range map[int64]int64{1: 6, 7: 0, 9: 0} {
		require.Equal(t, want, must.Get(newest(context.Background(), cl, api.Head{Seq: 7}, n, entryFilter{}))(t))
	}
}

func TestLastEntry(t *testing.T) {
	two := strings.Join(numbered(1, 2), "\n") + "\n"
	for text, want := range map[string]int64{"": 0, two: 2, two + `{"seq":3`: 2, two + "x": 2} {
		e, end := must.Two(last(t, text))(t)
		if want == 0 {
			require.Nil(t, e)
			require.Zero(t, end)
			continue
		}
		require.Equal(t, want, e.Seq)
		require.EqualValues(t, len(two), end)
	}
	for _, text := range []string{"x", "\n", two + "\n", two + "notes\n", numbered(1)[0], `{"seq":0,"time":"2026-01-02T03:04:05Z","kind":"x"}` + "\n",
		"\n" + strings.Repeat("x", 2*maxEntry+1) + "\n"} {
		_, _, err := last(t, text)
		require.ErrorIs(t, err, refusal.Malformed)
	}
}

func last(t testing.TB, text string) (*api.Entry, int64, error) {
	path := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	f := must.Get(os.Open(path))(t)
	defer func() { require.NoError(t, f.Close()) }()
	return lastEntry(f, path)
}
