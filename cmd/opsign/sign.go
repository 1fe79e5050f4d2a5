package main

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"gated/internal/cli"
	"gated/internal/op"
)

// offline is what sign is told of the one step that it signs.
type offline struct {
	host, gate, incarnation, state, reason, out string
	expires                                     time.Duration
}

func (t *tool) signCommand() *cobra.Command {
	var k keyFlags
	var o offline
	var given cli.Pairs
	c := t.command("sign", cobra.ExactArgs(2), func(c *cobra.Command, args []string) error {
		for _, name := range []string{"host", "gate", "incarnation", "state", "output"} {
			if !c.Flags().Changed(name) {
				return cli.Usage(missingFlag(name))
			}
		}
		if o.expires < time.Second {
			return cli.Usage(wordsExpiresShort)
		}
		if err := t.check(k); err != nil {
			return err
		}
		return t.sign(c.Context(), args, given, o, k)
	})
	c.ValidArgsFunction = completeOpName
	cli.ParamFlag(c, &given, nil)
	t.keyFlags(c, &k)
	c.Flags().StringVar(&o.host, "host", "", flagHost)
	c.Flags().StringVar(&o.gate, "gate", "", flagGate)
	c.Flags().StringVar(&o.incarnation, "incarnation", "", flagIncarnation)
	c.Flags().StringVar(&o.state, "state", "", flagState)
	c.Flags().DurationVar(&o.expires, "expires", 15*time.Minute, flagExpires)
	c.Flags().StringVar(&o.reason, "reason", "", flagReason)
	c.Flags().StringVarP(&o.out, "output", "o", "", flagOutput)
	return c
}

// signedFiles is the answer of sign.
type signedFiles struct {
	Payload     string    `json:"payload"`
	Signature   string    `json:"signature"`
	SHA256      string    `json:"sha256"` // of the payload
	Role        op.Role   `json:"role"`
	Fingerprint string    `json:"fingerprint"`
	ExpiresAt   time.Time `json:"expires_at"`
}

// sign makes a payload and its signature without any gate.
func (t *tool) sign(ctx context.Context, args []string, given cli.Pairs, o offline, k keyFlags) error {
	spec, a, err := ask(args[0], args[1], given)
	if err != nil {
		return err
	}
	role, err := k.roleFor(offlineRoles(spec, op.Role(k.role)))
	if err != nil {
		return err
	}
	now := t.now().UTC().Truncate(time.Second)
	p := op.Payload{Gate: op.GateID(o.gate), Host: o.host, Op: a.Op, Target: a.Target,
		Incarnation: op.Incarnation(o.incarnation), State: op.Fingerprint(o.state), Params: a.Params, Nonce: newNonce(),
		IssuedAt: now, ExpiresAt: now.Add(o.expires.Truncate(time.Second)), Reason: o.reason}
	b, err := p.Encode()
	if err != nil {
		return err
	}
	if err := free(o.out, o.out+".sig"); err != nil { // before a key is touched in vain
		return err
	}
	signer, err := t.keySigner(ctx, k)
	if err != nil {
		return err
	}
	t.Say("%s", told(wordsSigned+payloadText(p), t.Stderr))
	armor, err := signer.Sign(ctx, role, b)
	if err != nil {
		return err
	}
	if err := writePair(o.out, b, o.out+".sig", []byte(armor)); err != nil {
		return err
	}
	t.Say(wordsSignedAs, role, op.Shown(signer.Fingerprint()), cli.Moment(p.ExpiresAt))
	if t.JSON {
		return t.Emit(signedFiles{Payload: o.out, Signature: o.out + ".sig", SHA256: op.SHA256(b), Role: role,
			Fingerprint: signer.Fingerprint(), ExpiresAt: p.ExpiresAt})
	}
	t.Print(wordsWritten, op.Shown(o.out), op.Shown(o.out))
	t.Say(wordsHandIn, op.Shown(o.out), op.Shown(o.out))
	return nil
}

// offlineRoles lists the roles that may sign an operation as far as can be known
// without a gate: those of the catalogue, and one that is not the catalogue's,
// which a gate's own rules may ask for.
func offlineRoles(spec op.Spec, given op.Role) []op.Role {
	if given.Valid() && !given.BuiltIn() {
		return append(slices.Clone(spec.Roles), given)
	}
	return spec.Roles
}
