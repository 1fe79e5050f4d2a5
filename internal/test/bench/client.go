package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"gated/client/api"
)

// conn is the connection of one client. It sends requests that were prepared and
// reads no more of an answer than it needs, because client and daemon share the
// machine and the daemon is to be measured.
type conn struct {
	net.Conn
	r    *bufio.Reader
	body []byte
}

func dial(socket string) (*conn, error) {
	c, err := net.Dial("unix", socket)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, r: bufio.NewReaderSize(c, 16<<10)}, nil
}

func get(path string) []byte { return []byte("GET " + path + " HTTP/1.1\r\nHost: gated\r\n\r\n") }

func post(path string, body any) ([]byte, error) {
	b, err := api.Encode(body)
	if err != nil {
		return nil, err
	}
	head := "POST " + path + " HTTP/1.1\r\nHost: gated\r\nContent-Type: application/json\r\nContent-Length: " +
		strconv.Itoa(len(b)) + "\r\n\r\n"
	return append([]byte(head), b...), nil
}

// do sends a request and returns the body of its answer, which the next call
// overwrites. An answer with another status than 2xx is an error.
func (c *conn) do(request []byte) ([]byte, error) {
	if _, err := c.Write(request); err != nil {
		return nil, err
	}
	return c.answer()
}

// answer reads the answer to the request that was sent last.
func (c *conn) answer() ([]byte, error) {
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return nil, err
	}
	buf := bytes.NewBuffer(c.body[:0])
	if _, err = io.Copy(buf, resp.Body); err != nil {
		return nil, err
	}
	c.body = buf.Bytes()
	if resp.StatusCode/100 != 2 {
		return nil, fmt.Errorf("%s: %.300s", resp.Status, c.body)
	}
	return c.body, nil
}

// doAll makes the calls of an exchange and returns the body of the last answer.
func (c *conn) doAll(e exchange) (answer []byte, err error) {
	for _, request := range e {
		if answer, err = c.do(request); err != nil {
			return nil, err
		}
	}
	return answer, nil
}

// exchange is the calls of one operation. One client makes them in this order.
type exchange [][]byte

// load has n clients make every exchange once, and checks that the last answer
// of each contains want. It returns the time for all and that for each, in
// milliseconds.
func load(socket string, n int, exchanges []exchange, want string) (time.Duration, []float64, error) {
	conns := make([]*conn, n)
	for i := range conns {
		var err error
		if conns[i], err = dial(socket); err != nil {
			return 0, nil, err
		}
		defer conns[i].Close()
	}
	return share(n, len(exchanges), func(client, k int) error {
		answer, err := conns[client].doAll(exchanges[k])
		if err == nil && !bytes.Contains(answer, []byte(want)) {
			err = fmt.Errorf("an answer without %s: %.300s", want, answer)
		}
		return err
	})
}

// as puts the client's token into a request.
func (h *holding) as(request []byte) []byte {
	return bytes.Replace(request, []byte("\r\n"), []byte("\r\n"+api.TokenHeader+": "+h.token+"\r\n"), 1)
}

// between returns the text after a mark in an answer, up to the next quotation
// mark.
func between(answer []byte, mark string) string {
	_, rest, _ := bytes.Cut(answer, []byte(mark))
	text, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(text)
}
