package strictyaml

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// A key that must be there and is misspelt is told as what was written, at its own place.
func TestAMisspeltKeyIsNotCalledMissing(t *testing.T) {
	for src, want := range map[string]string{
		"a: 1\nhots: x\n":              `f.yaml:2:1: unknown key hots; is "host" meant?, in: hots: x`,
		"a: 1\nm: {c: 1}\n":            `f.yaml:1:1: host is missing, in: a: 1`,
		"a: 1\nhost: x\nm: {bb: 1}\n":  `f.yaml:3:5: unknown key bb in m; is "b" meant?, in: m: {bb: 1}`,
		"a: 1\nhost: x\nm: {zzz: 1}\n": `f.yaml:3:4: b is missing, in: m: {zzz: 1}`,
	} {
		m := must.Get(Parse("f.yaml", []byte(src)))(t)
		m.Get("a").Int(0, 9)
		m.Need("host").Text()
		m.Get("m").Need("b")
		require.False(t, m.Sound(), src)
		require.EqualError(t, m.Done(), want)
	}
}

// A key beside the one that is meant names that one, too.
func TestAKeyBesideTheOneThatIsMeant(t *testing.T) {
	m := must.Get(Parse("f.yaml", []byte("host: x\nhosts: y\n")))(t)
	m.Need("host").Text()
	require.EqualError(t, m.Done(), `f.yaml:2:1: unknown key hosts; "host" is there already, in: hosts: y`)
}
