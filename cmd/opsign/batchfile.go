package main

import (
	"context"
	"encoding/base64"
	"time"

	"github.com/spf13/cobra"

	"gated/client"
	"gated/client/api"
	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/cli"
	"gated/internal/wire/convert"
)

// placesSuffix ends the name of the file that says where each request of a batch goes.
const placesSuffix = ".places"

// maxPlaces is the largest such file that is read, in bytes: op.MaxBatch of the longest payloads in base64 have less.
const maxPlaces = 128 << 20

// places is the file beside a batch that opsign batch make writes (docs/formats/batch.md). The batch is in its own file.
type places struct {
	Requests []place `json:"requests"` // in the order of the leaves
}

// place is one request: the gate, the payload, and the path of its leaf.
type place struct {
	Address client.Address `json:"address"`
	Host    string         `json:"host"`
	ID      string         `json:"id"`
	Payload string         `json:"payload"` // base64
	Path    []string       `json:"path"`    // lower-case hex
}

// parsePlaces reads the file beside a batch. It refuses, as Malformed or BindingMismatch, one that is not exactly that of
// the batch: each payload has to be the leaf of its index.
func parsePlaces(payload, text []byte) ([]api.Envelope, places, error) {
	var in places
	b, err := op.DecodeBatch(payload)
	if err == nil {
		err = api.DecodeBody(text, &in)
	}
	if err != nil {
		return nil, in, err
	}
	if len(in.Requests) != b.Count {
		return nil, in, refusal.New(refusal.Malformed, "the batch has %d requests, and the file beside it %d", b.Count, len(in.Requests))
	}
	var out []api.Envelope
	for i, p := range in.Requests {
		bytes, err := base64.StdEncoding.Strict().DecodeString(p.Payload)
		if err != nil {
			return nil, in, refusal.New(refusal.Malformed, "the payload of request %d is not base64", i+1)
		}
		at := op.Inclusion{Batch: payload, Index: i}
		for _, text := range p.Path {
			d, ok := op.ParseDigest(text)
			if !ok {
				return nil, in, refusal.New(refusal.Malformed, "the path of request %d is not a list of digests", i+1)
			}
			at.Path = append(at.Path, d)
		}
		if err := authz.Included(b, at, bytes); err != nil {
			return nil, in, err
		}
		out = append(out, api.Envelope{Payload: p.Payload, Batch: convert.BatchedOf(&at)})
	}
	return out, in, nil
}

// madeBatch is the answer of make.
type madeBatch struct {
	Payload   string    `json:"payload"`
	Places    string    `json:"places"`
	SHA256    string    `json:"sha256"` // of the payload
	Namespace string    `json:"namespace"`
	Count     int       `json:"count"`
	ExpiresAt time.Time `json:"expires_at"`
}

func (t *tool) batchMakeCommand() *cobra.Command {
	var out string
	b := &batch{asker: &asker{tool: t, keys: &keyring{}}}
	c := t.Command(cli.Words{
		Use:   "make REQUEST... -o FILE",
		Short: "Write a batch to be signed with OpenSSH alone",
		Long: `Shows each request, and writes FILE, which is what to sign, and FILE.places, which says where each request goes.
Nothing is written if one of the requests is decided or takes no batch.

  opsign batch make j12.1 pve2/j3.1 -o batch.json
  ssh-keygen -Y sign -n operational@batch.gated -f ~/.ssh/id_ed25519 batch.json
  opsign batch submit batch.json --sig batch.json.sig`,
		Example: "  opsign batch make j12.1 pve2/j3.1 -o batch.json",
	}, cobra.MinimumNArgs(1), func(c *cobra.Command, args []string) error {
		if out == "" {
			return cli.Usage(missingFlag("output"))
		}
		defer b.end()
		if err := b.read(c.Context(), args); err != nil {
			return err
		}
		return b.make(out)
	})
	c.ValidArgsFunction = t.completeRequest
	c.Flags().StringVar(&b.keys.flags.role, "role", "", "the `ROLE` to sign as (default the only one that may sign, else operational)")
	c.Flags().DurationVar(&b.expires, "expires", batchValidity, flagBatchExpires)
	c.Flags().BoolVar(&b.details, "details", false, flagDetails)
	c.Flags().StringVarP(&out, "output", "o", "", "the `FILE` to write")
	return c
}

