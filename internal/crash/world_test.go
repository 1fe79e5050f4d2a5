package crash

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/api"
	"gated/internal/client"
	"gated/internal/op"
	"gated/internal/sign"
)

// world is a state directory and all that the test was told about it.
type world struct {
	t             *testing.T
	state, socket string
	key           sign.Signer

	mu       sync.Mutex
	answers  int                     // of the daemon, in its present life
	killAt   int                     // how many answers that life gives
	shot     chan struct{}           // closed when it has given them
	jobs     map[string]string       // acknowledged: what for
	approved map[string]api.Envelope // acknowledged approvals, by request
	tried    map[string]bool         // guests that somebody signed for, answered or not
	made     map[string]bool         // guests that were made and marked
	named    int
}

func newWorld(t *testing.T) *world {
	dir, err := os.MkdirTemp("", "gc-") // short: a socket's path has 107 bytes
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	w := &world{t: t, state: filepath.Join(dir, "state"), socket: filepath.Join(dir, "s"), jobs: map[string]string{},
		approved: map[string]api.Envelope{}, tried: map[string]bool{}, made: map[string]bool{}}
	keygen, err := exec.LookPath("ssh-keygen")
	if err != nil {
		t.Skip("ssh-keygen is not installed")
	}
	key := filepath.Join(dir, "alice")
	require.NoError(t, exec.Command(keygen, "-q", "-t", "ed25519", "-N", "", "-C", "alice@example.com", "-f", key).Run())
	out, err := exec.Command(gatedProgram, "init", "--state", w.state, "--host", "crash", "--operator", key+".pub").CombinedOutput()
	require.NoError(t, err, "%s", out)
	w.key, err = sign.KeyFile(key, nil)
	require.NoError(t, err)
	return w
}

// answered counts one answer, and shoots when it was the last of this life.
func (w *world) answered(note func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	note()
	if w.answers++; w.answers == w.killAt {
		close(w.shot)
	}
}

// live has callers work on the daemon until it was killed, n answers later.
func (w *world) live(d *daemon, r *rand.Rand, n int) {
	w.answers, w.killAt, w.shot = 0, n, make(chan struct{})
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	var wg sync.WaitGroup
	for range 4 {
		seed := r.Uint64()
		wg.Go(func() { w.work(ctx, d.client, rand.New(rand.NewPCG(seed, 1))) })
	}
	select {
	case <-w.shot:
	case err := <-d.ended:
		w.t.Fatalf("the daemon ended by itself: %v\n%s", err, d.log.String())
	}
	d.kill(w.t)
	cancel()
	wg.Wait()
}

// work asks for one thing after the other until the daemon is gone.
func (w *world) work(ctx context.Context, c *client.Client, r *rand.Rand) {
	for ctx.Err() == nil {
		var err error
		switch r.IntN(5) {
		case 0, 1:
			err = w.create(ctx, c)
		case 2, 3:
			err = w.destroy(ctx, c, w.pick(r))
		default:
			err = w.undelete(ctx, c, w.pick(r))
		}
		var refusal *op.Refusal
		if err != nil && !errors.As(err, &refusal) {
			return // the daemon was killed
		}
	}
}

// pick returns the name of a guest that was made, or "".
func (w *world) pick(r *rand.Rand) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.named == 0 {
		return ""
	}
	return fmt.Sprintf("g%d", 1+r.IntN(w.named))
}

func (w *world) submit(ctx context.Context, c *client.Client, what, name string) (api.Job, error) {
	j, err := c.Submit(ctx, api.SubmitOf("crash", op.Ask{Op: what, Target: op.Target{Kind: "guest", Name: name}}), "")
	if err == nil {
		w.answered(func() { w.jobs[j.ID] = what + " " + name })
	}
	return j, err
}

