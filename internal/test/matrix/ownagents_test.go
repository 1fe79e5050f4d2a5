package matrix_test

import (
	"context"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/agents/reserve"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// tries asks for a reservation that is not to be had.
func (f *floor) tries(by op.Requester, at reserve.Place, patterns ...string) error {
	f.t.Helper()
	g, _, err := f.book.Reserve(f.ctx, reserve.Claim{By: by, Place: at, Patterns: patterns, TTL: reserve.MaxTTL, Keep: true})
	if err != nil {
		return err
	}
	require.Fail(f.t, "it was granted", "%v in %v as %v", patterns, at, g.ID)
	return nil
}

// twice is a row in which cora asks for what alma has, by other words.
func twice(id, what string, want refusal.Code, asks func(f *floor) error) attack {
	return onFloor(id, "what an agent holds is asked for by another one, "+what, want, func(f *floor) error {
		f.armUnlogged("the book was asked, not the server")
		return asks(f)
	})
}

func (f *floor) within(dir string) reserve.Place { return place(f.world, dir) }

// sharedRows are attacks on what agents hold, and on who an agent is.
var sharedRows = []attack{
	{id: "X97a", what: "scratch's creator has ended, and everybody asks who has its name since, or one like it", want: refusal.PendingSignature,
		run: func(w *world) error {
			first := w.enlist("builder", 1000)
			w.makeFor(first, "tmp", "scratch", true)
			w.dismiss(first)
			var all []op.Requester
			for _, uid := range []uint32{1000, 2000} {
				next := w.enlist("builder", uid)
				require.NotEqual(w.t, first.Agent, next.Agent)
				all = append(all, next)
				w.dismiss(next)
			}
			for _, name := range []string{"builder", "Builder#1", "builder#1 ", "builder#01", "builder#11", "agent:builder#1", "uid:1000"} {
				all = append(all, op.Requester{Source: op.SourceAPI, UID: 1000, Agent: name})
			}
			w.arm()
			w.allow.finale = []string{"tmp"}
			var last error
			for _, by := range append(all, hub, operator, op.Requester{Source: op.SourceAPI}) {
				last = w.waits(w.submit(by, ask("guest.destroy", "tmp")))
				require.ErrorIs(w.t, last, refusal.PendingSignature, "%s", by)
			}
			return last
		}},
	twice("X97b", "in a directory that is spelled otherwise", refusal.BadParams, func(f *floor) error {
		p := f.repo.Path
		require.ErrorIs(f.t, f.tries(f.cora, reserve.Place{Path: p + "\n"}, "src/a.go"), refusal.Malformed)
		var last error
		for _, other := range []string{p + "/", p + "/.", p + "//", "/" + p, path.Dir(p) + "/./repo", path.Dir(p) + "/x/../repo", p + "/src/..", "repo", ".", ""} {
			last = f.tries(f.cora, reserve.Place{Path: other, Device: f.repo.Device, Inode: f.repo.Inode}, "src/a.go")
			require.ErrorIs(f.t, last, refusal.BadParams, "%q", other)
		}
		return last
	}),
	twice("X97c", "by patterns that are spelled otherwise", refusal.Conflict, func(f *floor) error {
		for _, p := range []string{"./src/a.go", "src//a.go", "src/./a.go", "x/../src/a.go", "/src/a.go", "src/a.go/", "src/\x00a", "src/a\u202e", "../repo/src/a"} {
			require.Error(f.t, f.tries(f.cora, f.repo, p), "%q", p)
		}
		var last error
		for _, p := range []string{"src/a.go", "src/*", "s*/a.go", "?rc/**", "**", "**/a.go", "*/**", "[s]rc/x", "{src,lib}/x", "src/**/y/**", "src"} {
			if last = f.tries(f.cora, f.repo, "free/"+strings.Trim(p, "*"), p); refusal.CodeOf(last) != refusal.Conflict {
				require.ErrorIs(f.t, last, refusal.Malformed, "%q", p)
			}
		}
		return f.tries(f.cora, f.repo, "src/a.go")
	}),
	twice("X97d", "as if the directory did not tell cases apart", refusal.Conflict, func(f *floor) error {
		folds := f.repo
		folds.Fold = true
		for _, p := range []string{"SRC/a.go", "Src/**", "\u017frc/a.go", "S*/A.GO"} {
			require.ErrorIs(f.t, f.tries(f.cora, folds, p), refusal.Conflict, "%q", p)
		}
		return f.tries(f.cora, folds, "sRC")
	}),
	twice("X97e", "through a directory above and one below", refusal.Conflict, func(f *floor) error {
		above := reserve.Place{Path: filepath.Dir(f.repo.Path), Device: f.repo.Device, Inode: 1}
		for _, p := range []string{"repo/src/a.go", "repo/**", "*/src/x", "**", "repo/src"} {
			require.ErrorIs(f.t, f.tries(f.cora, above, p), refusal.Conflict, "%q", p)
		}
		require.ErrorIs(f.t, f.tries(f.cora, f.within("repo/src/deep"), "x"), refusal.Conflict)
		return f.tries(f.cora, f.within("repo/src"), "**")
	}),
	twice("X97f", "under the old directory's path and number, which was exchanged for another one", refusal.Conflict, func(f *floor) error {
		f.allow.unlogged = "the book was asked, not the server"
		other := f.repo
		other.Inode++
		require.ErrorIs(f.t, f.tries(f.cora, other, "src/a.go"), refusal.Conflict)
		other.Device, other.Inode = 0, 0
		return f.tries(f.cora, other, "src/a.go")
	}),
	onFloor("X98a", "what a release of all gave to those who waited is released again by the same approval", refusal.Replayed, func(f *floor) error {
		r := f.request(f.releaseAll)
		e := f.envelopeOf(r)
		granted := make(chan error, 1)
		ctx, cancel := context.WithTimeout(f.ctx, time.Minute)
		defer cancel()
		go func() {
			_, _, err := f.book.Reserve(ctx, reserve.Claim{By: f.cora, Place: f.repo, Patterns: []string{"src/**"}, TTL: reserve.MaxTTL,
				Keep: true, Wait: reserve.MaxWait})
			granted <- err
		}()
		require.NoError(f.t, f.send(r.ID, e))
		require.NoError(f.t, f.executor().execute(f.ctx, r.ID))
		require.NoError(f.t, <-granted)
		f.arm()
		require.ErrorIs(f.t, f.sendOffline(e), refusal.Replayed)
		require.ErrorIs(f.t, f.executor().execute(f.ctx, r.ID), refusal.Conflict)
		return f.send(r.ID, e)
	}),
	onFloor("X98b", "whoever waited for what was signed away has ended meanwhile, and somebody has its name", refusal.Conflict, func(f *floor) error {
		ctx, cancel := context.WithCancel(f.ctx)
		waited := make(chan error, 1)
		queued := make(chan struct{})
		go func() {
			close(queued)
			_, _, err := f.book.Reserve(ctx, reserve.Claim{By: f.cora, Place: f.repo, Patterns: []string{"src/**"}, TTL: reserve.MaxTTL,
				Wait: reserve.MaxWait})
			waited <- err
		}()
		<-queued
		cancel()
		require.Error(f.t, <-waited)
		f.dismiss(f.cora)
		next := f.enlist("cora", 3000)
		f.armUnlogged("the book was asked, not the server")
		must.Fail(f.book.Release(f.ctx, next, rid(f.t, f.r1)))(f.t, refusal.NotHolder)
		return f.tries(next, f.repo, "src/a.go")
	}),
}