// make writes the batch's two files.
func (b *batch) make(out string) error {
	role, err := b.chooseRole()
	if err != nil {
		return err
	}
	if err := b.showAll(); err != nil {
		return err
	}
	items := b.open()
	for _, it := range b.items {
		if it.err != nil {
			return it.err
		}
	}
	if err := b.show(tally(items)); err != nil {
		return err
	}
	payload, at, err := b.tree(role, items)
	if err != nil {
		return err
	}
	var beside places
	for i, it := range items {
		beside.Requests = append(beside.Requests, place{Address: it.Address, Host: it.Host, ID: it.ID,
			Payload: base64.StdEncoding.EncodeToString(it.q.bytes), Path: at[i].Path})
	}
	text, err := api.Encode(beside)
	if err != nil {
		return err
	}
	if err := writePair(out, payload, out+placesSuffix, append(text, '\n')); err != nil {
		return err
	}
	if b.JSON {
		made, err := op.DecodeBatch(payload)
		if err != nil {
			return err
		}
		return b.Emit(madeBatch{Payload: out, Places: out + placesSuffix, SHA256: op.SHA256(payload), Namespace: role.BatchNamespace(),
			Count: made.Count, ExpiresAt: made.ExpiresAt})
	}
	b.Print("wrote %s and %s%s\n", op.Shown(out), op.Shown(out), placesSuffix)
	b.Say("to sign it:    ssh-keygen -Y sign -n %s -f KEY %s\nto hand it in: opsign batch submit %s --sig %s.sig\n", role.BatchNamespace(),
		op.Shown(out), op.Shown(out), op.Shown(out))
	return nil
}

func (t *tool) batchSubmitCommand() *cobra.Command {
	var files []string
	c := t.Command(cli.Words{
		Use:   "submit FILE --sig FILE...",
		Short: "Hand each gate its part of a batch that was signed with ssh-keygen",
		Long: `Reads FILE and FILE.places, checks that they belong together, and prints each gate's answer on a line of its own. It
may run again: what a gate has counted is replayed then.`,
		Example: "  opsign batch submit batch.json --sig batch.json.sig",
	}, cobra.ExactArgs(1), func(c *cobra.Command, args []string) error {
		if len(files) == 0 {
			return cli.Usage("say with --sig which file has the signature")
		}
		payload, err := cli.ReadFile(args[0], op.MaxBatchPayload)
		if err != nil {
			return err
		}
		text, err := cli.ReadFile(args[0]+placesSuffix, maxPlaces)
		if err != nil {
			return err
		}
		signatures, err := readSignatures(files)
		if err != nil {
			return err
		}
		b := &batch{asker: &asker{tool: t}}
		defer b.end()
		return b.submit(c.Context(), payload, text, signatures)
	})
	c.ValidArgsFunction = nil // files
	c.Flags().StringArrayVar(&files, "sig", nil, flagSig)
	_ = c.MarkFlagFilename("sig", "sig") // the flag was just added
	return c
}

// submit hands in a batch that was signed elsewhere.
func (b *batch) submit(ctx context.Context, payload, text []byte, signatures []string) error {
	envelopes, in, err := parsePlaces(payload, text)
	if err != nil {
		return err
	}
	where, err := b.Where()
	if err != nil {
		return err
	}
	for i, p := range in.Requests {
		at, err := b.gateAt(where, p.Address)
		if err != nil {
			return err
		}
		it := &batched{Address: p.Address, Host: p.Host, ID: p.ID, at: at}
		b.items = append(b.items, it)
		envelopes[i].Signatures = signatures
	}
	for i, it := range b.items {
		it.handIn(ctx, b.tool, envelopes[i])
	}
	return b.summary()
}
