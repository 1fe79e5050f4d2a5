package main

import (
	"context"
	"fmt"
	"slices"

	"gated/client"
	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/people/sign"
	"gated/internal/wire/cli"
)

// ofRole names the agent's key that the gate lists for a role, where nothing says which of several signs. It refuses, as
// UnknownSigner, to choose one of several that are listed. The flags stay as they are where the gate's list says nothing: then
// the agent's keys are told as ever.
func (t *tool) ofRole(ctx context.Context, cl *client.Client, k keyFlags, role op.Role) (keyFlags, error) {
	socket := t.Getenv("SSH_AUTH_SOCK")
	if k.key != "" || k.cert != "" || k.fingerprint != "" || socket == "" {
		return k, nil
	}
	held, err := sign.Identities(ctx, socket)
	held = slices.DeleteFunc(held, func(id sign.Identity) bool { return id.Refused != nil || id.Certificate != nil })
	if err != nil || len(held) < 2 {
		return k, nil // keySigner says why, if there is none
	}
	list, err := cl.Trust(ctx)
	if err != nil {
		return k, nil // a daemon of an older version has no such answer
	}
	trust, err := authz.LoadTrust([]byte(list.Text))
	if err != nil {
		return k, err
	}
	names := ""
	var fit []sign.Identity
	for _, id := range held {
		who, err := trust.Accepts(id.Blob, role, t.now())
		if err == nil && !slices.Contains(list.Revoked, id.Fingerprint) {
			fit = append(fit, id)
			names += fmt.Sprintf("\n  %s %s, as %s", id.Fingerprint, cli.Inline(id.Comment), cli.Person(who))
		}
	}
	switch len(fit) {
	case 0:
		return k, nil
	case 1:
		k.fingerprint = fit[0].Fingerprint
		return k, nil
	}
	return k, refusal.New(refusal.UnknownSigner, "the gate lists several of the agent's keys for %s:%s", role, names).
		WithHint("choose one with --fingerprint SHA256:…")
}
