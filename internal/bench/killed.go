package bench

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"

	"gated/internal/api"
)

// kills is how many agents are killed.
const kills = 60

// killed measures how long what an agent has reserved is not free after it was
// killed: until the answer of somebody who waits for it.
func (b *bench) killed() (err error) {
	dir, err := b.state("killed")
	if err != nil {
		return err
	}
	at, err := b.scope("killed-checkout")
	if err != nil {
		return err
	}
	p, _, err := startProcess(b.ctx, socketIn(dir), b.program("gated"), "serve", "--state", dir, "--socket", socketIn(dir))
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, p.stop()); err == nil {
			err = b.consistent(dir)
		}
	}()
	waiting, err := join(p.socket, "waiting")
	if err != nil {
		return err
	}
	defer waiting.Close()
	looking, err := dial(p.socket)
	if err != nil {
		return err
	}
	defer looking.Close()
	var took []float64
	for i := range kills {
		d, err := b.killOne(p.socket, at, i, waiting, looking)
		if err != nil {
			return err
		}
		took = append(took, inMillis(d))
	}
	b.table.add(row{fmt.Sprintf("free after its agent was killed, slowest of %d", kills), quantile(took, 1), milliseconds, 100,
		fmt.Sprintf("p50 %.2f ms, p95 %.2f ms; until one who waits is answered", middle(took), quantile(took, 0.95))})
	return nil
}

// killOne has an agent reserve something, kills it while another one waits for
// that, and returns how long it then took.
func (b *bench) killOne(socket string, at api.Place, i int, waiting *holding, looking *conn) (time.Duration, error) {
	path := fmt.Sprintf("src/f%d.go", i)
	agent, err := b.employ(socket, at.Path, fmt.Sprintf("agent%d", i), path)
	if err != nil {
		return 0, err
	}
	claim, err := waiting.claim(api.Reserve{Scope: at, Patterns: []string{"src/**"}, WaitSeconds: int64(patience / time.Second)})
	if err != nil {
		return 0, err
	}
	if _, err := waiting.Write(claim); err != nil {
		return 0, err
	}
	// By the time of this answer the claim waits. If it did not yet, what is
	// measured would only be more.
	if err := b.holds(looking, at, path); err != nil {
		return 0, err
	}
	began := now()
	if err := agent.Process.Signal(unix.SIGKILL); err != nil {
		return 0, err
	}
	answer, err := waiting.answer()
	took := now().Sub(began)
	_ = agent.Wait() // it was killed
	if err != nil {
		return 0, err
	}
	_, err = waiting.do(waiting.release(between(answer, `"id":"`)))
	return took, err
}

// employ starts a process that is an agent and has a path reserved.
func (b *bench) employ(socket, dir, name, path string) (*exec.Cmd, error) {
	cmd := exec.CommandContext(b.ctx, "/bin/sh", "-c", `"$0" agent register "$1" >&2 && "$0" reserve "$2" >&2 && echo && exec sleep 600`,
		b.program("gated"), name, path)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GATED_SOCKET="+socket)
	cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		return nil, errors.Join(fmt.Errorf("%s got nothing: %w", name, err), cmd.Wait())
	}
	return cmd, nil
}

// holds asserts that somebody has a path.
func (b *bench) holds(c *conn, at api.Place, path string) error {
	request, err := post("/v1/reservations/check", api.Check{Scope: at, Patterns: []string{path}})
	if err != nil {
		return err
	}
	answer, err := c.do(request)
	if err == nil && between(answer, `"agent":"`) == "" {
		err = fmt.Errorf("nobody has %s: %.300s", path, answer)
	}
	return err
}
