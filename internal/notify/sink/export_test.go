package sink

import (
	"net"
	"net/http"
	"time"

	"gated/internal/notify/message"
	"gated/internal/notify/settings"
)

// RetryAfter is retryAfter.
var RetryAfter = retryAfter

// Signature returns the header that sign adds.
func Signature(key []byte, id string, now time.Time, body []byte) string {
	h := http.Header{}
	sign(h, key, id, now, body)
	return h.Get("Webhook-Signature")
}

// Talk delivers a mail over a connection.
func Talk(s settings.SMTP, conn net.Conn, m message.Message, now time.Time) error {
	to, err := newMail(s)
	if err != nil {
		return err
	}
	if err := to.talk(conn, m, now); err != nil {
		return smtpFailure(err)
	}
	return nil
}
