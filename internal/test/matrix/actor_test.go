package matrix_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"

	"gated/client"
	"gated/client/api"
	"gated/internal/agents/agent"
	"gated/internal/base/refusal"
)

// player is an actor from inside: a process that calls the daemon as it is told
// over a connection to the test, one line each.
type player struct {
	control, socket string
	client          *client.Client
	lent            *http.Client // over a connection that another process opened
}

// play obeys until the test lets go.
func play(ctx context.Context, control, socket, label string) error {
	c, err := client.New(client.Options{Socket: socket, Getenv: func(string) string { return "" }})
	if err != nil {
		return err
	}
	conn, err := net.Dial("unix", control)
	if err != nil {
		return err
	}
	p := &player{control: control, socket: socket, client: c}
	fmt.Fprintln(conn, label, os.Getpid())
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		answer, err := p.obey(ctx, strings.Fields(lines.Text()))
		if err != nil {
			answer = string(refusal.CodeOf(err)) + " " + strings.ReplaceAll(err.Error(), "\n", " ")
		} else {
			answer = "ok " + answer
		}
		fmt.Fprintln(conn, answer)
	}
	return nil
}

func (p *player) obey(ctx context.Context, words []string) (string, error) {
	switch rest := words[1:]; words[0] {
	case "self":
		me, err := p.client.Self(ctx)
		if err != nil || me.Agent == nil {
			return "-", err
		}
		return me.Agent.ID, nil
	case "register": // NAME PID [REAPER]
		return p.register(ctx, rest)
	case "reserve": // DIR PATTERN
		r, err := p.client.Reserve(ctx, api.Reserve{Scope: wireplace(rest[0]), Patterns: rest[1:], Keep: true, TTLSeconds: 3600})
		return r.ID, err
	case "unregister":
		_, err := p.client.Unregister(ctx, rest[0])
		return "", err
	case "token": // NAME: from then on this process goes by that
		return p.takeToken(ctx, rest[0])
	case "release":
		_, err := p.client.Release(ctx, rest[0])
		return "", err
	case "start":
		return "", p.start(rest[0], rest[1:], nil)
	case "lend": // a connection of this process's to another one
		conn, err := net.Dial("unix", p.socket)
		if err != nil {
			return "", err
		}
		file, err := conn.(*net.UnixConn).File()
		if err != nil {
			return "", err
		}
		return "", p.start(rest[0], rest[1:], file)
	case "borrowed": // METHOD PATH, over the connection that this process was lent
		return p.overLent(ctx, rest[0], rest[1])
	case "subreaper":
		return "", unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	case "parent":
		return strconv.Itoa(os.Getppid()), nil
	case "exit":
		os.Exit(0)
	}
	return "", errors.New("what?")
}

// register names a process by a number; what is measured is the truth unless
// something else is to be said.
func (p *player) register(ctx context.Context, rest []string) (string, error) {
	pid, err := strconv.Atoi(rest[1])
	if err != nil {
		return "", err
	}
	reaper := 0
	if len(rest) > 2 {
		reaper, err = strconv.Atoi(rest[2])
	} else {
		reaper, err = agent.Reaper(ctx)
	}
	if err != nil {
		return "", err
	}
	a, err := p.client.RegisterAgent(ctx, api.RegisterAgent{Name: rest[0], PID: pid, Reaper: reaper})
	return a.ID, err
}

func (p *player) takeToken(ctx context.Context, name string) (string, error) {
	a, err := p.client.RegisterAgent(ctx, api.RegisterAgent{Name: name, Token: true})
	if err != nil {
		return "", err
	}
	p.client, err = client.New(client.Options{Socket: p.socket, Token: a.Token, Getenv: func(string) string { return "" }})
	return a.ID, err
}

func (p *player) start(label string, how []string, lent *os.File) error {
	cmd, err := actorCommand(p.control, p.socket, label, how)
	if err != nil {
		return err
	}
	if lent != nil {
		cmd.ExtraFiles = []*os.File{lent}
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if cmd.Path == "/bin/sh" {
		return cmd.Wait() // it leaves the actor behind
	}
	go func() { _ = cmd.Wait() }()
	return nil
}

// actorCommand is an actor that is started in some way.
func actorCommand(control, socket, label string, how []string) (*exec.Cmd, error) {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(orders{What: "act", Dir: socket, Call: []string{control, label}})
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Path, cmd.Dir = "/proc/self/exe", "/" // which other uids reach, too
	cmd.Env = []string{"GORACE=atexit_sleep_ms=0", helperEnv + "=" + string(text)}
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	for _, h := range how {
		switch h {
		case "setsid":
			cmd.SysProcAttr.Setsid = true
		case "orphan":
			cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", `"$0" & exit 0`, self}
		case "stranger":
			cmd.SysProcAttr.Credential = &syscall.Credential{Uid: stranger, Gid: callers}
		case "pidns":
			cmd.SysProcAttr.Cloneflags = unix.CLONE_NEWPID
		}
	}
	return cmd, nil
}

// overLent makes one call over the connection that this process was lent.
func (p *player) overLent(ctx context.Context, method, path string) (string, error) {
	if p.lent == nil {
		conn, err := net.FileConn(os.NewFile(3, "lent"))
		if err != nil {
			return "", err
		}
		p.lent = &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }}}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://gated"+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := p.lent.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	var problem api.Problem
	if err == nil && api.DecodeAnswer(answer, &problem) == nil && problem.Code != "" {
		err = problem.Refusal()
	}
	return strings.ReplaceAll(string(answer), "\n", " "), err
}

// wireplace is a directory as its caller sees it.
func wireplace(dir string) api.Place {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		panic(err)
	}
	return api.Place{Path: dir, Device: st.Dev, Inode: st.Ino}
}
