package vectors

import (
	"encoding/base64"
	"strings"
)

// content is the bytes of a text, or of what is no text.
type content struct {
	Text   *string `json:"text,omitzero"`
	Base64 []byte  `json:"base64,omitzero"`
}

func contentOf(b string) content {
	if strings.ToValidUTF8(b, "") != b {
		return content{Base64: []byte(b)}
	}
	return content{Text: &b}
}

func (c content) bytes() []byte {
	if c.Text != nil {
		return []byte(*c.Text)
	}
	return c.Base64
}

func b64(b []byte) string { return base64.StdEncoding.EncodeToString(b) }
