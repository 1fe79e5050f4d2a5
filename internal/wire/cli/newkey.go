package cli

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"gated/client/api"
	"gated/internal/base/op"
)

// proof says how the holder of a key that a rotation adds proves to have it: a passkey signs on a page of its host, and any
// other key in a terminal.
func proof(r api.Request, key, role string) string {
	if page := pageOf(r, key); page != "" {
		return "on a page of " + Inline(page)
	}
	return fmt.Sprintf("opsign approve %s --role %s --key FILE", Inline(r.ID), Inline(role))
}

// pageOf returns the host on whose pages a key of a line that a rotation adds signs. It is empty of a key that is no
// passkey, and of a line that cannot be read. A passkey is an ECDSA security key whose application is a host name.
func pageOf(r api.Request, fingerprint string) string {
	lines, _ := r.Params["add"].([]any) // another form adds nothing
	for _, line := range lines {
		text, _ := line.(string)
		words := strings.Fields(text)
		at := slices.Index(words, ssh.KeyAlgoSKECDSA256)
		if at < 0 || at+1 == len(words) {
			continue
		}
		blob, err := base64.StdEncoding.DecodeString(words[at+1])
		if err != nil {
			continue
		}
		var listed struct { // PROTOCOL.u2f of OpenSSH
			Type, Curve string
			Point       []byte
			Application string
		}
		key, err := ssh.ParsePublicKey(blob)
		if err == nil && ssh.FingerprintSHA256(key) == fingerprint && ssh.Unmarshal(blob, &listed) == nil && op.IsRelyingParty(listed.Application) {
			return listed.Application
		}
	}
	return ""
}
