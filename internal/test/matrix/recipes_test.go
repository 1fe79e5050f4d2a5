package matrix_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/host/config"
	"gated/internal/nonce"
	"gated/internal/test/must"
)

// A recipe's programs call stand-ins here, which print what the file plan says and write down how they are called. The
// stories of internal/test/recipes run the real ones.
var standIns = map[string]string{
	"restic": `case $* in "forget --dry-run"*) exec cat "$0.plan" ;; esac; echo "$*" >> DIR/ran`,
	"tofu":   `case $2 in show) cat "$0.$(cat "$5")"; [ ! -e "$0.hook" ] || . "$0.hook" ;; apply) cat "$5" >> DIR/ran ;; esac`,
	"borg":   `case $* in *prune*) exec cat "$0.plan" ;; *list*--json*) exec cat "$0.list" ;; esac; echo "$*" >> DIR/ran`,
}

const (
	idA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	idB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

	resticA = `[{"keep":[{}],"remove":[{"id":"` + idA + `","time":"2026-01-01T10:00:00Z","hostname":"web","paths":["/srv"]}]}]`
	resticB = `[{"keep":[{}],"remove":[{"id":"` + idA + `","time":"2026-01-01T10:00:00Z","hostname":"web","paths":["/srv"]},` +
		`{"id":"` + idB + `","time":"2026-01-02T10:00:00Z","hostname":"web","paths":["/srv"]}]}]`
	borgPlan = "Would prune: one x [" + idA + "]\n"
	borgList = `{"archives":[{"id":"` + idA + `","name":"one","start":"2026"},{"id":"` + idB + `","name":"two","start":"2026"}]}`
)

// withRecipe gives a world the catalogue and the programs of a recipe.
func (w *world) withRecipe(name string) *programs {
	w.t.Helper()
	c := w.withPrograms()
	from := filepath.Join("../../../contrib/recipes", name)
	for _, f := range must.Get(os.ReadDir(from))(w.t) {
		text := must.Get(os.ReadFile(filepath.Join(from, f.Name())))(w.t)
		c.write(f.Name(), string(text))
	}
	replaced := strings.NewReplacer("/usr/local/lib/gated", c.dir, "/srv/git", c.path("root"), "/srv/tofu", c.path("root"), "/srv/plans", c.path("root"),
		"/usr/bin/tofu", c.path("tofu"), `PATH: "`, `PATH: "`+c.dir+":", "#    benign_if", "    benign_if").
		Replace(string(must.Get(os.ReadFile(filepath.Join(from, "gated.yaml")))(w.t)))
	for name, e := range must.Get(config.Parse("gated.yaml", []byte("host: h\n"+replaced)))(w.t).Commands {
		e.User = "" // a test's commands are its own user's
		c.entries[name] = e
	}
	c.start()
	return c
}

// plans is a case's beginning: what the stand-ins say would go.
func plans(c *programs) {
	for program, text := range standIns {
		c.write(program, "#!/bin/sh\n"+strings.ReplaceAll(text, "DIR", c.dir)+"\n")
	}
	c.write("tofu.makes", tofuPlan(`{"address":"a","change":{"actions":["create"]}}`))
	c.write("tofu.deletes", tofuPlan(`{"address":"a","change":{"actions":["create"]}},{"address":"b","change":{"actions":["delete","create"]}}`))
	c.write("restic.plan", resticA)
	c.write("borg.plan", borgPlan)
	c.write("borg.list", borgList)
}

func tofuPlan(changes string) string {
	return `{"format_version":"1.2","configuration":{},"resource_changes":[` + changes + `]}`
}

// plan makes the file that a stand-in for tofu takes for a plan: the name of what it shows.
func (c *programs) plan(says string) {
	c.w.t.Helper()
	require.NoError(c.w.t, os.MkdirAll(c.path("root", "module"), 0o755))
	c.write("root/plan", says)
}

func tofuApply() op.Ask { return runs("tofu-apply", "module", "module", "plan", "plan") }

func resticForget() op.Ask {
	return runs("restic-forget", "keep_last", "1", "keep_daily", "0", "keep_weekly", "0", "keep_monthly", "0")
}

func borgPrune() op.Ask {
	return runs("borg-prune", "archives", "*", "keep_last", "1", "keep_daily", "0", "keep_weekly", "0", "keep_monthly", "0")
}

// bare makes a bare repository with the branches main and other, of no common commit, and returns what they are at.
func (c *programs) bare() (main, other string) {
	c.w.t.Helper()
	c.git("init", "-q", "--bare", "-b", "main")
	tree := c.git("mktree", "--missing")
	main, other = c.git("commit-tree", "-m", "precious", tree), c.git("commit-tree", "-m", "other", tree)
	c.git("update-ref", "refs/heads/main", main)
	c.git("update-ref", "refs/heads/other", other)
	return main, other
}

