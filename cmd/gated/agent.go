package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"gated/internal/agent"
	"gated/internal/api"
	"gated/internal/cli"
	"gated/internal/client"
)

func (t *tool) agentCommand() *cobra.Command {
	return t.Group(cli.Words(help["agent"]), wordsNoAgentCommand, t.agentRegisterCommand(), t.agentListCommand(),
		t.agentWhoamiCommand(), t.agentUnregisterCommand())
}

func (t *tool) agentRegisterCommand() *cobra.Command {
	var pid int
	var file string
	c := t.command("agent register", cobra.ExactArgs(1), func(c *cobra.Command, args []string) error {
		if c.Flags().Changed("token-file") {
			if c.Flags().Changed("pid") {
				return cli.Usage(wordsPIDOrToken)
			}
			return t.registerToken(c.Context(), args[0], file)
		}
		byDefault := !c.Flags().Changed("pid")
		if byDefault {
			pid = os.Getppid()
		}
		if pid <= 0 {
			return cli.Usage(wordsNoParent)
		}
		return t.registerProcess(c.Context(), args[0], pid, byDefault)
	})
	c.Flags().IntVar(&pid, "pid", 0, flagPID)
	c.Flags().StringVar(&file, "token-file", "", flagTokenFile)
	_ = c.MarkFlagFilename("token-file") // the flag was just added
	return c
}

// registerProcess binds a name to a process, which may have been named or be
// the parent by default.
func (t *tool) registerProcess(ctx context.Context, name string, pid int, byDefault bool) error {
	reaper, err := agent.Reaper(ctx)
	if err != nil {
		return err
	}
	cl, err := t.clientWith("")
	if err != nil {
		return err
	}
	defer cl.Close()
	a, err := cl.RegisterAgent(ctx, api.RegisterAgent{Name: name, PID: pid, Reaper: reaper})
	if err != nil {
		return err
	}
	if what, short := runsOneCommand(pid); short && byDefault {
		t.Say(wordsWarning, endsWithCommand(name, pid, what))
	}
	if t.JSON {
		return t.Emit(a.Agent)
	}
	t.Print(wordsRegistered, cli.Inline(a.Name), process(a.PID))
	return nil
}

// registerToken registers a name that a token stands for, and keeps the token
// in a new file. It is written nowhere else, and a name whose token could not be
// kept is given back.
func (t *tool) registerToken(ctx context.Context, name, file string) error {
	if file == "" {
		return cli.Usage(wordsEmptyTokenFile)
	}
	if err := mayBeMade(file); err != nil {
		return err
	}
	cl, err := t.clientWith("")
	if err != nil {
		return err
	}
	defer cl.Close()
	a, err := cl.RegisterAgent(ctx, api.RegisterAgent{Name: name, Token: true})
	if err != nil {
		return err
	}
	if err := agent.WriteTokenFile(file, a.Token); err != nil {
		return cli.Usage(tokenNotKept(err, t.giveBack(ctx, a)))
	}
	if t.JSON {
		return t.Emit(a.Agent)
	}
	t.Print(wordsTokenKept, cli.Inline(a.Name), cli.Inline(file), cli.Inline(file))
	return nil
}

// mayBeMade finds out, before a name is taken for it, whether a file is new and
// has a directory to be in.
func mayBeMade(file string) error {
	if _, err := os.Lstat(file); err == nil {
		return tokenFileExists(file)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return cli.Usage(err.Error())
	}
	if _, err := os.Stat(filepath.Dir(file)); err != nil {
		return cli.Usage(err.Error())
	}
	return nil
}

// giveBack unregisters a name by its token, which is in no file.
func (t *tool) giveBack(ctx context.Context, a api.RegisteredAgent) error {
	cl, err := t.clientWith(a.Token)
	if err != nil {
		return err
	}
	defer cl.Close()
	_, err = cl.Unregister(ctx, a.Name)
	return err
}

// clientWith returns a client that calls with a token, or with none: whoever
// registers a name does not go by another one's.
func (t *tool) clientWith(token string) (*client.Client, error) {
	o, err := t.Where()
	if err != nil {
		return nil, err
	}
	o.Token, o.ReadToken = token, nil
	return client.New(o)
}

func (t *tool) agentListCommand() *cobra.Command {
	return t.command("agent list", cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		cl, err := t.Client()
		if err != nil {
			return err
		}
		defer cl.Close()
		agents, err := cl.Agents(c.Context())
		if err != nil {
			return err
		}
		rows := []string{wordsAgentsHead}
		for _, a := range agents {
			if !t.JSON {
				rows = append(rows, cli.Row(a.Name, boundTo(a), strconv.FormatUint(uint64(a.UID), 10), cli.Moment(a.RegisteredAt)))
			} else if err := t.Emit(a); err != nil {
				return err
			}
		}
		if t.JSON {
			return nil
		}
		return t.Table(rows...)
	})
}

func (t *tool) agentWhoamiCommand() *cobra.Command {
	return t.command("agent whoami", cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		cl, err := t.Client()
		if err != nil {
			return err
		}
		defer cl.Close()
		me, err := cl.Self(c.Context())
		if err != nil {
			return err
		}
		if t.JSON {
			return t.Emit(me)
		}
		if me.Agent == nil {
			t.Print(wordsNoName, me.UID)
		} else {
			t.Print(wordsNamed, cli.Inline(me.Agent.Name), boundTo(*me.Agent), cli.Moment(me.Agent.RegisteredAt))
		}
		if me.Why != "" {
			t.Print(wordsWhyNoName, cli.Inline(me.Why))
		}
		return nil
	})
}

func (t *tool) agentUnregisterCommand() *cobra.Command {
	c := t.command("agent unregister", cobra.ExactArgs(1), func(c *cobra.Command, args []string) error {
		cl, err := t.Client()
		if err != nil {
			return err
		}
		defer cl.Close()
		a, err := cl.Unregister(c.Context(), args[0])
		if err != nil {
			return err
		}
		if t.JSON {
			return t.Emit(a)
		}
		t.Print(wordsUnregistered, cli.Inline(a.Name))
		return nil
	})
	c.ValidArgsFunction = t.completeAgent
	return c
}

// process names a process by its pid and, where it can be seen, its command.
func process(pid int) string {
	text := strconv.Itoa(pid)
	comm, err := os.ReadFile("/proc/" + text + "/comm")
	if err != nil {
		return text
	}
	return text + " (" + cli.Inline(strings.TrimSuffix(string(comm), "\n")) + ")"
}

// boundTo says what an agent's name is bound to.
func boundTo(a api.Agent) string {
	switch {
	case a.PID == 0:
		return wordsByToken
	case !a.Alive:
		return fmt.Sprintf(wordsByEnded, a.PID)
	default:
		return fmt.Sprintf(wordsByProcess, process(a.PID))
	}
}

// bare reports whether a holder is a uid and no registered agent.
func bare(holder string) bool { return strings.HasPrefix(holder, "uid:") }
