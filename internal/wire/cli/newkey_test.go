package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
)

func TestHowANewKeyIsProved(t *testing.T) {
	const (
		blob = "AAAAInNrLWVjZHNhLXNoYTItbmlzdHAyNTZAb3BlbnNzaC5jb20AAAAIbmlzdHAyNTYAAABBBHUW9PWPldJ0uMwZiaW+ZWKcWKS4OpgCw5qTLqnDNa7+" +
			"d8VlIH+cl7+HwwKULiwlXS74y89C4pBcfqfJFKT3CBUAAAATY29uc29sZS5leGFtcGxlLmNvbQ=="
		line    = `alice@example.com namespaces="operational@gated" sk-ecdsa-sha2-nistp256@openssh.com ` + blob
		passkey = "SHA256:hOolBNHg+9hJWe7dV8+dHDMhHlNH6VFfpZW5EJh1kLk"
		other   = "SHA256:new"
		typed   = "opsign approve j1.1 --role operational --key FILE"
	)
	for what, c := range map[string]struct {
		add  any
		key  string
		want string
	}{
		"a passkey":         {[]any{line}, passkey, "on a page of console.example.com"},
		"another key":       {[]any{line}, other, typed},
		"nothing is added":  {nil, passkey, typed},
		"another form":      {line, passkey, typed},
		"no text":           {[]any{7, line}, passkey, "on a page of console.example.com"},
		"no key":            {[]any{"alice@example.com sk-ecdsa-sha2-nistp256@openssh.com"}, passkey, typed},
		"no base64":         {[]any{"alice@example.com sk-ecdsa-sha2-nistp256@openssh.com ???"}, passkey, typed},
		"a key that is cut": {[]any{"alice@example.com sk-ecdsa-sha2-nistp256@openssh.com AAAAInNr"}, passkey, typed},
	} {
		require.Equal(t, c.want, proof(api.Request{ID: "j1.1", Params: op.Params{"add": c.add}}, c.key, "operational"), what)
	}
}
