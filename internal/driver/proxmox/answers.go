package proxmox

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// object is one JSON object of an answer. The API writes a number as 2048 or as "2048", and a
// boolean as 1, "1" or true. Here all are texts. Values of other types are left out.
type object map[string]string

// maxAnswer is the size in bytes of the largest answer. A list of ten thousand guests takes
// less than a quarter of it.
const maxAnswer = 16 << 20

// decodeObject reads one object.
func decodeObject(b []byte) (object, error) {
	var fields map[string]jsontext.Value
	if err := json.Unmarshal(b, &fields); err != nil {
		return nil, fmt.Errorf("an answer that is no object: %w", err)
	}
	if fields == nil {
		return nil, errors.New("an answer with nothing in it")
	}
	return scalars(fields)
}

// decodeObjects reads an array of objects.
func decodeObjects(b []byte) ([]object, error) {
	var rows []map[string]jsontext.Value
	if err := json.Unmarshal(b, &rows); err != nil {
		return nil, fmt.Errorf("an answer that is no list: %w", err)
	}
	if rows == nil {
		// [] is an empty list, but null is no list. The driver believes that there are no
		// guests only if the answer says so.
		return nil, errors.New("an answer with nothing in it, where a list belongs")
	}
	out := make([]object, len(rows))
	for i, fields := range rows {
		var err error
		if out[i], err = scalars(fields); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// decodeTree reads an object of objects.
func decodeTree(b []byte) (map[string]object, error) {
	var tree map[string]map[string]jsontext.Value
	if err := json.Unmarshal(b, &tree); err != nil {
		return nil, fmt.Errorf("an answer that is no object of objects: %w", err)
	}
	out := make(map[string]object, len(tree))
	for k, fields := range tree {
		var err error
		if out[k], err = scalars(fields); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// decodeText reads a string, or null, which is "".
func decodeText(b []byte) (string, error) {
	var s *string
	if err := json.Unmarshal(b, &s); err != nil {
		return "", fmt.Errorf("an answer that is no text: %w", err)
	}
	if s == nil {
		return "", nil
	}
	return *s, nil
}

func scalars(fields map[string]jsontext.Value) (object, error) {
	out := make(object, len(fields))
	for k, v := range fields {
		switch v.Kind() {
		case '"':
			s, err := decodeText(v)
			if err != nil {
				return nil, err
			}
			out[k] = s
		case '0':
			out[k] = string(bytes.TrimSpace(v))
		case 't':
			out[k] = "1"
		case 'f':
			out[k] = "0"
		}
	}
	return out, nil
}

// integer returns a whole number, or 0 if it is missing.
func (o object) integer(key string) (int64, error) {
	s := o[key]
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("an answer whose %s is %q, no whole number", key, s)
	}
	return n, nil
}

// raw keeps an answer's data unchanged, for a decoder that is stricter than the library's.
type raw []byte

// UnmarshalJSON copies b.
func (r *raw) UnmarshalJSON(b []byte) error { *r = append((*r)[:0], b...); return nil }

// readAll reads a body of at most maxAnswer bytes.
func readAll(body io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(body, maxAnswer+1))
	if err == nil && len(b) > maxAnswer {
		err = fmt.Errorf("an answer of more than %d bytes", maxAnswer)
	}
	return b, err
}
