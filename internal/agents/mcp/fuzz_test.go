package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
)

// Whatever a client writes, each line is a message or is answered, and every answer is one line of JSON.
func FuzzLines(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"whoami"}}`,
		`{"jsonrpc":"2.0","id":"a","method":"ping"}` + "\n" + `{"jsonrpc":"2.0","id":"a","method":"ping"}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
		`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, `{"id":1,"id":2}`, `{"jsonrpc":"1.0","id":1,"method":"x"}`,
		"\xff\n\n{}\r\nnull\n7", `{"jsonrpc":"2.0","id":null,"method":"x"}`, `{"jsonrpc":"2.0","id":1.5,"method":"x"}`,
		`{"jsonrpc":"2.0","id":{},"method":"x"}`, strings.Repeat("[", 20000), `{"jsonrpc":"2.0","id":3,"result":{}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var out bytes.Buffer
		made, err := (&lines{in: bytes.NewReader(b), out: &out}).Connect(t.Context())
		require.NoError(t, err)
		c := made.(*conn)
		calls := 0
		for {
			msg, err := c.Read(context.Background())
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			if req, ok := msg.(*jsonrpc.Request); ok && req.IsCall() {
				calls++
				require.True(t, c.open[req.ID])
			}
		}
		require.Len(t, c.open, calls)
		require.LessOrEqual(t, calls, maxOpen)
		answers := bufio.NewScanner(&out)
		for answers.Scan() {
			require.True(t, jsontext.Value(answers.Bytes()).IsValid(), "%q", answers.Text())
			require.Contains(t, answers.Text(), `"error"`)
		}
		require.NoError(t, answers.Err())
	})
}

// Arguments are read as strictly as a body of the gate's, and a refusal has a code of a reader's.
func FuzzArguments(f *testing.F) {
	for _, s := range []string{`{}`, `null`, ``, `{"op":"guest.start","target":"web-1","params":{"memory":1},"reason":"r"}`,
		`{"op":"a","op":"b"}`, `{"Op":"a"}`, `{"steps":[{"op":"a","target":"guest/b"}]}`, `{"params":{"a":1.5}}`,
		`{"patterns":["a"],"scope":"/s","shared":true}`, `{"limit":-1,"after":"j1"}`, "{\"reason\":\"\xff\"}",
		`{"params":"{\"a\":1}","steps":"[]","reason":null}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for in, takes := range map[any]*jsonschema.Schema{&submitIn{}: schemaOf[submitIn](), &previewIn{}: schemaOf[previewIn](), &jobsIn{}: schemaOf[jobsIn](),
			&targetsIn{}: schemaOf[targetsIn](), &reserveIn{}: schemaOf[reserveIn](), &releaseIn{}: schemaOf[releaseIn](), &nothing{}: schemaOf[nothing]()} {
			err := decodeArguments(b, takes, in)
			if err == nil {
				continue
			}
			switch refusal.CodeOf(err) {
			case refusal.Malformed, refusal.Oversized, refusal.TooComplex:
			default:
				t.Fatalf("%T: %v", in, err)
			}
			require.NotEmpty(t, problemOf(err).Detail)
		}
	})
}
