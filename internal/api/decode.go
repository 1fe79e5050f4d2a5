package api

import (
	"bytes"
	"errors"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"gated/internal/op"
)

// ContentType is the media type of what Encode makes.
const ContentType = "application/json"

// DecodeBody reads the one JSON value of a request's body into v. Unknown
// members, members that differ by case, duplicate members, null, trailing data
// and invalid UTF-8 are Malformed; a refusal raised by one of v's own
// unmarshalers is returned as it is.
func DecodeBody(b []byte, v any) error {
	if len(bytes.TrimSpace(b)) == 0 {
		return op.Refuse(op.Malformed, "the body is empty, a JSON object is wanted")
	}
	if err := refuseNull(b); err != nil {
		return err
	}
	return refusalOf(json.Unmarshal(b, v, json.RejectUnknownMembers(true)))
}

// DecodeAnswer reads the one JSON value of a daemon's answer into v as strictly
// as DecodeBody, but for null and for members that a newer daemon may add.
func DecodeAnswer(b []byte, v any) error { return refusalOf(json.Unmarshal(b, v)) }

// Encode writes v as one line of JSON without a newline. Bytes in strings that
// are not UTF-8, which file names may have, become U+FFFD.
func Encode(v any) ([]byte, error) {
	return json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
}

// refuseNull refuses a null anywhere: the decoder would take it for an absent
// member, and an absent member is a different wish from a null one.
func refuseNull(b []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(b))
	for {
		tok, err := d.ReadToken()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return refusalOf(err)
		case tok.Kind() == 'n':
			return op.Refuse(op.Malformed, "the body has a null at %q", string(d.StackPointer())).
				WithHint("leave the member out")
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
