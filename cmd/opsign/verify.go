package main

import (
	"github.com/spf13/cobra"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/wire/cli"
)

// verified is the answer of verify.
type verified struct {
	Principal   string  `json:"principal"`
	Role        op.Role `json:"role"`
	Fingerprint string  `json:"fingerprint"`
	KeyType     string  `json:"key_type"`
}

func (t *tool) verifyCommand() *cobra.Command {
	var sig, signers string
	c := t.Command(cli.Words{
		Use:   "verify PAYLOAD --sig FILE --allowed-signers FILE",
		Short: "Verify a signature without a daemon",
		Long: "Prints who signed as what, with which key. The key has to be valid now; whether the payload still " +
			"is, a gate says.",
		Example: "  opsign verify op.json --sig op.json.sig --allowed-signers allowed_signers",
	}, cobra.ExactArgs(1), func(_ *cobra.Command, args []string) error {
		if sig == "" || signers == "" {
			return cli.Usage("both --sig and --allowed-signers are needed")
		}
		payload, err := cli.ReadFile(args[0], op.MaxPayload)
		if err != nil {
			return err
		}
		armor, err := cli.ReadFile(sig, maxSignatureFile)
		if err != nil {
			return err
		}
		listed, err := cli.ReadFile(signers, authz.MaxTrust)
		if err != nil {
			return err
		}
		trust, err := authz.LoadTrust(listed)
		if err != nil {
			return err
		}
		who, err := authz.VerifyFile(payload, string(armor), trust, t.now())
		if err != nil {
			return err
		}
		if t.JSON {
			return t.Emit(verified{who.Principal, who.Role, who.Key, who.KeyType})
		}
		t.Print("good %s signature by %s with %s %s\n",
			op.Shown(string(who.Role)), cli.Person(who.Principal), op.Shown(who.KeyType), op.Shown(who.Key))
		return nil
	})
	c.ValidArgsFunction = nil // files
	c.Flags().StringVar(&sig, "sig", "", flagSig)
	c.Flags().StringVar(&signers, "allowed-signers", "", "the allowed_signers `FILE`")
	_ = c.MarkFlagFilename("sig", "sig")      // the flags were
	_ = c.MarkFlagFilename("allowed-signers") // just added
	return c
}