func (c *programs) git(args ...string) string {
	c.w.t.Helper()
	require.NoError(c.w.t, os.MkdirAll(c.path("root", "shop.git"), 0o755))
	cmd := exec.Command("git", append([]string{"-C", c.path("root", "shop.git"), "-c", "user.name=alice", "-c", "user.email=alice@example.com"}, args...)...)
	out, err := cmd.Output()
	require.NoError(c.w.t, err, "git %v", args)
	return strings.TrimSpace(string(out))
}

// replaceMain is a forced push of the branch other to main; with zeros it is a delete.
func (c *programs) replaceMain(old, now string) op.Ask {
	return runs("git-replace-ref", "repository", "shop.git", "ref", "refs/heads/main", "old", old, "new", now)
}

const zeros = "0000000000000000000000000000000000000000"

// recipe is a row about a recipe. prepare returns what is asked for, and lost reports whether something is lost.
type recipe struct {
	name    string
	prepare func(c *programs) (a op.Ask, lost func() bool)
}

func (c *programs) called() bool { _, err := os.Stat(c.ran()); return err == nil }

var (
	restic = recipe{"restic", func(c *programs) (op.Ask, func() bool) { plans(c); return resticForget(), c.called }}
	borg   = recipe{"borg", func(c *programs) (op.Ask, func() bool) { plans(c); return borgPrune(), c.called }}
	gitRef = recipe{"git", func(c *programs) (op.Ask, func() bool) {
		main, other := c.bare()
		return c.replaceMain(main, other), func() bool { return c.git("rev-parse", "refs/heads/main") == other }
	}}
	gitDelete = recipe{"git", func(c *programs) (op.Ask, func() bool) {
		main, _ := c.bare()
		return c.replaceMain(main, zeros), func() bool { return !strings.Contains(c.git("for-each-ref"), main) }
	}}
)

// tofu asks for a plan that deletes.
var tofu = recipe{"opentofu", func(c *programs) (op.Ask, func() bool) { plans(c); c.plan("deletes"); return tofuApply(), c.called }}

// probeChanges is a row in which a plan loses nothing when it is asked for, and something changes before it runs
// unsigned. It ends as want says, and nothing is applied.
func probeChanges(id, what string, want refusal.Code, change func(c *programs)) attack {
	return attack{id: id, what: "a command that its probe let run unsigned: " + what, want: want, run: func(w *world) error {
		c := w.withRecipe("opentofu")
		w.rules.BenignIf = []string{"tofu-apply"}
		w.reload()
		plans(c)
		c.plan("makes")
		j := must.Get(w.submit(builder, tofuApply()))(w.t)
		require.Equal(w.t, op.StatePlanned, j.State(), "it may run unsigned")
		if want == refusal.Unavailable {
			w.armUnlogged("it is tried again later")
			w.allow.runs = true
		} else {
			w.arm()
		}
		change(c)
		err := w.executor().execute(w.ctx, j.Steps[0].ID)
		require.False(w.t, c.called())
		if s := w.stepOf(j.Steps[0].ID); s.State == op.StatePending {
			return refusal.New(refusal.PendingSignature, "%v", err)
		}
		if want == refusal.Unavailable {
			plans(c)
			c.plan("makes")
		}
		return err
	}}
}

// unsignedRecipe is a row in which nobody signs, whoever asks: the step waits, and nothing goes.
func unsignedRecipe(id, what string, r recipe) attack {
	return attack{id: id, what: "a recipe's command without a signature: " + what, want: refusal.PendingSignature, run: func(w *world) error {
		c := w.withRecipe(r.name)
		a, lost := r.prepare(c)
		w.arm()
		var last op.Job
		for _, by := range []op.Requester{hub, builder} {
			last = must.Get(w.submit(by, a))(w.t)
			require.NoError(w.t, w.runAll())
			require.Error(w.t, w.executor().execute(w.ctx, last.Steps[0].ID))
			require.False(w.t, lost())
		}
		return refusal.Code(w.stepOf(last.Steps[0].ID).State)
	}}
}

// changedRecipe is a row in which something changes after the approval: it is refused with a code, and nothing goes.
func changedRecipe(id, what string, want refusal.Code, r recipe, change func(c *programs)) attack {
	return attack{id: id, what: "a recipe's command, between approval and execution: " + what, want: want, run: func(w *world) error {
		c := w.withRecipe(r.name)
		a, lost := r.prepare(c)
		q := w.request(a)
		w.mustApprove(q)
		if want == refusal.Unavailable {
			w.armUnlogged("it stays approved, and is tried again later")
			w.allow.runs = true
		} else {
			w.arm()
		}
		change(c)
		err := w.executor().execute(w.ctx, q.ID)
		require.False(w.t, lost(), "%v", err)
		if want == refusal.StaleTarget {
			require.Equal(w.t, nonce.Used, w.nonceRows()[q.Nonce].fate)
		} else {
			r.prepare(c) // so that signed work can go on
		}
		return err
	}}
}

