package main

import (
	"bufio"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gated/internal/cli"
	"gated/internal/life"
	"gated/internal/op"
	"gated/internal/signers"
)

func (t *tool) trustCommand() *cobra.Command {
	return t.Group(cli.Words(help["trust"]), wordsNoTrustCommand, t.trustShowCommand(), t.trustHistoryCommand(), t.trustRotateCommand(),
		t.trustAdoptCommand())
}

// trustVersion is one version of the list of signers as a program reads it.
type trustVersion struct {
	Epoch   int64     `json:"epoch"`
	Digest  string    `json:"sha256"`
	How     string    `json:"how"`
	At      time.Time `json:"at"`
	Signers []signer  `json:"signers"`
}

// signer is one line.
type signer struct {
	Line        int        `json:"line"`
	Principal   string     `json:"principal"` // of a CA's line, patterns
	Fingerprint string     `json:"fingerprint"`
	KeyType     string     `json:"key_type"`
	Roles       []op.Role  `json:"roles"`
	CA          bool       `json:"cert_authority"`
	Software    bool       `json:"software"`
	ValidAfter  *time.Time `json:"valid_after"`
	ValidBefore *time.Time `json:"valid_before"`
}

func trustVersionOf(v life.TrustVersion) trustVersion {
	out := trustVersion{Epoch: v.Epoch, Digest: v.Digest, How: v.How, At: v.At.UTC(), Signers: []signer{}}
	for _, l := range v.Listed {
		out.Signers = append(out.Signers, signer{Line: l.Line, Principal: l.Principal, Fingerprint: l.Key, KeyType: l.KeyType, Roles: l.Roles,
			CA: l.CA, Software: l.Software, ValidAfter: orNull(l.ValidAfter), ValidBefore: orNull(l.ValidBefore)})
	}
	return out
}

func orNull(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	at = at.UTC()
	return &at
}

func (t *tool) trustShowCommand() *cobra.Command {
	var dir string
	c := t.command("trust show", cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		all, err := life.TrustHistory(c.Context(), stateDir(dir))
		if err != nil {
			return err
		}
		newest := all[len(all)-1]
		if t.JSON {
			return t.Emit(trustVersionOf(newest))
		}
		for _, l := range newest.Listed {
			if shown := op.ShownName(l.Principal); shown != l.Principal {
				t.Say(wordsForeignName, l.Line, shown)
			}
		}
		_, err = t.Stdout.Write(newest.Text) // its own bytes, to be put where ssh-keygen reads them
		return err
	})
	t.stateOf(c, &dir)
	return c
}

func (t *tool) trustHistoryCommand() *cobra.Command {
	var dir string
	c := t.command("trust history", cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		all, err := life.TrustHistory(c.Context(), stateDir(dir))
		if err != nil {
			return err
		}
		rows := []string{wordsTrustHead}
		for _, v := range all {
			if !t.JSON {
				rows = append(rows, cli.Row(fmt.Sprint(v.Epoch), cli.Moment(v.At), v.How, fmt.Sprint(len(v.Listed)), v.Digest))
			} else if err := t.Emit(trustVersionOf(v)); err != nil {
				return err
			}
		}
		if t.JSON {
			return nil
		}
		return t.Table(rows...)
	})
	t.stateOf(c, &dir)
	return c
}

// adopted is the answer of an adoption.
type adopted struct {
	File    string    `json:"file"`
	Epoch   int64     `json:"epoch"`
	Digest  string    `json:"sha256"`
	Changes []string  `json:"changes"`
	Emptied []op.Role `json:"emptied_roles"` // in which nobody could sign any more
}

func (t *tool) trustAdoptCommand() *cobra.Command {
	var dir string
	var yes bool
	c := t.command("trust adopt", cobra.ExactArgs(1), func(c *cobra.Command, args []string) error {
		if !yes && !cli.IsTerminal(t.stdin) {
			return cli.Usage(wordsAdoptNeedsYes)
		}
		a, err := life.AdoptSigners(c.Context(), stateDir(dir), args[0], func(a signers.Adoption) error {
			t.Say(wordsAdopts, a.Epoch, op.Shown(a.File))
			for _, line := range a.Changes {
				t.Say("  %s\n", op.ShownName(line))
			}
			for _, role := range a.Emptied {
				t.Say(wordsEmptied, op.Shown(string(role)), emptiedMeans(role))
			}
			return t.agree(yes, wordsAgree, notAgreed())
		})
		if err != nil {
			return err
		}
		if t.JSON {
			return t.Emit(adopted{File: a.File, Epoch: a.Epoch, Digest: a.Digest, Changes: a.Changes, Emptied: a.Emptied})
		}
		if a.Unedited {
			t.Print(wordsUnedited, op.Shown(a.File), a.Epoch)
		} else {
			t.Print(wordsAdopted, op.Shown(a.File), a.Epoch)
		}
		return nil
	})
	t.stateOf(c, &dir)
	c.Flags().BoolVar(&yes, "yes", false, flagYes)
	return c
}

// agree asks whether to go on; only "yes" is one, and anything else is refused.
func (t *tool) agree(yes bool, question string, refusal error) error {
	if yes {
		return nil
	}
	t.Say("%s", question)
	line, err := bufio.NewReader(t.stdin).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != "yes" {
		return refusal
	}
	return nil
}
