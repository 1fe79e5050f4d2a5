package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"gated/client/api"
)

const (
	// maxLine is the longest message that is read, in bytes.
	maxLine = 1 << 20
	// maxOpen is how many calls may be open at once. A call is open until its answer is its client's turn to read.
	maxOpen = 128
	// callHeader carries a call's id from the connection to the tool.
	callHeader = "Gated-Call"
	// codeOverLimit is the code of the JSON-RPC error for a call above maxOpen.
	codeOverLimit = -32000
)

// lines is a transport of one JSON-RPC message a line. The SDK's own transport ends the session at the first line that
// it cannot read, and has no bound on open calls. This one answers such a line with an error, and goes on.
type lines struct {
	in  io.Reader
	out io.Writer
}

// Connect begins to read.
func (l *lines) Connect(context.Context) (sdk.Connection, error) {
	c := &conn{out: l.out, open: map[jsonrpc.ID]bool{}, read: make(chan line), closed: make(chan struct{})}
	go c.reading(l.in)
	return c, nil
}

// line is a line that was read, or why there is none.
type line struct {
	text     []byte
	tooLarge bool
	err      error
}

type conn struct {
	read   chan line
	closed chan struct{}
	once   sync.Once

	writing sync.Mutex
	out     io.Writer

	mu   sync.Mutex
	open map[jsonrpc.ID]bool // calls without an answer
}

// reading hands lines to Read, one at a time, until the input ends.
func (c *conn) reading(in io.Reader) {
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		l := readLine(r)
		select {
		case c.read <- l:
		case <-c.closed:
			return
		}
		if l.err != nil {
			return
		}
	}
}

