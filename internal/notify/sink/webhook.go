package sink

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"time"

	"gated/internal/notify/message"
	"gated/internal/notify/settings"
)

// webhook calls an HTTP receiver, a chat product or another program.
type webhook struct {
	caller
	is settings.Webhook
}

func newWebhook(s settings.Webhook) (webhook, error) {
	c, err := newCaller(s.CA)
	return webhook{c, s}, err
}

func newNtfy(s settings.Ntfy) (ntfy, error) {
	c, err := newCaller(s.CA)
	return ntfy{c, s.URL, s.Topic, s.Token}, err
}

func (w webhook) Send(ctx context.Context, m message.Message, now time.Time) (string, error) {
	method, address, kind := http.MethodPost, w.is.URL, "application/json"
	var body []byte
	var err error
	switch w.is.Template {
	case "slack":
		body, err = m.Slack()
	case "matrix":
		method, address = http.MethodPut, matrixURL(w.is.URL, w.is.Room, m.ID)
		body, err = m.Matrix()
	case "telegram":
		body, err = m.Telegram(w.is.Chat)
	case "teams":
		body, err = m.Teams()
	default:
		kind = message.EventContentType
		body, err = m.CloudEvent()
	}
	if err != nil {
		return "", unwritable(err)
	}
	h := http.Header{"Content-Type": {kind}}
	if w.is.Token != "" {
		h.Set("Authorization", "Bearer "+w.is.Token)
	}
	sign(h, w.is.Secret, m.ID, now, body)
	return w.call(ctx, method, address, h, body, now)
}

// sign adds the headers of Standard Webhooks. Without a secret there is no signature. The id is the same at each try,
// the time is that of the try.
func sign(h http.Header, secret []byte, id string, now time.Time, body []byte) {
	at := strconv.FormatInt(now.Unix(), 10)
	h.Set("Webhook-Id", id)
	h.Set("Webhook-Timestamp", at)
	if secret == nil {
		return
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(id + "." + at + "."))
	mac.Write(body)
	h.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}
