package api

import (
	"bytes"
	"errors"
	"io"
	"math"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"gated/internal/op"
)

// ContentType is the media type of what Encode makes.
const ContentType = "application/json"

// MaxTokens is the most that a body may have of names, values, and ends of objects
// and arrays: 64 steps with 16 KiB of labels each have fewer, and what is made of
// an empty object is a hundred times as large as its two bytes.
const MaxTokens = 16 << 10

// What a body takes in memory for each of its tokens and bytes, at the most, while
// it is decoded and as long as the values are used. Both were measured.
const (
	tokenMemory = 128
	byteMemory  = 4
)

// DecodeBody reads the one JSON value of a request's body, or of a hub's answer,
// into v. Unknown members, members that differ by case, duplicate members, null,
// trailing data and invalid UTF-8 are Malformed; a refusal raised by one of v's
// own unmarshalers is returned as it is.
func DecodeBody(b []byte, v any) error {
	if _, err := tokensOf(b, math.MaxInt64); err != nil {
		return err
	}
	return DecodeWeighed(b, v)
}

// DecodeWeighed is DecodeBody for a body that Weigh did not refuse.
func DecodeWeighed(b []byte, v any) error {
	return refusalOf(json.Unmarshal(b, v, json.RejectUnknownMembers(true)))
}

// Weigh returns how many bytes of memory a body will take, at the most, once it is
// decoded. It makes no values of it. More than MaxTokens are TooComplex; the other
// refusals are those of DecodeBody that do not depend on what the body is decoded
// into.
func Weigh(b []byte) (int64, error) {
	tokens, err := tokensOf(b, MaxTokens)
	return byteMemory*int64(len(b)) + tokenMemory*tokens, err
}

// DecodeAnswer reads the one JSON value of a daemon's answer into v as strictly
// as DecodeBody, but for null and for members that a newer daemon may add.
func DecodeAnswer(b []byte, v any) error { return refusalOf(json.Unmarshal(b, v)) }

// Encode writes v as one line of JSON without a newline. Bytes in strings that
// are not UTF-8, which file names may have, become U+FFFD.
func Encode(v any) ([]byte, error) {
	return json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
}

// tokensOf counts, and refuses a null anywhere: the decoder would take it for an
// absent member, and an absent member is a different wish from a null one.
func tokensOf(b []byte, most int64) (n int64, err error) {
	if len(bytes.TrimSpace(b)) == 0 {
		return 0, op.Refuse(op.Malformed, "the body is empty, a JSON object is wanted")
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
			return n, op.Refuse(op.Malformed, "the body has a null at %q", string(d.StackPointer())).
				WithHint("leave the member out")
		}
		if n++; n > most {
			return n, op.Refuse(op.TooComplex, "the body has more than %d names and values", most).
				WithHint("send it in several requests")
		}
	}
}

// refusalOf words a decoder's error without the Go types that its own text
// names.
func refusalOf(err error) error {
	if err == nil {
		return nil
	}
	var r *op.Refusal
	if errors.As(err, &r) {
		return r
	}
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) {
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return op.Refuse(op.Malformed, "the JSON has the member %q twice", string(syntax.JSONPointer))
		}
		return op.Refuse(op.Malformed, "the JSON is broken after byte %d: %v", syntax.ByteOffset, syntax.Err)
	}
	var meaning *json.SemanticError
	if errors.As(err, &meaning) {
		where := string(meaning.JSONPointer)
		if errors.Is(err, json.ErrUnknownName) {
			return op.Refuse(op.Malformed, "the JSON has the member %q, which does not belong there", where)
		}
		return op.Refuse(op.Malformed, "the JSON has a value of the wrong type at %q", where)
	}
	return op.Refuse(op.Malformed, "the JSON cannot be read")
}
