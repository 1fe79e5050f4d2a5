package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gated/client"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/log/witness"
	"gated/internal/wire/cli"
)

func (t *tool) witnessCommand() *cobra.Command {
	c := t.Command(cli.Words{
		Use:   "witness",
		Short: "List what is remembered of gates' audit logs",
		Long: `Each time it connects, opsign demands a proof that the gate's audit log continues from the last head that
opsign saw. It refuses a log that was cut, rewritten or rolled back, and shows both heads, before anything is signed.
The heads are in $XDG_STATE_HOME/opsign/witness or ~/.local/state/opsign/witness.`,
		Example: "  opsign witness",
	}, cobra.NoArgs, func(*cobra.Command, []string) error { return t.listWitnesses() })
	c.AddCommand(t.witnessExportCommand(), t.witnessCheckCommand(), t.witnessReplaceCommand())
	return c
}

// remembered is what is remembered of one gate.
type remembered struct {
	Gate           op.GateID        `json:"gate"`
	Host           string           `json:"host"`
	Addresses      []client.Address `json:"addresses"` // at which it is known
	Entries        int64            `json:"entries"`
	Root           string           `json:"root"`
	Seen           time.Time        `json:"seen"`
	Contradictions int              `json:"contradictions"`
	File           string           `json:"file"`
}

func (t *tool) listWitnesses() error {
	all, unread := t.witnesses().List()
	gates, err := client.KnownGatesOf(t.Getenv).List()
	if err != nil {
		return err
	}
	rows, contradicted := []string{"GATE\tHOST\tADDRESS\tENTRIES\tROOT\tSEEN\tCONTRADICTED"}, false
	for _, m := range all {
		r := rememberedOf(m, gates)
		contradicted = contradicted || r.Contradictions > 0
		if !t.JSON {
			rows = append(rows, r.row())
		} else if err := t.Emit(r); err != nil {
			return err
		}
	}
	switch {
	case t.JSON || len(all) == 0 && unread != nil:
		return unread
	case len(all) == 0:
		t.Print("no gate's audit log is remembered yet\n")
		return nil
	case contradicted:
		t.Say("warning: a gate showed another log than the one that was remembered. The evidence: opsign witness export " +
			"GATE\n")
	}
	if err := t.Table(rows...); err != nil {
		return err
	}
	return unread
}

func rememberedOf(m witness.Memory, gates []client.KnownGate) remembered {
	head := m.Head.Head()
	r := remembered{Gate: m.Head.Gate, Host: m.Head.Host, Addresses: []client.Address{}, Entries: head.Size,
		Root: head.Root.String(),
		Seen: m.Head.Seen, Contradictions: len(m.Contradictions), File: m.Path}
	for _, k := range gates {
		if k.Gate == r.Gate {
			r.Addresses = append(r.Addresses, k.Address)
		}
	}
	return r
}

func (r remembered) row() string {
	at := make([]string, len(r.Addresses))
	for i, a := range r.Addresses {
		at[i] = string(a)
	}
	contradicted := ""
	if r.Contradictions > 0 {
		contradicted = fmt.Sprintf("%d times", r.Contradictions)
	}
	return cli.Row(string(r.Gate), r.Host, strings.Join(at, ","), fmt.Sprintf("%d", r.Entries), r.Root,
		cli.Moment(r.Seen), contradicted)
}

func (t *tool) witnessExportCommand() *cobra.Command {
	c := t.Command(cli.Words{
		Use:   "export [GATE]",
		Short: "Write the heads that are remembered, and what contradicted them, as evidence",
		Long: `One JSON object a line, with the gate's key and the signed note: a reader needs nothing else to check it. See
opsign witness check and, on the gate's host, gated audit verify --witness.`,
		Example: "  opsign witness export > heads.jsonl",
	}, cobra.MaximumNArgs(1), func(_ *cobra.Command, args []string) error {
		var all []witness.Memory
		var unread error // the sound files are evidence all the same
		if len(args) == 0 {
			all, unread = t.witnesses().List()
		} else {
			all, unread = t.witnessOf(op.GateID(args[0]))
		}
		if len(all) == 0 && unread == nil {
			return nothingRemembered()
		}
		text, err := witness.Export(all...)
		if err == nil {
			_, err = t.Stdout.Write(text)
		}
		if err != nil {
			return err
		}
		return unread
	})
	c.ValidArgsFunction = cli.CompleteFirst(t.completeRemembered)
	return c
}

