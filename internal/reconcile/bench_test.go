package reconcile

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/driver/memory"
	"gated/internal/test/must"
	"gated/internal/wire/desired"
)

// large is a reconciler over n guests in memory, each wished for in a file of
// its own, and each as it is wished for.
type large struct {
	*world
	dir  *Dir
	read time.Duration // of the first reading, with parsing
	heap uint64        // live bytes before anything was read
}

func wishOf(i int, memory string) []byte {
	return fmt.Appendf(nil, `apiVersion: gated/v1
host: pve1
guests:
  - name: g%d
    state: stopped
    memory: %s
    cpus: 2
    labels: {tier: prod}
    protected: true
`, i, memory)
}

func newLarge(b *testing.B, n int) *large {
	fleet := memory.New(time.Now)
	path := b.TempDir()
	for i := range n {
		name := fmt.Sprintf("g%d", i)
		fleet.Put(name, op.Params{"state": stopped, "memory": int64(512), "cpus": int64(2),
			"labels": map[string]any{"tier": "prod"}, "protected": true})
		require.NoError(b, os.WriteFile(filepath.Join(path, name+".yaml"), wishOf(i, "512MiB"), 0o644))
	}
	l := &large{world: newWorldOver(b, fleet)}
	l.dir = must.Get(NewDir(path, 0, func() time.Time { return time.Now().Add(time.Minute) }))(b)
	b.Cleanup(func() { _ = l.dir.Close() })
	l.r.Sources, l.r.sources = []Source{l.dir}, make([]sourceState, 1)
	must.Get(fleet.List(b.Context()))(b)
	l.heap = liveHeap()
	began := time.Now()
	l.r.read(l.ctx)
	l.read = time.Since(began)
	l.r.look(l.ctx)
	for { // each guest is adopted
		if waiting, _ := l.r.queue.lengths(); waiting == 0 {
			return l
		}
		t, _ := l.r.queue.get()
		l.r.process(l.ctx, t, false)
		l.r.queue.done(t)
	}
}

func liveHeap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkRound is a round in which nothing changed: every file is looked at,
// every guest listed and compared. Reading and parsing everything for the first
// time is reported apart.
func BenchmarkRound(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 30_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			l := newLarge(b, n)
			more := float64(liveHeap()-l.heap) / (1 << 20)
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				l.r.look(l.ctx)
			}
			b.StopTimer()
			waiting, _, _ := l.r.queue.depth()
			require.Zero(b, waiting, "nothing changed")
			require.Equal(b, n, l.r.Status().Sources[0].Guests)
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1e6, "ms/round")
			b.ReportMetric(more, "MiB-heap")
			b.ReportMetric(float64(l.read.Milliseconds()), "ms-first-read")
			runtime.KeepAlive(l)
		})
	}
}

// BenchmarkOneChangedFile is the time from the moment in which one file among
// 10,000 was renamed into its place until its driver executes a step.
func BenchmarkOneChangedFile(b *testing.B) {
	const n = 10_000
	l := newLarge(b, n)
	l.dir.rescan = time.Hour
	executed := make(chan struct{}, 1)
	l.driver.(*memory.Driver).Before = func(op.Step) error { executed <- struct{}{}; return nil }
	l.live()
	require.Eventually(b, func() bool { return !l.r.Status().RoundAt.IsZero() && l.r.Status().Queue == QueueStatus{} },
		time.Minute, 10*time.Millisecond)
	tmp := filepath.Join(l.dir.path, ".tmp")
	i := 0
	for b.Loop() {
		b.StopTimer()
		i++
		require.NoError(b, os.WriteFile(tmp, wishOf(i%n, fmt.Sprintf("%dMiB", 512+i/n+1)), 0o644))
		b.StartTimer()
		require.NoError(b, os.Rename(tmp, filepath.Join(l.dir.path, fmt.Sprintf("g%d.yaml", i%n))))
		<-executed
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1e6, "ms/change")
}

// BenchmarkTake is what taking in one changed document costs where 10,000
// others did not change: the comparison of both reads, and the index.
func BenchmarkTake(b *testing.B) {
	docs := make([]*SetDoc, 10_000)
	for i := range docs {
		doc, err := desired.Parse("f", wishOf(i, "512MiB"))
		require.NoError(b, err)
		docs[i] = &SetDoc{Set: fmt.Sprintf("g%05d.yaml", i), Doc: doc, Digest: "d"}
	}
	r := New(Config{Sources: []Source{&lines{}}, Host: "pve1"})
	require.Len(b, r.takeChanges(change{added: docs}), len(docs))
	doc, err := desired.Parse("f", wishOf(5000, "640MiB"))
	require.NoError(b, err)
	other := slices.Clone(docs)
	other[5000] = &SetDoc{Set: docs[5000].Set, Doc: doc, Digest: "e"}
	b.ReportAllocs()
	for b.Loop() {
		gone, added := differences(docs, other)
		require.Len(b, r.takeChanges(change{gone: gone, added: added}), 1)
		docs, other = other, docs
	}
}

// BenchmarkDirOneChange is what it costs to read a directory of 10,000 files of
// which one was written.
func BenchmarkDirOneChange(b *testing.B) {
	path := b.TempDir()
	write := func(i int, memory string) {
		require.NoError(b, os.WriteFile(filepath.Join(path, fmt.Sprintf("g%d.yaml", i)), wishOf(i, memory), 0o644))
	}
	for i := range 10_000 {
		write(i, "512MiB")
	}
	d := must.Get(NewDir(path, time.Hour, func() time.Time { return time.Now().Add(time.Minute) }))(b)
	b.Cleanup(func() { _ = d.Close() })
	must.Get(d.Read(b.Context()))(b)
	b.ReportAllocs()
	for i := 1; b.Loop(); i++ {
		b.StopTimer()
		write(5000, fmt.Sprintf("%dMiB", 512+i%2))
		b.StartTimer()
		docs, err := d.Read(b.Context())
		require.NoError(b, err)
		require.Len(b, docs, 10_000)
	}
}

// takeChanges takes changes of one source, as read does.
func (r *Reconciler) takeChanges(c change) []op.Target {
	next := r.wishes.plan([]change{c})
	return r.take([]change{c}, next, true)
}
