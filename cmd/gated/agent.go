package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"gated/client"
	"gated/client/api"
	"gated/internal/agents/agent"
	"gated/internal/base/refusal"
	"gated/internal/wire/cli"
)

func (t *tool) agentCommand() *cobra.Command {
	return t.Group(cli.Words{
		Use:   "agent",
		Short: "Give names to processes, and list them",
		Long:  `A name is bound to a process. Every process that descends from it has the name too. A name is no secret.`,
		Example: "  gated agent register builder\n" +
			"  gated agent whoami",
	}, "say register, list, whoami or unregister",
		t.agentRegisterCommand(), t.agentListCommand(),
		t.agentWhoamiCommand(), t.agentUnregisterCommand())
}

func (t *tool) agentRegisterCommand() *cobra.Command {
	var pid int
	var file string
	c := t.Command(cli.Words{
		Use:   "register NAME",
		Short: "Bind a name to a process of yours and to those that it starts",
		Long: `Without --pid, the name is bound to the process that called this: your shell, or the agent that ran the
command. An agent that runs each command in a new shell says --pid $PPID, the parent of that shell. Otherwise the name
would end with the shell. When the process ends, its name ends, and so does every reservation under that name that was
made without --keep.

--token-file is for containers: the daemon cannot see their processes. The name is bound to a secret in a new file
that only its owner can read. A process that sets GATED_AGENT_TOKEN_FILE to that file has the name.`,
		Example: "  gated agent register builder\n" +
			"  gated agent register builder --pid $PPID\n" +
			"  gated agent register boxed --token-file ~/.gated-token",
	}, cobra.ExactArgs(1), func(c *cobra.Command, args []string) error {
		if c.Flags().Changed("token-file") {
			if c.Flags().Changed("pid") {
				return cli.Usage("a name is bound to a process (--pid) or to a token (--token-file), not to both")
			}
			return t.registerToken(c.Context(), args[0], file)
		}
		byDefault := !c.Flags().Changed("pid")
		if byDefault {
			pid = os.Getppid()
		}
		if pid <= 0 {
			return cli.Usage("the process that called this cannot be seen from here: say --pid, or in a container --token-file")
		}
		return t.registerProcess(c.Context(), args[0], pid, byDefault)
	})
	c.Flags().IntVar(&pid, "pid", 0, "the `PID` of the process to name (default the caller's parent)")
	c.Flags().StringVar(&file, "token-file", "",
		"for containers: bind the name to a secret, and keep that in the new `FILE`")
	_ = c.MarkFlagFilename("token-file") // the flag was just added
	return c
}

const wordsWarning = "warning: %s\n"

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
	return t.Answer(a.Agent, "%s is process %s and what it starts\n", cli.Inline(a.Name), process(a.PID))
}

