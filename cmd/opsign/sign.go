package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"

	"gated/internal/cli"
	"gated/internal/op"
	"gated/internal/sign"
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
	cli.ParamFlag(c, &given)
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
	role, err := k.roleFor(spec.Roles)
	if err != nil {
		return err
	}
	if !spec.MayApprove(role) {
		return roleDenied(role, spec)
	}
	now := t.now().UTC().Truncate(time.Second)
	p := op.Payload{Gate: op.GateID(o.gate), Host: o.host, Op: a.Op, Target: a.Target,
		Incarnation: op.Incarnation(o.incarnation), State: op.Fingerprint(o.state), Params: a.Params, Nonce: newNonce(),
		IssuedAt: now, ExpiresAt: now.Add(o.expires.Truncate(time.Second)), Reason: o.reason}
	b, err := p.Encode()
	if err != nil {
		return err
	}
	signer, err := t.keySigner(ctx, k)
	if err != nil {
		return err
	}
	if err := writeSigned(ctx, signer, role, b, o.out); err != nil {
		return err
	}
	if t.JSON {
		return t.Emit(signedFiles{Payload: o.out, Signature: o.out + ".sig", SHA256: op.SHA256(b), Role: role,
			Fingerprint: signer.Fingerprint(), ExpiresAt: p.ExpiresAt})
	}
	t.Say("%s", wordsSigned+payloadText(p))
	t.Print(wordsWritten, op.Shown(o.out), op.Shown(o.out))
	return nil
}

// writeSigned signs and writes both files; neither may be there yet, and
// neither is left behind alone.
func writeSigned(ctx context.Context, signer sign.Signer, role op.Role, payload []byte, path string) error {
	armor, err := signer.Sign(ctx, role, payload)
	if err != nil {
		return err
	}
	if err := writeNew(path, payload); err != nil {
		return err
	}
	if err := writeNew(path+".sig", []byte(armor)); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

func writeNew(path string, content []byte) error {
	f, err := cli.Create(path, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}