// create makes a guest and puts something precious into it.
func (w *world) create(ctx context.Context, c *client.Client) error {
	w.mu.Lock()
	w.named++
	name := fmt.Sprintf("g%d", w.named)
	w.mu.Unlock()
	j, err := w.submit(ctx, c, "guest.create", name)
	if err != nil {
		return err
	}
	if _, err := c.AwaitJob(ctx, j.ID, func(j api.Job) bool { return !j.State.Open() }); err != nil {
		return err
	}
	// While nobody signed for it, it is nobody's to take away.
	if err := os.WriteFile(w.precious(name), []byte("kept by "+name), 0o600); err != nil {
		return op.Refuse(op.Conflict, "somebody destroyed it already")
	}
	w.answered(func() { w.made[name] = true })
	return nil
}

func (w *world) precious(name string) string {
	return filepath.Join(w.state, "guests", name, "data", "precious")
}

// destroy asks, signs and approves. Whether it was decided is known only if the
// answer came.
func (w *world) destroy(ctx context.Context, c *client.Client, name string) error {
	if name == "" {
		return nil
	}
	j, err := w.submit(ctx, c, "guest.destroy", name)
	if err != nil || len(j.Steps) == 0 || j.Steps[0].State != op.StatePending {
		return err
	}
	id := j.Steps[0].ID
	payload, err := c.Payload(ctx, id)
	if err != nil {
		return err
	}
	armor, err := w.key.Sign(ctx, op.Operational, payload)
	if err != nil {
		return err
	}
	e := api.EnvelopeOf(payload, armor)
	w.mu.Lock()
	w.tried[name] = true
	w.mu.Unlock()
	if _, err = c.Approve(ctx, id, e); err == nil {
		w.answered(func() { w.approved[id] = e })
	}
	return err
}

func (w *world) undelete(ctx context.Context, c *client.Client, name string) error {
	if name == "" {
		return nil
	}
	_, err := w.submit(ctx, c, "guest.undelete", name)
	return err
}

// check looks at everything that was acknowledged in all lives so far.
func (w *world) check(d *daemon) {
	t, ctx := w.t, w.t.Context()
	t.Helper()
	list, err := d.client.Jobs(ctx, client.JobQuery{Limit: 1})
	require.NoError(t, err)
	require.NotEmpty(t, list.Jobs)
	for id, what := range w.jobs {
		j, err := d.client.AwaitJob(ctx, id, settled)
		require.NoError(t, err, "job %s (%s) was acknowledged", id, what)
		require.Equal(t, what, j.Steps[0].Op+" "+strings.TrimPrefix(j.Steps[0].Target, "guest/"))
	}
	for id, e := range w.approved {
		_, err := d.client.Approve(ctx, id, e)
		require.Error(t, err, "the approval of %s counts again", id)
		require.Contains(t, []op.Code{op.Replayed, op.Superseded, op.Cancelled, op.Expired}, op.CodeOf(err), "%s: %v", id, err)
		_, err = d.client.SubmitSigned(ctx, e)
		require.Error(t, err, "the approval of %s counts again as an operation", id)
	}
	for name := range w.made {
		require.NoError(t, w.lost(name), "somebody signed for it: %v", w.tried[name])
	}
	left, err := filepath.Glob(filepath.Join(w.state, "guests", ".new-*"))
	require.NoError(t, err)
	require.Empty(t, left, "half-made guests")
	fsck(t, w.state)
}

// settled holds for a job that ended or waits for people.
func settled(j api.Job) bool { return !j.State.Open() || j.State == op.StatePending }

// lost says what is wrong with a guest that was made: it has to be there as it
// was, or in the trash as it was because somebody signed for that.
func (w *world) lost(name string) error {
	text, err := os.ReadFile(w.precious(name))
	if errors.Is(err, fs.ErrNotExist) && w.tried[name] {
		found, globErr := filepath.Glob(filepath.Join(w.state, "guests", ".trash", name+"~*", "data", "precious"))
		if globErr != nil || len(found) != 1 {
			return fmt.Errorf("%s is neither there nor once in the trash: %v %v", name, found, globErr)
		}
		text, err = os.ReadFile(found[0])
	}
	if err == nil && string(text) != "kept by "+name {
		err = fmt.Errorf("%s holds %q", name, text)
	}
	return err
}
