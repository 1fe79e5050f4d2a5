package authz_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// pages have such rows.
var pages = []string{"allowed-signers.md", "signatures.md"}

// stricter names, for each refusal of what ssh-keygen may accept, the row of
// docs/formats about it. If the words fit more rows, it names all. A refusal is
// found by a part of its words, the first that fits, and a row by its beginning.
var stricter = []struct {
	refusal string
	rows    []string
}{
	{"the certificate's CA: ", []string{"a CA, or a certified key"}},
	// The file.
	{"option namespaces is missing", []string{"a missing `namespaces`"}},
	{"a namespace with a wildcard or !", []string{"a namespace with"}},
	{"an empty namespace", []string{"a namespace with"}},
	{"the value of namespaces has a blank or a backslash", []string{"a namespace with"}},
	{"a key line names one principal", []string{"a key line with more than one principal"}},
	{"the principal is empty", []string{"a key line with more than one principal"}},
	{"an empty principal pattern", []string{"a CA line with an empty pattern"}},
	{"a ! inside a principal pattern", []string{"a CA line with an empty pattern"}},
	{"all principal patterns are negated", []string{"a CA line with an empty pattern"}},
	{"a quote inside the principal", []string{"a quote inside the first field"}},
	{"no space after the principal's quote", []string{"a quote inside the first field"}},
	{"an unknown option", []string{"an unknown option", "an option in capitals"}},
	{"is there twice", []string{"an unknown option"}},
	{"cert-authority takes no value", []string{"an unknown option"}},
	{"is not a time", []string{"a time without `Z`", "a date that does not exist"}},
	{"valid-before is not after valid-after", []string{"`valid-before` not after"}},
	{"bits is too weak", []string{"RSA with less than 3,072 bits", "a CA, or a certified key"}},
	{"a DSA key is too weak", []string{"DSA", "a CA, or a certified key"}},
	{"stands where a key should", []string{"a certificate in the place of a key"}},
	{"application neither starts with ssh: nor", []string{"a security key whose application", "a CA, or a certified key"}},
	{"a passkey certifies no keys", []string{"a security key whose application"}},
	{"one of its keys is a passkey", []string{"a CA, or a certified key"}},
	{"the key is not base64", []string{"a key that is not in its one canonical encoding"}},
	{"not in its one canonical encoding", []string{"a key that is not in its one canonical encoding"}},
	{"the key does not decode", []string{"a key that is not in its one canonical encoding", "RSA with an even exponent"}},
	{"the key's type is not the one", []string{"a key type that is not"}},
	{"which does not show on a terminal as it is", []string{"CR, NUL"}},
	{"a carriage return", []string{"CR, NUL"}},
	{"is not valid UTF-8", []string{"CR, NUL"}},
	{"has more than", []string{"a principal, a pattern or a namespace of more than"}},
	{"nothing after the principal", []string{"a malformed line anywhere"}},
	{"no key follows the options", []string{"a malformed line anywhere"}},
	{"is not followed by =", []string{"a malformed line anywhere"}},
	{"quote is not closed", []string{"a malformed line anywhere"}},
	{"is not closed", []string{"a malformed line anywhere"}},
	{"has a blank or a backslash in it", []string{"a malformed line anywhere"}},
	{"the key is missing or cut short", []string{"a malformed line anywhere"}},
	{"are not supported", []string{"a malformed line anywhere"}},
	// A certificate.
	{"principals, not one", []string{"more than one principal, or one twice"}},
	{"a principal that no line could name", []string{"a principal that no key line could name"}},
	{"which is not known here", []string{"a critical option other than"}},
	{"asks for verify-required", []string{"`verify-required`, and the signature"}},
	{"is ssh-rsa, which uses SHA-1", []string{"the CA's signature by RSA with SHA-1"}},
	{"it is neither for users nor for hosts", []string{"a type that is neither for users nor for hosts"}},
	{"its reserved field is not empty", []string{"a type that is neither for users nor for hosts"}},
	{"its nonce is too short", []string{"a type that is neither for users nor for hosts"}},
	{"its options are not pairs", []string{"a type that is neither for users nor for hosts"}},
	{"its key id does not show", []string{"a key id with control"}},
	{"the form of one by a ssh-rsa key", []string{"an RSA signature by the CA"}},
	// The signature, and the CA's signature of a certificate.
	{"is not that of a role here", []string{"a namespace that is not a role's"}},
	{"signed without a touch", []string{"a security key's signature without the flag", "the CA's signature by a security key"}},
	{"the inner signature is cut short or followed by other bytes", []string{"a browser's signature (`webauthn-sk-…`) by a key"}},
	{"the signature is not a passkey's", []string{"a browser's signature (`webauthn-sk-…`) by a key", "a browser's signature for another page"}},
	{"is not one strict JSON object", []string{"a browser's signature for another page"}},
	{"asked for the signature", []string{"a browser's signature for another page"}},
	{"its lines are not all of one length", []string{"PEM headers"}},
}

// rows is the table above with the rows of the pages.
type rows struct {
	parts []string // of refusals
	rows  []string // in the form of rowsOf
}

func readRows(t *testing.T) rows {
	t.Helper()
	var out rows
	for _, s := range stricter {
		var found []string
		for _, begins := range s.rows {
			all := rowsOf(t, pages...)
			i := slices.IndexFunc(all, func(row string) bool { return strings.Contains(row, ": "+begins) })
			require.GreaterOrEqual(t, i, 0, "no page has a row that begins %q", begins)
			found = append(found, all[i])
		}
		out.parts = append(out.parts, s.refusal)
		out.rows = append(out.rows, strings.Join(found, "; or "))
	}
	return out
}

// rowsOf returns "page number: what is refused" for each row of the pages' part on
// where gated is stricter.
func rowsOf(t *testing.T, pages ...string) []string {
	t.Helper()
	var out []string
	for _, page := range pages {
		text := must.Get(os.ReadFile(filepath.Join("..", "..", "docs", "formats", page)))(t)
		_, part, ok := strings.Cut(string(text), "\n## Where gated is stricter than OpenSSH\n")
		require.True(t, ok, page)
		part, _, _ = strings.Cut(part, "\n## ")
		for line := range strings.Lines(part) {
			cells := strings.Split(line, " | ")
			if number := strings.Trim(cells[0], "| "); len(cells) > 2 && number != "" {
				out = append(out, page+" "+number+": "+cells[1])
			}
		}
	}
	return out
}

// of returns the row of a refusal, or "".
func (r rows) of(err error) string {
	var refused *refusal.Refusal
	if !errors.As(err, &refused) {
		return ""
	}
	for i, part := range r.parts {
		if strings.Contains(refused.Detail, part) {
			return r.rows[i]
		}
	}
	return ""
}

// TestEveryStricterRowIsLookedFor: a row of the page that the table does not have
// would never be counted.
func TestEveryStricterRowIsLookedFor(t *testing.T) {
	t.Parallel()
	all := rowsOf(t, pages[0])
	require.Greater(t, len(all), 20)
	looked := strings.Join(readRows(t).rows, "\n")
	for _, row := range all {
		require.True(t, strings.Contains(looked, row), row)
	}
}