// completeRemembered completes the ids of the gates of which something is
// remembered.
func (t *tool) completeRemembered() ([]string, cobra.ShellCompDirective) {
	return cli.CompleteFrom(func(context.Context) (out []string, err error) {
		all, err := t.witnesses().List()
		for _, m := range all {
			out = append(out, string(m.Head.Gate)+"\t"+m.Head.Host)
		}
		return out, err
	})
}

// witnessReplaceCommand holds a gate to the key that its operator read on its
// host.
func (t *tool) witnessReplaceCommand() *cobra.Command {
	var key string
	c := t.Command(cli.Words{
		Use:   "replace GATE --key KEY",
		Short: "Hold a gate to another key than that of the head that is remembered",
		Long: `For the case that an impostor with the gate's id was seen first. KEY is what gated audit head prints on the
gate's own host: read it there, not here. opsign then remembers the largest refused head with that key. The old head
stays, as evidence.`,
		Example: "  opsign witness replace 0123456789abcdef0123456789abcdef --key " +
			"gated/0123456789abcdef0123456789abcdef+b37e50a1+AY...",
	}, cobra.ExactArgs(1), func(c *cobra.Command, args []string) error {
		gate := op.GateID(args[0])
		if !gate.Valid() {
			return noGateID(args[0])
		}
		if key == "" {
			return cli.Usage("say with --key which key the gate has: gated audit head on its host prints it")
		}
		was, is, err := t.witnesses().Replace(c.Context(), gate, key)
		var not *witness.NotKept
		if errors.As(err, &not) {
			return refusal.New(refusal.NotAllowed, "%v", not)
		}
		if err != nil {
			return err
		}
		head, old := is.Head(), was.Head()
		return t.Answer(is, "gate %s is held to the key %s from now on: %d entries, root %s\nwhat was seen at %s stays as evidence: "+
			"%d entries, root %s\n", gate, op.Shown(is.Key), head.Size, head.Root, op.Shown(was.Address), old.Size, old.Root)
	})
	c.Flags().StringVar(&key, "key", "", "the gate's public `KEY`, as gated audit head prints it on its host")
	c.ValidArgsFunction = cli.CompleteFirst(t.completeRemembered)
	return c
}

// witnessOf returns what is remembered of one gate, none if nothing is.
func (t *tool) witnessOf(gate op.GateID) ([]witness.Memory, error) {
	if !gate.Valid() {
		return nil, noGateID(string(gate))
	}
	m, err := t.witnesses().Remembered(gate)
	if err != nil || m == nil {
		return nil, err
	}
	return []witness.Memory{*m}, nil
}

func nothingRemembered() error {
	return refusal.New(refusal.UnknownTarget, "nothing is remembered of such a gate's audit log").
		WithHint("opsign witness lists what is")
}

func noGateID(text string) error {
	return refusal.New(refusal.Malformed, "%q is not a gate's id, which has 32 lower-case hex digits", text).
		WithHint("opsign witness lists them")
}

// witnesses are the heads that are remembered.
func (t *tool) witnesses() witness.Dir { return witness.DirOf(t.Getenv, t.now) }

// witness demands that a gate's audit log goes on from what is remembered of it
// (witness.Dir.Check), and returns what to say of it. A head that cannot be
// remembered is a reason to refuse a gate of another host (NotAllowed), as one
// that cannot be pinned is.
func (t *tool) witness(ctx context.Context, cl *client.Client, of witness.Gate) (*witness.Checked, string, error) {
	d := t.witnesses()
	checked, err := d.Check(ctx, of, gateLog{cl})
	at := cl.Address()
	var unsigned *witness.Unsigned
	var not *witness.NotKept
	switch {
	case errors.As(err, &unsigned):
		return nil, fmt.Sprintf("warning: gate %s signs no head of its audit log, so opsign cannot notice if it is cut or "+
			"rewritten. It is an older gated, or the log is broken: gated audit verify\n", of.ID), nil
	case errors.As(err, &not) && at.Remote():
		return nil, "", cannotRemember(at, not)
	case errors.As(err, &not):
		return &checked, fmt.Sprintf("warning: at %s: %s\n", op.Shown(string(at)), op.Shown(not.Error())), nil
	case err != nil:
		return nil, "", err
	case checked.First:
		return &checked, fmt.Sprintf("the audit log of gate %s is remembered from now on: %d entries, in %s\n",
			of.ID, checked.Head.Size, op.Shown(d.File(of.ID))), nil
	}
	return &checked, "", nil
}

// gateLog asks a gate about its log.
type gateLog struct{ client *client.Client }