// registerToken registers a name that a token stands for, and keeps the token
// in a new file. It is written nowhere else, and a name whose token could not be
// kept is given back.
func (t *tool) registerToken(ctx context.Context, name, file string) error {
	if file == "" {
		return cli.Usage("--token-file is empty: name the new file")
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
	return t.Answer(a.Agent, "%s is the process that has the token in %s\n  export GATED_AGENT_TOKEN_FILE=%s\n",
		cli.Inline(a.Name), cli.Inline(file), cli.Inline(file))
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
	return t.Asking(cli.Words{
		Use:     "list",
		Short:   "List the registered agents",
		Example: "  gated agent list",
	}, cobra.NoArgs, func(c *cobra.Command, cl *client.Client, _ []string) error {
		agents, err := cl.Agents(c.Context())
		if err != nil {
			return err
		}
		if t.JSON {
			return cli.Each(&t.Tool, nil, agents...)
		}
		rows := []string{"NAME\tBOUND TO\tUID\tSINCE"}
		for _, a := range agents {
			rows = append(rows, cli.Row(a.Name, boundTo(a), cli.Inline(a.Account()), cli.Moment(a.RegisteredAt)))
		}
		return t.Table(rows...)
	})
}

func (t *tool) agentWhoamiCommand() *cobra.Command {
	return t.Asking(cli.Words{
		Use:     "whoami",
		Short:   "Say which agent the daemon takes you for, and why",
		Example: "  gated agent whoami",
	}, cobra.NoArgs, func(c *cobra.Command, cl *client.Client, _ []string) error {
		me, err := cl.Self(c.Context())
		if err != nil {
			return err
		}
		if t.JSON {
			return t.Emit(me)
		}
		if me.Agent == nil {
			t.Print("uid:%s, no registered agent\n", cli.Inline(me.Account()))
		} else {
			t.Print("%s, by %s, since %s\n", cli.Inline(me.Agent.Name), boundTo(*me.Agent), cli.Moment(me.Agent.RegisteredAt))
		}
		if me.Why != "" {
			t.Print("  %s\n", cli.Inline(me.Why))
		}
		return nil
	})
}

func (t *tool) agentUnregisterCommand() *cobra.Command {
	c := t.Asking(cli.Words{
		Use:   "unregister NAME",
		Short: "Give back a name, and its reservations that were made without --keep",
		Long: `Only the agent that has the name may do this. An operator may free the name of a lost token if nothing is
reserved under it. The name of a process is free when that process ends.`,
		Example: "  gated agent unregister builder",
	}, cobra.ExactArgs(1), func(c *cobra.Command, cl *client.Client, args []string) error {
		a, err := cl.Unregister(c.Context(), args[0])
		if err != nil {
			return err
		}
		return t.Answer(a, "%s is no registered agent any more\n", cli.Inline(a.Name))
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
		return "a token"
	case !a.Alive:
		return fmt.Sprintf("process %d, which has ended", a.PID)
	default:
		return fmt.Sprintf("process %s", process(a.PID))
	}
}

// bare reports whether a holder is a uid and no registered agent.
func bare(holder string) bool { return strings.HasPrefix(holder, "uid:") }

// endsWithCommand warns of a name that was bound to a shell of one command.
func endsWithCommand(name string, pid int, shell string) string {
	return fmt.Sprintf("process %d is a shell that was started for one command (%s -c), and the name %s ends "+
		"with it; to name the process that started the shell: --pid $PPID", pid, cli.Inline(shell), cli.Inline(name))
}

// tokenNotKept says why there is no file with the token, and what became of the
// name.
func tokenNotKept(err, givingBack error) string {
	text := "the token cannot be kept: " + err.Error()
	if givingBack != nil {
		text += "; and the name cannot be given back: " + givingBack.Error()
	}
	return text
}

func tokenFileExists(path string) error {
	return refusal.New(refusal.Conflict, "%s exists", path).
		WithHint("name a new file, or remove this one if its token names " +
			"no agent any more")
}

// shells are programs that run one command and end when they were told so.
var shells = map[string]bool{"sh": true, "bash": true, "dash": true, "zsh": true, "ksh": true, "ash": true,
	"fish": true}

// runsOneCommand reports whether a process is a shell that was started for one
// command, as sh -c is, and by what it was called. It is about what the process
// says of itself, and so good for a warning alone.
func runsOneCommand(pid int) (string, bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return "", false
	}
	var args []string
	for _, arg := range bytes.Split(bytes.TrimSuffix(b, []byte{0}), []byte{0}) {
		args = append(args, string(arg))
	}
	return filepath.Base(args[0]), forOneCommand(args)
}

// forOneCommand reports whether a command line is a shell's with -c.
func forOneCommand(args []string) bool {
	if !shells[strings.TrimPrefix(filepath.Base(args[0]), "-")] {
		return false
	}
	for i := 1; i < len(args); i++ {
		option := args[i]
		switch {
		case option == "--" || len(option) < 2 || option[0] != '-' && option[0] != '+':
			return false // a script, or what it reads
		case strings.HasPrefix(option, "--"):
			continue
		case option[0] == '-' && strings.ContainsRune(option, 'c'):
			return true
		case strings.HasSuffix(option, "o") || strings.HasSuffix(option, "O"):
			i++ // its value
		}
	}
	return false
}
