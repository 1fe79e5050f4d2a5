package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/test/mint"
	"gated/internal/wire/question"
)

func TestARotationSaysWhoComesAndGoes(t *testing.T) {
	line := mint.Ed25519(t, "new").Line("alice@example.com", `namespaces="operational@gated"`)
	q := questionOf(t, payload(t, func(p *op.Payload) {
		p.Op, p.Target, p.Reason = op.Rotate, op.Signers, "a new laptop"
		p.Params = op.Params{"epoch": int64(2), "remove": []any{}, "add": []any{line[:len(line)-1]}}
	}))
	batch := allText([]*item{{id: "j1.1", shown: q}}, question.View{}, bodyText)
	require.Contains(t, batch, "    adds alice@example.com operational SHA256:")
	require.Contains(t, batch, "    makes epoch 2 of the list of signers\n")
	require.NotContains(t, batch, "params")

	require.Equal(t, "rotated: epoch 2", outcomeWords(api.Request{Op: op.Rotate, Target: "trust/signers", State: op.StateSucceeded,
		Params: op.Params{"epoch": int64(2)}}, "", time.Time{}))
}