// Head implements witness.Log.
func (g gateLog) Head(ctx context.Context) (witness.Shown, error) {
	h, err := g.client.AuditHead(ctx)
	return witness.Shown{Seq: h.Seq, Note: h.Note, Key: h.Key}, err
}

// Consistency implements witness.Log.
func (g gateLog) Consistency(ctx context.Context, old, size int64) ([]string, error) {
	c, err := g.client.Consistency(ctx, old, size)
	return c.Proof, err
}

func cannotRemember(at client.Address, not *witness.NotKept) error {
	return refusal.New(refusal.NotAllowed, "%s: %v", at, not).
		WithHint("nothing was signed. Make room for it, or set XDG_STATE_HOME to a directory where it may be written")
}

func (t *tool) witnessCheckCommand() *cobra.Command {
	c := t.Command(cli.Words{
		Use:   "check FILE",
		Short: "Compare the heads that another operator remembers with the log that the gate shows here",
		Long: `FILE is what opsign witness export wrote on the other operator's machine, or - for standard input. Exits 1 if
one of the heads is not of this log: the gate showed the two of you different logs.`,
		Example: "  opsign witness check heads.jsonl",
	}, cobra.ExactArgs(1), func(c *cobra.Command, args []string) error {
		// It is read before the gate is asked: a sound log has only grown since.
		records, err := t.readExport(args[0])
		if err != nil {
			return err
		}
		return t.With(func(cl *client.Client) error {
			s, checked, err := t.witnessedGate(c.Context(), cl)
			if err != nil {
				return err
			}
			if checked == nil {
				return nothingToCompare(s.Gate)
			}
			found, err := witness.Compare(c.Context(), *checked, records, gateLog{cl})
			if err != nil {
				return err
			}
			return t.compared(*checked, found)
		})
	})
	c.ValidArgsFunction = nil // files
	return c
}

func (t *tool) readExport(name string) ([]witness.Record, error) {
	var text []byte
	var err error
	if name == "-" {
		text, err = cli.Read(t.stdin, "standard input", witness.MaxExport)
	} else {
		text, err = cli.ReadFile(name, witness.MaxExport)
	}
	if err != nil {
		return nil, err
	}
	return witness.ParseExport(text)
}

// comparison is how one head of another witness goes together with the log.
type comparison struct {
	Gate    op.GateID   `json:"gate"`
	Entries int64       `json:"entries"`
	Root    string      `json:"root"`
	Seen    time.Time   `json:"seen"`
	Address string      `json:"address"`
	InLog   bool        `json:"in_log"`
	Why     witness.Why `json:"why,omitempty"`
}

// compared says what was found of each head, and refuses if one is not of the
// log that is shown here.
func (t *tool) compared(checked witness.Checked, found []witness.Finding) error {
	if len(found) == 0 {
		return noHeadOf(checked.Head.Gate)
	}
	var differs error
	for _, f := range found {
		head := f.Record.Head()
		if f.Why != "" && differs == nil {
			differs = logsDiffer(checked, f)
		}
		words := "in the log: %d entries, root %s, seen %s at %s\n"
		if f.Why != "" {
			words = "NOT in the log: %d entries, root %s, seen %s at %s\n"
		}
		is := comparison{head.Gate, head.Size, head.Root.String(), f.Record.Seen, f.Record.Address, f.Why == "", f.Why}
		if err := t.Answer(is, words, head.Size, head.Root, cli.Moment(f.Record.Seen), cli.Inline(f.Record.Address)); err != nil {
			return err
		}
	}
	return differs
}

func nothingToCompare(gate op.GateID) error {
	return refusal.New(refusal.BindingMismatch,
		"gate %s signs no head of its audit log: there is nothing to compare with", gate).
		WithHint("gated audit verify and gated --version on its host say why")
}

func noHeadOf(gate op.GateID) error {
	return refusal.New(refusal.UnknownTarget, "the file has no head of gate %s, which answers", gate).
		WithHint("a gate that was restored has a new id; opsign -H ADDRESS witness check names another one")
}

func logsDiffer(checked witness.Checked, f witness.Finding) error {
	was, is := f.Record.Head(), checked.Head
	return refusal.New(refusal.BindingMismatch, "the log of gate %s that is shown here is not the one that the other "+
		"witness was shown: %s\nthere: %d entries, root %s, seen %s\nhere:  %d entries, root %s",
		is.Gate, f.Why, was.Size, was.Root, cli.Moment(f.Record.Seen), is.Size, is.Root).
		WithHint("sign nothing of this gate. One of you was shown a log that is not the gate's, or it was changed in " +
			"between: take both exports " +
			"to its administrator (gated audit verify --witness FILE on its host)")
}
