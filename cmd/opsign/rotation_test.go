package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

func TestARotationSaysWhoComesAndGoes(t *testing.T) {
	soft, device, ca := mint.Ed25519(t, "soft"), mint.SKEd25519(t, "device", mint.Touched), mint.Ed25519(t, "ca")
	line := func(k mint.Key, who, options string) any { return strings.TrimSuffix(k.Line(who, options), "\n") }
	b := payload(t, func(p *op.Payload) {
		p.Op, p.Target, p.Reason = op.Rotate, op.Signers, "a new laptop"
		p.Params = op.Params{"epoch": int64(2), "remove": []any{"SHA256:bob", "SHA256:no"},
			"add": []any{line(device, "alice@example.com", `namespaces="operational@gated,recovery@gated"`),
				line(soft, "dave@example.com", `namespaces="manager@gated",valid-after="20300101Z",valid-before="20310101Z"`),
				line(ca, "*@example.com", `cert-authority,namespaces="operational@gated"`), "not a line  of it"}}
	})
	r := requestOf(t, b)
	r.Facts = []op.Fact{{Name: "epoch", Text: "1"}, {Name: "key", Text: "bob@example.com operational SHA256:bob, software key"},
		{Name: "key", Text: "eve@example.com operational SHA256:bobby, software key"},
		{Name: "key", Text: "bob@example.com manager SHA256:bob cert-authority"}, {Name: "note", Text: "x SHA256:no"}}
	q := must.Get(ask1(t, gateWith(t, b, r)))(t)
	want := "    adds alice@example.com operational,recovery " + device.Fingerprint() + " (security key)\n" +
		"    adds dave@example.com manager " + soft.Fingerprint() + " (software key, from 2030-01-01T00:00:00Z, until 2031-01-01T00:00:00Z)\n" +
		"    adds *@example.com operational " + ca.Fingerprint() + " (certificate authority)\n" +
		"    adds a line that cannot be read: \"not a line\\x20\\x20of it\"\n" +
		"    removes bob@example.com operational SHA256:bob\n" +
		"    removes bob@example.com manager SHA256:bob\n" +
		"    removes SHA256:no (the gate does not say who has it)\n" +
		"    makes epoch 2 of the list of signers\n"
	require.Contains(t, q.text(view{now: time.Time{}}), want)
	require.Equal(t, "j1.1: ROTATE trust/signers on pve1 - can be undone by hand: rotate again\n", batchText([]*item{{id: "j1.1", shown: q}}, " - "))
	require.Empty(t, rotationText(op.Payload{Op: "guest.destroy"}, r.Facts))

	require.Equal(t, "rotated: epoch 2", outcomeWords(api.Request{Op: op.Rotate, Target: "trust/signers", State: op.StateSucceeded,
		Params: op.Params{"epoch": int64(2)}}, time.Time{}))
}