// recipeRows are attacks on what contrib/recipes ships.
var recipeRows = []attack{
	unsignedRecipe("R01a", "restic forget", restic),
	unsignedRecipe("R01b", "borg prune", borg),
	unsignedRecipe("R01c", "a forced push", gitRef),
	unsignedRecipe("R01d", "a delete of a branch", gitDelete),
	unsignedRecipe("R01e", "a plan that deletes", tofu),
	changedRecipe("R02a", "restic would forget one more", refusal.StaleTarget, restic, func(c *programs) { c.write("restic.plan", resticB) }),
	changedRecipe("R02b", "an archive of borg gets another's name", refusal.StaleTarget, borg, func(c *programs) {
		c.write("borg.list", strings.ReplaceAll(borgList, `"one"`, `"three"`))
	}),
	changedRecipe("R02c", "the branch moves", refusal.StaleTarget, gitRef, func(c *programs) {
		c.git("update-ref", "refs/heads/main", c.git("commit-tree", "-m", "newer", "-p", "refs/heads/main", "refs/heads/main^{tree}"))
	}),
	changedRecipe("R02d", "another branch gets the commits that would go", refusal.StaleTarget, gitRef, func(c *programs) {
		c.git("update-ref", "refs/heads/third", "refs/heads/main")
	}),
	changedRecipe("R03a", "restic fails", refusal.Unavailable, restic, func(c *programs) { c.write("restic", "#!/bin/sh\ncat \"$0.plan\"; exit 1\n") }),
	probeChanges("R05a", "the plan is replaced by one that deletes", refusal.PendingSignature, func(c *programs) { c.plan("deletes") }),
	probeChanges("R05b", "the probe says something else right before", refusal.PendingSignature, func(c *programs) {
		c.write("tofu.makes", tofuPlan(`{"address":"a","change":{"actions":["forget"]}}`))
	}),
	probeChanges("R05c", "what the probe runs is killed by a signal", refusal.Unavailable, func(c *programs) {
		c.write("tofu", "#!/bin/sh\ncat \"$0.makes\"; kill -KILL $$\n")
	}),
	probeChanges("R05d", "what the probe reads is cut off, and the exit status is 0", refusal.Unavailable, func(c *programs) {
		c.write("tofu.makes", tofuPlan(`{"address":"a","change":{"actions":["create"]}}`)[:60])
	}),
	probeChanges("R05e", "what the probe reads says nothing, and the exit status is 0", refusal.Unavailable, func(c *programs) { c.write("tofu.makes", "") }),
	probeChanges("R05f", "the probe is rewritten to end with 0", refusal.StaleTarget, func(c *programs) {
		c.plan("deletes")
		c.write("probe-plan", "#!/bin/sh\nexit 0\n")
	}),
	probeChanges("R05g", "the plan is replaced after the probe's last look, before the command reads it", refusal.CommandFailed, func(c *programs) {
		c.write("tofu.hook", "printf deletes > "+c.path("root", "plan")+"\n")
	}),
	probeChanges("R05i", "a refresh with other credentials finds nothing, so the state would forget it", refusal.PendingSignature, func(c *programs) {
		c.write("tofu.makes", strings.Replace(tofuPlan(`{"address":"a","change":{"actions":["create"]}}`), `{`,
			`{"resource_drift":[{"address":"a","change":{"actions":["delete"]}}],`, 1))
	}),
	probeChanges("R05j", "the plan reads external data, which any program makes", refusal.PendingSignature, func(c *programs) {
		c.write("tofu.makes", tofuPlan(`{"address":"data.external.x","mode":"data","type":"external","change":{"actions":["read"]}}`))
	}),
	probeChanges("R05k", "the plan deletes an output of the state", refusal.PendingSignature, func(c *programs) {
		c.write("tofu.makes", strings.Replace(tofuPlan(""), `{`, `{"output_changes":{"address":{"actions":["delete"],"before":"db-1"}},`, 1))
	}),
	{id: "R05h", what: "a probe ends with 0, and the catalogue does not let it say what that means", want: refusal.PendingSignature, run: func(w *world) error {
		c := w.withRecipe("opentofu")
		plans(c)
		c.plan("makes")
		w.arm()
		j := must.Get(w.submit(builder, tofuApply()))(w.t)
		require.NoError(w.t, w.runAll())
		require.False(w.t, c.called())
		return refusal.Code(w.stepOf(j.Steps[0].ID).State)
	}},
	{id: "R04a", what: "a host's name in a restic repository holds a line that names another snapshot", want: refusal.Code(op.StateSucceeded), run: func(w *world) error {
		c := w.withRecipe("restic")
		plans(c)
		c.write("restic.plan", strings.ReplaceAll(resticA, `"web"`, `"web\ngoes x `+idB+`"`))
		r := w.request(resticForget())
		w.mustApprove(r)
		w.arm()
		w.allow.runs = true
		must.Get(driver.Run(w.ctx, must.Get(w.gate.Permit(w.ctx, r.ID))(w.t), w.commands))(w.t)
		require.NoError(w.t, w.executor().record(w.ctx, w.stepOf(r.ID), nil))
		require.Equal(w.t, "forget --prune -- "+idA+"\n", string(must.Get(os.ReadFile(c.ran()))(w.t)))
		return refusal.Code(w.stepOf(r.ID).State)
	}},
}
