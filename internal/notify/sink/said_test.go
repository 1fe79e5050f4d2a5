package sink

import (
	"strings"
	"testing"
)

// A receiver that writes an invisible character into a secret does not bring the secret into the log.
func TestSaidTakesSecretsOutAfterInvisibleCharacters(t *testing.T) {
	g := guarded{secrets: []string{"s3cret-token-of-the-sink"}}
	if got := g.said("no: s3cret-token\u200b-of-the-sink"); strings.Contains(got, "s3cret-token-of") {
		t.Errorf("the log would have the secret: %q", got)
	}
}
