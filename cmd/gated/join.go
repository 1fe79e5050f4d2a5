package main

import (
	"github.com/spf13/cobra"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/life"
	"gated/internal/wire/cli"
)

// newMember is the answer of a join.
type newMember struct {
	State   string    `json:"state"`
	Member  string    `json:"member"`
	Host    string    `json:"host"`
	Gate    op.GateID `json:"gate"`
	Groups  uint64    `json:"groups"`  // of the ledger
	Entries int64     `json:"entries"` // of the audit log
	Head    string    `json:"head"`    // of it, in hex
	Epoch   int64     `json:"epoch"`   // of the list of signers
	Signers string    `json:"signers"` // SHA-256 of the list, in hex
	Keys    []listed  `json:"keys"`
}

func memberOf(r life.Joined) newMember {
	return newMember{State: r.StateDir, Member: r.Member, Host: r.Host, Gate: r.Gate, Groups: r.Groups, Entries: r.Entries, Head: r.Head,
		Epoch: r.Epoch, Signers: r.Signers, Keys: listedOf(r.Listed)}
}

func (t *tool) joinCommand() *cobra.Command {
	var o life.JoinOptions
	var yes bool
	c := t.Command(cli.Words{
		Use:   "join --config FILE --key FILE",
		Short: "Make this host a member of a gate that has a ledger",
		Long: `Makes the state directory of a new member. It reads every group of the ledger, checks each signature with the
gate's key, and makes the database of them. Then it shows the list of signers and the head of the audit log, and asks.
FILE of --config is a copy of another member's gated.yaml with this member's own name under store. FILE of --key is a
copy of another member's gate.key; the ledger does not have it. Compare the head with gated audit head on the active
member: the owner of the PostgreSQL server can leave out the newest groups. --at-least refuses a shorter log.`,
		Example: "  gated member join --config gated.yaml --key gate.key --at-least 5120 --state /var/lib/gated",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		switch {
		case o.Config == "":
			return cli.Usage("--config is missing: a copy of another member's gated.yaml, with this member's name under store")
		case o.Key == "":
			return cli.Usage("--key is missing: a copy of another member's gate.key, of mode 0600")
		case !yes && !cli.IsTerminal(t.stdin):
			return cli.Usage("there is no terminal to ask on: compare gated audit head of the active member, say --at-least, then --yes")
		}
		o.StateDir = stateDir(o.StateDir)
		o.Progress = t.replaying("applied")
		o.Agree = func(r life.Joined) error {
			t.sayJoined(r)
			return t.agree(yes, "is this the gate? (yes) ", refusal.New(refusal.Cancelled, "nothing was joined").
				WithHint("compare gated audit head and gated trust show on the active member"))
		}
		r, err := life.Join(c.Context(), o)
		if err != nil {
			return err
		}
		return t.showJoined(r)
	})
	stateFlag(c, &o.StateDir)
	c.Flags().StringVar(&o.Config, "config", "", "a `FILE` with the gate's settings and this member's name")
	c.Flags().StringVar(&o.Key, "key", "", "a `FILE` with the gate's own key, readable by its owner alone")
	c.Flags().Int64Var(&o.AtLeast, "at-least", 0, "refuse an audit log of fewer than `N` entries")
	c.Flags().BoolVar(&yes, "yes", false, flagYes)
	for _, name := range []string{"config", "key"} {
		_ = c.MarkFlagFilename(name) // the flag was just added
	}
	return c
}

func (t *tool) showJoined(r life.Joined) error {
	return t.Answer(memberOf(r),
		"member %s of gate %s has its state in %s\nnext, a standby as long as another member decides:\n  %s\n",
		op.Shown(r.Member), op.Shown(string(r.Gate)), op.Shown(r.StateDir), t.starts(r.StateDir))
}

// replaying says how far a look at all groups is, on long ledgers.
func (t *tool) replaying(did string) func(groups, of uint64) {
	const step = 10_000
	next := uint64(step)
	return func(groups, of uint64) {
		if groups >= next {
			next = groups + step
			t.Say("%s %d of %d groups\n", did, groups, of)
		}
	}
}

func (t *tool) sayJoined(r life.Joined) {
	t.Say("gate %s of host %s, from %d groups:\n  audit log: %d entries, head %s\n  signers:   epoch %d, sha256 %s\n%s",
		op.Shown(string(r.Gate)), op.Shown(r.Host), r.Groups, r.Entries, op.Shown(r.Head), r.Epoch, op.Shown(r.Signers), maySign(r.Listed))
}
