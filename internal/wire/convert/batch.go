package convert

import (
	"encoding/base64"
	"strings"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// BatchedOf puts a place in a batch on the wire; nil stays nil.
func BatchedOf(in *op.Inclusion) *api.Batched {
	if in == nil {
		return nil
	}
	out := &api.Batched{Payload: base64.StdEncoding.EncodeToString(in.Batch), Index: in.Index, Path: []string{}}
	for _, d := range in.Path {
		out.Path = append(out.Path, d.String())
	}
	return out
}

// CheckReason refuses a reason of an approval that is too long (BadParams) or has characters that do not show (Malformed).
func CheckReason(text string) error {
	if len(text) > op.MaxReason {
		return refusal.New(refusal.BadParams, "the reason has %d bytes, more than %d", len(text), op.MaxReason)
	}
	return op.CheckText("reason", text)
}

// Envelope opens an envelope that may have a batch, without checking what it says. The batch is nil if there is none.
// Envelope refuses as api.Envelope.Open does, and a batch that has another form than BatchedOf writes.
func Envelope(e api.Envelope) (payload []byte, batch *op.Inclusion, err error) {
	batched := e.Batch
	if err := CheckReason(e.Reason); err != nil {
		return nil, nil, refusal.As(err).At(refusal.StageDecode)
	}
	e.Batch, e.Reason = nil, ""
	if payload, err = e.Open(); err != nil || batched == nil {
		return payload, nil, err
	}
	batch, err = inclusion(*batched)
	return payload, batch, err
}

func inclusion(in api.Batched) (*op.Inclusion, error) {
	refuse := func(code refusal.Code, why string) (*op.Inclusion, error) {
		return nil, refusal.New(code, "%s", why).At(refusal.StageDecode)
	}
	switch {
	case base64.StdEncoding.DecodedLen(len(in.Payload)) > op.MaxBatchPayload+3:
		return refuse(refusal.Oversized, "the batch is too long to be one")
	case len(in.Path) > op.MaxBatchPath:
		return refuse(refusal.Oversized, "the path has more hashes than a batch has levels")
	case in.Index < 0 || in.Index >= op.MaxBatch:
		return refuse(refusal.Malformed, "the index is not one of a batch")
	}
	b, err := base64.StdEncoding.Strict().DecodeString(in.Payload)
	if err != nil || len(b) == 0 || strings.ContainsAny(in.Payload, "\r\n") {
		return refuse(refusal.Malformed, "the batch is not padded base64")
	}
	out := &op.Inclusion{Batch: b, Index: in.Index}
	for _, text := range in.Path {
		d, ok := op.ParseDigest(text)
		if !ok {
			return refuse(refusal.Malformed, "the path is not a list of digests, each with 64 lower-case hex digits")
		}
		out.Path = append(out.Path, d)
	}
	return out, nil
}
