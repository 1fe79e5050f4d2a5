package crash

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/client"
	"gated/client/api"
	"gated/internal/test/linear"
	"gated/internal/test/must"
)

// What the team does: five workers, each killed twice while it holds something
// and started again, with so many claims in each of its lives.
const (
	team   = 5
	lives  = 3
	claims = 15
)

// TestFiveAgentsOneCheckout has five agents in five processes work on one
// checkout, and kills each of them now and then. Nobody is ever in a file that
// somebody else has reserved, everything is free within its time when all have
// ended, and the audit log tells the same.
func TestFiveAgentsOneCheckout(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(*seed, 2))
	m := newMachine(t)
	root := must.Get(filepath.EvalSymlinks(m.dir))(t)
	root = filepath.Join(root, "checkout")
	for _, path := range linear.Paths {
		require.NoError(t, os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(root, path), nil, 0o600))
	}
	m.start()
	var wg sync.WaitGroup
	held := make([]int, team)
	for i := range team {
		own := rand.New(rand.NewPCG(r.Uint64(), 0))
		wg.Go(func() {
			for life := range lives {
				kill := 1 + own.IntN(claims/2)
				if life == lives-1 {
					kill = 0
				}
				n, err := employ(m.socket, root, i, own.IntN(1<<30), kill)
				for range team { // if another member ends while this one registers, the daemon says: try again
					if err != nil && n == 0 && strings.Contains(err.Error(), "cannot be told") {
						n, err = employ(m.socket, root, i, own.IntN(1<<30), kill)
					}
				}
				if held[i] += n; err != nil {
					t.Errorf("worker%d, life %d: %v", i, life, err)
					return
				}
			}
		})
	}
	wg.Wait()
	for i, n := range held {
		require.Positive(t, n, "worker%d never held anything", i)
	}
	m.nothingIsStuck(root)
	log := m.claimLog()
	require.Empty(t, checkClaims(log, root))
	m.sound("after the team")
	kinds := map[string]int{}
	for _, e := range log {
		kinds[e.Kind]++
	}
	for _, kind := range []string{"agent-registered", "agent-ended", "reserved", "renewed", "released", "transferred", "orphaned"} {
		require.Positive(t, kinds[kind], "%s: %v", kind, kinds)
	}
	t.Logf("held %v times; the log has %v", held, kinds)
}

// employ runs one life of a worker and returns how often it held something. It
// is killed when it has said so kill times, if that is not 0.
func employ(socket, root string, number, seed, kill int) (held int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", workerArg, socket, root, fmt.Sprint("worker", number), strconv.Itoa(team),
		strconv.Itoa(seed), strconv.Itoa(claims))
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if held++; held == kill {
			_ = cmd.Process.Kill()
		}
	}
	err = cmd.Wait()
	if kill > 0 && held >= kill && killed(err) && ctx.Err() == nil {
		return held, nil
	}
	if err != nil {
		err = fmt.Errorf("%w: %s", err, complaint.Bytes())
	}
	return held, err
}

// TestAWorkerSeesAnother: one that saw nothing would pass every gate.
func TestAWorkerSeesAnother(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "c")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	w := &worker{root: root, name: "worker0", out: t.Output()}
	r := api.Reservation{ID: "r1", Scope: root, Patterns: []string{"c"}, ExpiresAt: time.Now().Add(time.Hour)}
	quiet := func() error { return nil }
	require.NoError(t, w.edit(r, quiet))
	require.ErrorIs(t, w.edit(r, func() error { return os.WriteFile(path, []byte("mine"), 0o600) }), errDisturbed)
	require.ErrorIs(t, w.edit(r, func() error { return w.edit(r, quiet) }), unix.EWOULDBLOCK)
	r.ExpiresAt = time.Now().Add(-time.Second)
	require.NoError(t, w.edit(r, func() error { return os.WriteFile(path, []byte("mine"), 0o600) }), "its time was up")
}

// nothingIsStuck gets everything that there is once what was kept for the shortest time has ended, and leaves nothing behind. It
// waits longer than that time: a wait that ends with a reservation may end before it.
func (m *machine) nothingIsStuck(root string) {
	ctx, cancel := context.WithTimeout(m.t.Context(), patience)
	defer cancel()
	h := newHolders(m.t, m, filepath.Base(root))
	h.goes(true)
	all, ok := linear.SetOf(0, []string{"a/**", "b/*", "{b/2.md,c}"})
	require.True(m.t, ok)
	require.Equal(m.t, linear.Answer{}, h.Do(linear.Call{Kind: linear.Register, Agent: "last"}))
	got := h.Do(linear.Call{Kind: linear.Reserve, Agent: "last", Set: all, TTL: shortest, Wait: 3 * shortest})
	require.Empty(m.t, got.Refused, "something is stuck: %s", got)
	require.Equal(m.t, linear.Answer{}, h.Do(linear.Call{Kind: linear.End, Agent: "last"}))
	require.Empty(m.t, must.Get(m.client.AllReservations(ctx, client.ReservationQuery{}))(m.t))
	require.Empty(m.t, must.Get(m.client.Agents(ctx))(m.t))
}

// claimLog reads what the audit log has of reservations and agents.
func (m *machine) claimLog() (log []claimEntry) {
	ctx, cancel := context.WithTimeout(m.t.Context(), patience)
	defer cancel()
	scopes := must.Get(m.client.Scopes(ctx))(m.t)
	dirs := map[string]string{}
	for _, s := range scopes {
		dirs["scope/"+s.ID] = s.Path
	}
	require.NoError(m.t, m.client.Events(ctx, 0, false, func(e api.Entry) error {
		var x claimEntry
		err := json.Unmarshal(e.Raw, &x)
		x.Dir = dirs[x.Target]
		log = append(log, x)
		return err
	}))
	return log
}

// claimEntry is what the checker reads of an audit entry.
type claimEntry struct {
	Time        time.Time `json:"time"`
	Kind        string    `json:"kind"`
	Target      string    `json:"target"`
	Reservation string    `json:"reservation"`
	Patterns    []string  `json:"patterns"`
	Mode        string    `json:"mode"`
	Holder      string    `json:"holder"`
	Until       time.Time `json:"until"`
	Dir         string    `json:"-"` // of the target
}
