package main

import (
	"time"

	"github.com/spf13/cobra"

	"gated/internal/cli"
	"gated/internal/op"
	"gated/internal/witness"
)

func (t *tool) witnessCheckCommand() *cobra.Command {
	c := t.command("witness check", cobra.ExactArgs(1), func(c *cobra.Command, args []string) error {
		// It is read before the gate is asked: a sound log has only grown since.
		records, err := t.readExport(args[0])
		if err != nil {
			return err
		}
		cl, err := t.Client()
		if err != nil {
			return err
		}
		defer cl.Close()
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
		if t.JSON {
			if err := t.Emit(comparison{head.Gate, head.Size, head.Root.String(), f.Record.Seen, f.Record.Address, f.Why == "", f.Why}); err != nil {
				return err
			}
			continue
		}
		words := wordsInLog
		if f.Why != "" {
			words = wordsNotInLog
		}
		t.Print(words, head.Size, head.Root, cli.Moment(f.Record.Seen), cli.Inline(f.Record.Address))
	}
	return differs
}
