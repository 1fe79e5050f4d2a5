package main

import (
	"context"

	"github.com/spf13/cobra"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/log/checkpoint"
	"gated/internal/wire/cli"
)

const (
	// proofType begins the document of a proof (docs/formats/audit.md).
	proofType = "gated/audit-proof/v1"
	// maxProofFile is the largest proof that is read, in bytes.
	maxProofFile = 2*maxEntry + 64<<10
)

// proof is the document that shows an entry to be in a log: all that it takes to
// check that, but for knowing the gate's key.
type proof struct {
	Type  string   `json:"type"`
	Seq   int64    `json:"seq"`
	Entry string   `json:"entry"`
	Proof []string `json:"proof"`
	Note  string   `json:"note"`
	Key   string   `json:"key"`
}

// parseProof reads the document, strictly.
func parseProof(text []byte) (p proof, err error) { return p, api.DecodeBody(text, &p) }

// check verifies it, and returns the head and the entry.
func (p proof) check() (checkpoint.Checkpoint, api.Entry, error) {
	if p.Type != proofType {
		return checkpoint.Checkpoint{}, api.Entry{}, noProof("its type is not " + proofType)
	}
	head, err := checkpoint.Open(p.Note, p.Key)
	if err != nil {
		return head, api.Entry{}, err
	}
	hashes, err := checkpoint.DecodeHashes(p.Proof)
	if err != nil {
		return head, api.Entry{}, err
	}
	if err := head.Includes(p.Seq, []byte(p.Entry), hashes); err != nil {
		return head, api.Entry{}, err
	}
	e, err := api.ParseEntry([]byte(p.Entry))
	if err != nil || e.Seq != p.Seq {
		return head, e, noProof("the entry that it shows is of another number, or none")
	}
	return head, e, nil
}

const wordsProven = "entry %d is one of the %d that gate %s signed for, root %s\n"

const wordsAnswerFails = "do not believe this answer: gated audit verify on the gate's host says whether the log is " +
	"whole"

func (t *tool) auditProveCommand() *cobra.Command {
	return t.Command(cli.Words{
		Use:   "prove N",
		Short: "Prove that an entry is in the audit log",
		Long: `Writes one JSON document with the entry, the proof, the signed head and the gate's key, and checks them
before. gated audit check checks the document anywhere, without a gate.`,
		Example: "  gated audit prove 12 > proof.json",
	}, cobra.ExactArgs(1), func(c *cobra.Command, args []string) error {
		seq, err := entryNumber(args[0])
		if err != nil {
			return err
		}
		return t.With(func(cl *client.Client) error {
			in, err := cl.Inclusion(c.Context(), seq)
			if err != nil {
				return hinted(err, "gated audit tail shows which there are", refusal.UnknownTarget)
			}
			p := proof{Type: proofType, Seq: in.Seq, Entry: in.Entry, Proof: in.Proof, Note: in.Note, Key: in.Key}
			head, e, err := p.check()
			if err == nil && e.Seq != seq {
				err = noProof("it is of another entry than was asked for")
			}
			if err != nil {
				return hinted(err, wordsAnswerFails)
			}
			if err := t.Emit(p); err != nil {
				return err
			}
			t.Say(wordsProven, e.Seq, head.Size, head.Gate, head.Root)
			return nil
		})
	})
}

const wordsProofFails = "it proves nothing: ask for a new one; where the gate answers, gated audit prove N " +
	"makes " +
	"one"

func (t *tool) auditCheckCommand() *cobra.Command {
	var key string
	c := t.Command(cli.Words{
		Use:   "check FILE",
		Short: "Check a proof that an entry is in an audit log, without a gate",
		Long: `FILE is what gated audit prove wrote, or - for standard input. The file names a key as the gate's key; that
is its own claim. Give with --key the key that you know, from gated audit head on the gate's host or from opsign
witness export.`,
		Example: "  gated audit check proof.json --key gated/0123456789abcdef0123456789abcdef+b37e50a1+Ac7q...",
	}, cobra.ExactArgs(1), func(c *cobra.Command, args []string) error {
		if c.Flags().Changed("key") && key == "" {
			return cli.Usage("--key is empty: give the gate's public key, or leave the flag away")
		}
		text, err := t.document(args[0], maxProofFile)
		if err != nil {
			return err
		}
		if key != "" && !checkpoint.IsKey(key) {
			return cli.Usage("--key is not the public key of a gate: it is one line of three parts, gated/ID+HASH+KEY, as " +
				"gated audit head prints it")
		}
		p, err := parseProof(text)
		if err == nil && key != "" && p.Key != key {
			err = otherKey(p.Key, key)
		}
		if err != nil {
			return hinted(err, wordsProofFails)
		}
		head, e, err := p.check()
		if err != nil {
			return hinted(err, wordsProofFails)
		}
		if key == "" {
			t.Say("note: the key is the one that the file names: %s. Compare it with what gated audit head prints on the "+
				"gate's host, or give it with --key\n", op.Shown(p.Key))
		}
		if t.JSON {
			return t.Emit(e)
		}
		show := &entries{tool: t, scopes: func() ([]api.Scope, error) { return nil, nil }, paths: map[string]string{}}
		if err := show.entry(e); err != nil {
			return err
		}
		t.Print(wordsProven, e.Seq, head.Size, head.Gate, head.Root)
		return nil
	})
	c.ValidArgsFunction = nil // files
	c.Flags().StringVar(&key, "key", "", "the gate's public `KEY`")
	_ = c.RegisterFlagCompletionFunc("key", cobra.NoFileCompletions) // the flag was just added
	return c
}

// document reads a file, or for - standard input.
func (t *tool) document(name string, limit int64) ([]byte, error) {
	if name == "-" {
		return cli.Read(t.stdin, "standard input", limit)
	}
	return cli.ReadFile(name, limit)
}

func (t *tool) auditHeadCommand() *cobra.Command {
	return t.Asking(cli.Words{
		Use:   "head",
		Short: "Print the signed head of the audit log",
		Long: "The signed note goes to standard output, and the gate's public key to standard error; with --json " +
			"both are one document.",
		Example: "  gated audit head > head.txt",
	}, cobra.NoArgs, func(c *cobra.Command, cl *client.Client, _ []string) error {
		h, err := signedHead(c.Context(), cl)
		if err != nil {
			return err
		}
		if t.JSON {
			return t.Emit(h)
		}
		t.Print("%s", h.Note)
		t.Say("key %s\n", op.Shown(h.Key))
		return nil
	})
}

// signedHead asks for the head and checks it: it is that of all entries, and
// signed with the key that is shown.
func signedHead(ctx context.Context, cl *client.Client) (api.Head, error) {
	h, err := cl.AuditHead(ctx)
	if err != nil {
		return h, err
	}
	if h.Note == "" {
		return h, noSignedHead(h.Seq)
	}
	c, err := checkpoint.Open(h.Note, h.Key)
	if err == nil && c.Size != h.Seq {
		err = noSignedHead(h.Seq)
	}
	return h, hinted(err, wordsAnswerFails)
}

func noProof(why string) error {
	return refusal.New(refusal.Malformed, "this is no proof of an entry: %s", why)
}

func otherKey(is, want string) error {
	return refusal.New(refusal.BadSignature, "the proof is signed with another key:\nit has %s\nand not %s", op.Shown(is),
		op.Shown(want)).
		WithHint("it is of another gate, or forged")
}

func noSignedHead(seq int64) error {
	return refusal.New(refusal.Unavailable, "the gate signs no head of its log of %d entries", seq).
		WithHint("gated audit verify on its host says whether the log is whole")
}
