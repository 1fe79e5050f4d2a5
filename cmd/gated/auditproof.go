package main

import (
	"context"

	"github.com/spf13/cobra"

	"gated/internal/api"
	"gated/internal/checkpoint"
	"gated/internal/cli"
	"gated/internal/client"
	"gated/internal/op"
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

func (t *tool) auditProveCommand() *cobra.Command {
	return t.command("audit prove", cobra.ExactArgs(1), func(c *cobra.Command, args []string) error {
		seq, err := entryNumber(args[0])
		if err != nil {
			return err
		}
		cl, err := t.Client()
		if err != nil {
			return err
		}
		defer cl.Close()
		in, err := cl.Inclusion(c.Context(), seq)
		if err != nil {
			return hinted(err, wordsWhichEntries, op.UnknownTarget)
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
}

func (t *tool) auditCheckCommand() *cobra.Command {
	var key string
	c := t.command("audit check", cobra.ExactArgs(1), func(c *cobra.Command, args []string) error {
		if c.Flags().Changed("key") && key == "" {
			return cli.Usage(wordsEmptyKey)
		}
		text, err := t.document(args[0], maxProofFile)
		if err != nil {
			return err
		}
		if key != "" && !checkpoint.IsKey(key) {
			return cli.Usage(wordsNotAKey)
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
			t.Say(wordsKeyUnchecked, op.Shown(p.Key))
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
	c.Flags().StringVar(&key, "key", "", flagAuditKey)
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
	return t.command("audit head", cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		cl, err := t.Client()
		if err != nil {
			return err
		}
		defer cl.Close()
		h, err := signedHead(c.Context(), cl)
		if err != nil {
			return err
		}
		if t.JSON {
			return t.Emit(h)
		}
		t.Print("%s", h.Note)
		t.Say(wordsHeadKey, op.Shown(h.Key))
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
