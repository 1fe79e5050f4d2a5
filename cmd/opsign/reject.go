package main

import (
	"crypto/rand"
	"encoding/base64"
	"time"

	"github.com/spf13/cobra"

	"gated/internal/base/op"
	"gated/internal/wire/api"
	"gated/internal/wire/cli"
)

// rejectionValidity is how long a rejection may take to reach the gate.
const rejectionValidity = 15 * time.Minute

func (t *tool) rejectCommand() *cobra.Command {
	var k keyFlags
	var yes bool
	var reason string
	c := t.Command(cli.Words{
		Use:     "reject ID --reason TEXT",
		Short:   "Sign the refusal of a request",
		Long:    "The request ends, and the same wish is refused until it changes.",
		Example: "  opsign reject j12.1 --reason \"still in use\"",
	}, cobra.ExactArgs(1), func(c *cobra.Command, args []string) error {
		if reason == "" {
			return cli.Usage("say with --reason why, for the requester")
		}
		asks, err := t.asker(yes, k)
		if err != nil {
			return err
		}
		defer asks.close()
		return asks.reject(c, args[0], reason, k)
	})
	c.ValidArgsFunction = t.completeRequest
	t.keyFlags(c, &k)
	c.Flags().BoolVar(&yes, "yes", false, flagYes)
	c.Flags().StringVar(&reason, "reason", "", "why, for the requester")
	return c
}

const wordsConfirmReject = "Reject %s of %s as %s? Type yes:"

func (a *asker) reject(c *cobra.Command, id, reason string, k keyFlags) error {
	cl, err := a.Client()
	if err != nil {
		return err
	}
	defer cl.Close()
	q, err := a.question(c.Context(), cl, id)
	if err != nil {
		return err
	}
	if err := a.showRequest(q, false); err != nil {
		return err
	}
	payload, err := a.rejection(q, reason)
	if err != nil {
		return err
	}
	role, err := k.roleFor(q.request.Roles)
	if err != nil {
		return err
	}
	if err := a.confirm(wordsConfirmReject, q.payload.Op, q.payload.Target.String(), role); err != nil {
		return err
	}
	signer, err := a.keySigner(c.Context(), k)
	if err != nil {
		return err
	}
	armor, err := signer.Sign(c.Context(), role, payload)
	if err != nil {
		return err
	}
	r, err := cl.Reject(c.Context(), id, api.EnvelopeOf(payload, armor))
	if err != nil {
		return err
	}
	return a.rejected(r)
}

// rejection makes the bytes of a rejection of what was shown.
func (t *tool) rejection(q question, reason string) ([]byte, error) {
	id, err := op.ParseStepID(q.request.ID)
	if err != nil {
		return nil, err
	}
	now := t.now().UTC().Truncate(time.Second)
	return op.Rejection{Gate: q.payload.Gate, Host: q.payload.Host, Request: id, PayloadSHA256: op.SHA256(q.bytes),
		Nonce: newNonce(), IssuedAt: now, ExpiresAt: now.Add(rejectionValidity), Reason: reason}.Encode()
}

// rejected prints how a request stands after a rejection.
func (t *tool) rejected(r api.Request) error {
	if t.JSON {
		return t.Emit(r)
	}
	t.Print("%s is %s\n", cli.Inline(r.ID), cli.Inline(string(r.State)))
	return nil
}

// newNonce makes a fresh nonce of 24 random bytes.
func newNonce() string {
	var b [24]byte
	_, _ = rand.Read(b[:]) // it never fails: the program would end first
	return base64.RawURLEncoding.EncodeToString(b[:])
}
