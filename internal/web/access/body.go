package access

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"time"

	"gated/internal/base/refusal"
)

// The largest bodies of requests, in bytes. With a session it is a signature with what it is over. Without one it is a
// sign-in, of whoever asks: what many of them send at the same time has to fit into memory.
const (
	maxBody       = 256 << 10
	maxBodyBefore = 32 << 10
)

// hurry bounds how long the body of a request takes, before anything is refused: the server reads what a handler leaves, and
// would wait for it without an end. Where there is no body it sets nothing, because the context of a long answer would end with it.
func (w *Wall) hurry(rw http.ResponseWriter, r *http.Request) {
	if !hasBody(r) {
		return
	}
	_ = http.NewResponseController(rw).SetReadDeadline(w.config.Now().Add(w.waits.body)) // a test's recorder has none
	if r.ProtoMajor == 1 {
		rw.Header().Set("Connection", "close") // a refusal does not wait for the body; wholeBody takes this back
	}
}

// hasBody reports whether a client announced a body, of any length or of none that it said.
func hasBody(r *http.Request) bool { return r.ContentLength != 0 }

// wholeBody reads the body of a request to its end, so that one that comes slowly reaches no handler.
func (w *Wall) wholeBody(rw http.ResponseWriter, r *http.Request, most int64) error {
	if !hasBody(r) {
		return nil
	}
	if r.Method != http.MethodPost {
		return refusal.New(refusal.Malformed, "the request for a page has a body").WithHint("use a browser")
	}
	b, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, most))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return refusal.New(refusal.Oversized, "the request has more than %d bytes", most).WithHint("use the forms of these pages")
	case err != nil:
		return refusal.New(refusal.Malformed, "the request broke off, or came too slowly").WithHint("try again")
	}
	_ = http.NewResponseController(rw).SetReadDeadline(time.Time{}) // a test's recorder has none
	rw.Header().Del("Connection")
	r.Body = io.NopCloser(bytes.NewReader(b))
	return nil
}