// readLine reads up to a newline. It skips the rest of a line that is too large, and keeps none of it.
func readLine(r *bufio.Reader) line {
	var l line
	for {
		part, err := r.ReadSlice('\n')
		if l.tooLarge = l.tooLarge || len(l.text)+len(part) > maxLine; l.tooLarge {
			l.text = nil
		} else {
			l.text = append(l.text, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && (len(l.text) > 0 || l.tooLarge):
			return l // the end is found again by the next call
		default:
			l.err = err
			return l
		}
	}
}

// Read returns the next message. It answers what is no message, and calls above maxOpen, by itself.
func (c *conn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		var l line
		select {
		case l = <-c.read:
		case <-c.closed:
			return nil, io.EOF
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if l.err != nil {
			return nil, l.err
		}
		if len(bytes.TrimSpace(l.text)) == 0 && !l.tooLarge {
			continue
		}
		msg, wrong := decodeLine(l)
		if wrong == nil {
			wrong = c.begin(msg)
		} else if c.isOpen(wrong.id) {
			wrong.id = jsonrpc.ID{} // that call has its own answer
		}
		if wrong == nil {
			return msg, nil
		}
		if err := c.say(wrong); err != nil {
			return nil, err
		}
	}
}

// answerTo is an error answer that the connection gives by itself. An id that is not valid stands for null.
type answerTo struct {
	id   jsonrpc.ID
	code int64
	text string
}

// decodeLine returns the message of a line, or the answer to a line that is none.
func decodeLine(l line) (jsonrpc.Message, *answerTo) {
	if l.tooLarge {
		return nil, &answerTo{code: jsonrpc.CodeInvalidRequest, text: fmt.Sprintf("oversized: a message has at most %d bytes", maxLine)}
	}
	text := bytes.TrimSpace(l.text)
	if !jsontext.Value(text).IsValid() {
		return nil, &answerTo{code: jsonrpc.CodeParseError, text: "malformed: the line is not JSON, or names a member twice"}
	}
	if text[0] != '{' {
		return nil, &answerTo{code: jsonrpc.CodeInvalidRequest, text: "malformed: the line is not one JSON-RPC message; batches are not read"}
	}
	if !exactID(text) {
		return nil, &answerTo{code: jsonrpc.CodeInvalidRequest, text: "malformed: a number as id is whole and has at most 15 digits"}
	}
	msg, err := jsonrpc.DecodeMessage(text)
	if err != nil {
		return nil, &answerTo{id: idOf(text), code: jsonrpc.CodeInvalidRequest,
			text: "malformed: the line is not a JSON-RPC message, or is nested too deeply"}
	}
	return msg, nil
}

// idOf returns the id of a call that the SDK cannot read, so that its client does not wait for ever. It is not valid if
// the line is no call with an id.
func idOf(text []byte) jsonrpc.ID {
	var m struct {
		ID     any     `json:"id"`
		Method *string `json:"method"`
	}
	if json.Unmarshal(text, &m) != nil || m.Method == nil {
		return jsonrpc.ID{}
	}
	id, err := jsonrpc.MakeID(m.ID)
	if err != nil {
		return jsonrpc.ID{}
	}
	return id
}

// exactID reports whether the SDK answers with the very id of a message: it reads a number as a whole one of 64 bits,
// by way of a float.
func exactID(text []byte) bool {
	var m struct {
		ID jsontext.Value `json:"id"`
	}
	if json.Unmarshal(text, &m) != nil || m.ID.Kind() != '0' {
		return true // the SDK refuses what is no id
	}
	digits := bytes.TrimPrefix(m.ID, []byte("-"))
	return len(digits) <= 15 && !bytes.ContainsAny(digits, ".eE")
}

// begin opens a call, and hands its id on. It returns the answer to a call that may not be opened.
func (c *conn) begin(msg jsonrpc.Message) *answerTo {
	req, ok := msg.(*jsonrpc.Request)
	if !ok || !req.IsCall() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.open[req.ID]:
		return &answerTo{code: jsonrpc.CodeInvalidRequest, text: "malformed: the id belongs to another call, which is open"}
	case len(c.open) >= maxOpen:
		return &answerTo{id: req.ID, code: codeOverLimit,
			text: fmt.Sprintf("over_limit: %d calls are open; wait for their answers, then call again", maxOpen)}
	}
	c.open[req.ID] = true
	id := fmt.Sprintf("%T:%v", req.ID.Raw(), req.ID.Raw())
	req.Extra = &sdk.RequestExtra{Header: http.Header{callHeader: {id}}}
	return nil
}

func (c *conn) isOpen(id jsonrpc.ID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open[id]
}

// Write writes one message, and closes the call that it answers.
func (c *conn) Write(_ context.Context, msg jsonrpc.Message) error {
	b, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return err
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	if resp, ok := msg.(*jsonrpc.Response); ok {
		c.mu.Lock()
		delete(c.open, resp.ID) // the client may use the id again as soon as it has the answer
		c.mu.Unlock()
	}
	return c.put(b)
}

// say writes an answer of the connection's own.
func (c *conn) say(a *answerTo) error {
	if a.id.IsValid() {
		b, err := jsonrpc.EncodeMessage(&jsonrpc.Response{ID: a.id, Error: &jsonrpc.Error{Code: a.code, Message: a.text}})
		if err != nil {
			return err
		}
		return c.write(b)
	}
	var body struct {
		Version string  `json:"jsonrpc"`
		ID      *string `json:"id"` // always null
		Error   struct {
			Code    int64  `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	body.Version, body.Error.Code, body.Error.Message = "2.0", a.code, a.text
	b, err := api.Encode(body)
	if err != nil {
		return err
	}
	return c.write(b)
}

func (c *conn) write(b []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.put(b)
}

// put writes a line. The caller holds writing.
func (c *conn) put(b []byte) error {
	_, err := c.out.Write(append(b, '\n'))
	return err
}

// Close ends the connection. The reading goroutine ends with the input.
func (c *conn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}

// SessionID is empty: a process has one session.
func (c *conn) SessionID() string { return "" }
