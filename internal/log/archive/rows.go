package archive

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"gated/internal/log/journal"
)

// encodeRows writes a table as lines of JSON: the names of its columns, then each row. A number is an INTEGER, a string is
// TEXT, an array of one string is a BLOB in base64.
func encodeRows(d journal.Dump) ([]byte, error) {
	var b bytes.Buffer
	e := jsontext.NewEncoder(&b)
	put := func(tokens ...jsontext.Token) (err error) {
		for _, t := range tokens {
			if err == nil {
				err = e.WriteToken(t)
			}
		}
		return err
	}
	err := put(jsontext.BeginArray)
	for _, name := range d.Columns {
		if err == nil {
			err = put(jsontext.String(name))
		}
	}
	if err == nil {
		err = put(jsontext.EndArray)
	}
	for _, row := range d.Rows {
		if err == nil && len(row) != len(d.Columns) {
			err = fmt.Errorf("a row has %d values", len(row))
		}
		if err == nil {
			err = put(jsontext.BeginArray)
		}
		for _, v := range row {
			if err != nil {
				break
			}
			switch v := v.(type) {
			case int64:
				err = put(jsontext.Int(v))
			case string:
				err = put(jsontext.String(v))
			case []byte:
				err = put(jsontext.BeginArray, jsontext.String(base64.StdEncoding.EncodeToString(v)), jsontext.EndArray)
			case nil:
				err = put(jsontext.Null)
			default:
				err = fmt.Errorf("a %T is no value of a column", v)
			}
		}
		if err == nil {
			err = put(jsontext.EndArray)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("encode rows of %s: %w", d.Table, err)
	}
	return b.Bytes(), nil
}

// Size returns how many bytes rows have in a segment, with the names of their columns.
func Size(dumps []journal.Dump) (n int64, err error) {
	for _, d := range dumps {
		text, err := encodeRows(d)
		if err != nil {
			return 0, err
		}
		n += int64(len(text))
	}
	return n, nil
}

// decodeRows reads what encodeRows wrote, and nothing else: each text is the only one of its rows.
func decodeRows(table string, text []byte) (d journal.Dump, err error) {
	d.Table = table
	for line := range bytes.Lines(text) {
		row, err := decodeRow(line)
		if err != nil {
			return d, fmt.Errorf("decode rows of %s: %w", table, err)
		}
		if d.Columns != nil {
			if len(row) != len(d.Columns) {
				return d, fmt.Errorf("decode rows of %s: a row has %d values", table, len(row))
			}
			d.Rows = append(d.Rows, row)
			continue
		}
		d.Columns = []string{}
		for _, v := range row {
			name, ok := v.(string)
			if !ok {
				return d, fmt.Errorf("decode rows of %s: a column has no name", table)
			}
			d.Columns = append(d.Columns, name)
		}
	}
	again, err := encodeRows(d)
	if err == nil && !bytes.Equal(again, text) {
		err = fmt.Errorf("decode rows of %s: they are not written as a gate writes them", table)
	}
	return d, err
}

func decodeRow(line []byte) (row []any, err error) {
	d := jsontext.NewDecoder(bytes.NewReader(line))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '[' {
		return nil, fmt.Errorf("a line is no array")
	}
	for d.PeekKind() != ']' {
		v, err := decodeValue(d)
		if err != nil {
			return nil, err
		}
		row = append(row, v)
	}
	_, err = d.ReadToken()
	return row, err
}

func decodeValue(d *jsontext.Decoder) (any, error) {
	t, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	switch t.Kind() {
	case '0':
		return strconv.ParseInt(t.String(), 10, 64)
	case '"':
		return t.String(), nil
	case 'n':
		return nil, nil
	case '[':
		if t, err = d.ReadToken(); err != nil || t.Kind() != '"' {
			return nil, fmt.Errorf("a BLOB is no string")
		}
		text := t.String()
		if t, err = d.ReadToken(); err != nil || t.Kind() != ']' {
			return nil, fmt.Errorf("a BLOB has more than one string")
		}
		b, err := base64.StdEncoding.Strict().DecodeString(text)
		if b == nil {
			b = []byte{}
		}
		return b, err
	}
	return nil, fmt.Errorf("a value is %s", t.Kind())
}
