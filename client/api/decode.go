package api

import (
	"bytes"
	"errors"
	"io"
	"math"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"gated/internal/base/refusal"
)

// ContentType is the media type of Encode's result.
const ContentType = "application/json"

// MaxTokens is the most names, values, and ends of objects and arrays in a body. 64 steps with 16 KiB of labels each
// have fewer. An empty object takes two bytes, but a hundred times that in memory.
const MaxTokens = 16 << 10

// The most memory that a body takes for each of its tokens and bytes, during the decoding and while its values are
// used. Both were measured.
const (
	tokenMemory = 128
	byteMemory  = 4
)

// DecodeBody reads the one JSON value of a request's body, or of a hub's answer, into v. Malformed: unknown or repeated
// members, members that differ by case, null, trailing data and invalid UTF-8. A refusal of one of v's own unmarshalers
// is returned unchanged.
func DecodeBody(b []byte, v any) error {
	if _, err := tokensOf(b, math.MaxInt64); err != nil {
		return err
	}
	return DecodeWeighed(b, v)
}

// DecodeWeighed is DecodeBody for a body that Weigh accepted.
func DecodeWeighed(b []byte, v any) error {
	return refusalOf(json.Unmarshal(b, v, json.RejectUnknownMembers(true)))
}

// Weigh returns the most bytes of memory that a body takes when it is decoded. It decodes nothing. More than MaxTokens
// are TooComplex. Its other refusals are those of DecodeBody that do not depend on v.
func Weigh(b []byte) (int64, error) {
	tokens, err := tokensOf(b, MaxTokens)
	return byteMemory*int64(len(b)) + tokenMemory*tokens, err
}

// DecodeAnswer reads the one JSON value of a daemon's answer into v. It is as strict as DecodeBody, but accepts null,
// and members that a newer daemon may add.
func DecodeAnswer(b []byte, v any) error { return refusalOf(json.Unmarshal(b, v)) }

// WithinValues refuses, as TooComplex, an answer with more than so many names, values, and ends of objects and arrays. Malformed: it is no JSON.
func WithinValues(b []byte, most int64) error {
	d := jsontext.NewDecoder(bytes.NewReader(b))
	for n := int64(0); ; n++ {
		switch _, err := d.ReadToken(); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return refusalOf(err)
		case n == most:
			return refusal.New(refusal.TooComplex, "the daemon's answer has more than %d names and values", most)
		}
	}
}

// Encode writes v as one line of JSON without a newline. Bytes that are not UTF-8, as file names may have, become
// U+FFFD.
func Encode(v any) ([]byte, error) {
	return json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
}

// tokensOf counts tokens, and refuses null: the decoder would read it as an absent member, which is a different wish.
func tokensOf(b []byte, most int64) (n int64, err error) {
	if len(bytes.TrimSpace(b)) == 0 {
		return 0, refusal.New(refusal.Malformed, "the body is empty, a JSON object is wanted")
	}
	d := jsontext.NewDecoder(bytes.NewReader(b))
	for {
		tok, err := d.ReadToken()
		switch {
		case errors.Is(err, io.EOF):
			return n, nil
		case err != nil:
			return n, refusalOf(err)
		case tok.Kind() == 'n':
			return n, refusal.New(refusal.Malformed, "the body has a null at %q", string(d.StackPointer())).
				WithHint("leave the member out")
		}
		if n++; n > most {
			return n, refusal.New(refusal.TooComplex, "the body has more than %d names and values", most).
				WithHint("send it in several requests")
		}
	}
}

// refusalOf words a decoder's error without Go types.
func refusalOf(err error) error {
	if err == nil {
		return nil
	}
	var r *Refusal
	if errors.As(err, &r) {
		return r
	}
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) {
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return refusal.New(refusal.Malformed, "the JSON has the member %q twice", string(syntax.JSONPointer))
		}
		return refusal.New(refusal.Malformed, "the JSON is broken after byte %d: %v", syntax.ByteOffset, syntax.Err)
	}
	var meaning *json.SemanticError
	if errors.As(err, &meaning) {
		where := string(meaning.JSONPointer)
		if errors.Is(err, json.ErrUnknownName) {
			return refusal.New(refusal.Malformed, "the JSON has the member %q, which does not belong there", where)
		}
		return refusal.New(refusal.Malformed, "the JSON has a value of the wrong type at %q", where)
	}
	return refusal.New(refusal.Malformed, "the JSON cannot be read")
}

// Answers with lists are objects with one member, so that members can be added.
type (
	// OpList answers GET /v1/ops.
	OpList struct {
		Ops []Op `json:"ops"`
	}
	// JobList answers GET /v1/jobs, oldest first. Next is the value of after for the next page, null at the end.
	JobList struct {
		Jobs []Job   `json:"jobs"`
		Next *string `json:"next"`
	}
	// RequestList answers GET /v1/requests, oldest first, with Next as of JobList.
	RequestList struct {
		Requests []Request `json:"requests"`
		Next     *string   `json:"next"`
	}
	// GuestList answers GET /v1/guests, by name, with Next as of JobList.
	GuestList struct {
		Guests []Guest `json:"guests"`
		Next   *string `json:"next"`
	}
	// CommandList answers GET /v1/commands, by name.
	CommandList struct {
		Commands []Command `json:"commands"`
	}
	// BackendList answers GET /v1/backends, by name.
	BackendList struct {
		Backends []Backend `json:"backends"`
	}
	// SetList answers GET /v1/desired.
	SetList struct {
		Sets []Set `json:"sets"`
	}
	// EntryList answers GET /v1/audit, oldest first.
	EntryList struct {
		Entries []Entry `json:"entries"`
		Users   Users   `json:"users"` // of those whom By, Holder and For name
	}
)
