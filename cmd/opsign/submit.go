package main

import (
	"github.com/spf13/cobra"

	"gated/internal/base/op"
	"gated/internal/wire/api"
	"gated/internal/wire/cli"
)

// maxSignatureFile is the largest signature file that is read, in bytes; the
// longest signature that a gate takes has less.
const maxSignatureFile = 64 << 10

const flagSig = "the `FILE` with the armored signature"

func (t *tool) submitCommand() *cobra.Command {
	var files []string
	var noWait bool
	c := t.Command(cli.Words{
		Use:     "submit PAYLOAD --sig FILE...",
		Short:   "Hand in what was signed elsewhere, with ssh-keygen or opsign sign",
		Example: "  opsign submit op.json --sig op.json.sig",
	}, cobra.ExactArgs(1), func(c *cobra.Command, args []string) error {
		payload, err := cli.ReadFile(args[0], op.MaxPayload)
		if err != nil {
			return err
		}
		if len(files) == 0 {
			return cli.Usage("say with --sig which file has the signature")
		}
		var signatures []string
		for _, f := range files {
			s, err := cli.ReadFile(f, maxSignatureFile)
			if err != nil {
				return err
			}
			signatures = append(signatures, string(s))
		}
		return t.submit(c, payload, signatures, !noWait)
	})
	c.ValidArgsFunction = nil // files
	c.Flags().StringArrayVar(&files, "sig", nil, flagSig)
	_ = c.MarkFlagFilename("sig", "sig") // the flag was just added
	c.Flags().BoolVar(&noWait, "no-wait", false, flagNoWait)
	return c
}

// submit hands in an approval or a rejection, whichever the payload says it is.
func (t *tool) submit(c *cobra.Command, payload []byte, signatures []string, wait bool) error {
	cl, err := t.Client()
	if err != nil {
		return err
	}
	defer cl.Close()
	if _, err := t.knownGate(c.Context(), cl); err != nil {
		return err
	}
	envelope := api.EnvelopeOf(payload, signatures...)
	if rejection, err := op.DecodeRejection(payload); err == nil {
		r, err := cl.Reject(c.Context(), rejection.Request.String(), envelope)
		if err != nil {
			return err
		}
		return t.rejected(r)
	}
	// What is neither goes to the gate as it is: it refuses it, and has it in
	// its log.
	r, err := cl.SubmitSigned(c.Context(), envelope)
	if err != nil {
		return cli.Unanswered(err, "",
			"it was handed in; whether it counted is not known: opsign list --all and gated jobs say")
	}
	return t.outcome(c.Context(), cl, r, wait)
}
