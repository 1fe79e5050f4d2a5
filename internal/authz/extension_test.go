package authz

import (
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// unhex reads bytes as RFC 8949 prints them.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	return must.Get(hex.DecodeString(strings.ReplaceAll(s, " ", "")))(t)
}

// goodExtensions are maps of CBOR, most with an item of RFC 8949, appendix A, in them.
var goodExtensions = []string{
	"a0", "a1 01 02", "a2 61 61 01 61 62 82 02 03", "a1 61 61 a1 61 62 61 63", // maps
	"a1 61 61 00", "a1 61 61 17", "a1 61 61 18 18", "a1 61 61 19 03e8", "a1 61 61 1a 000f4240", "a1 61 61 1b ffffffffffffffff", // numbers
	"a1 61 61 20", "a1 61 61 3b ffffffffffffffff", // and below zero
	"a1 61 61 f4", "a1 61 61 f5", "a1 61 61 f6", "a1 61 61 f7", "a1 61 61 f0", "a1 61 61 f8 ff", // simple values
	"a1 61 61 f9 3c00", "a1 61 61 fa 47c35000", "a1 61 61 fb 3ff199999999999a", // floats
	"a1 61 61 40", "a1 61 61 44 01020304", "a1 61 61 58 02 0102", "a1 61 61 60", "a1 61 61 64 49455446", // strings
	"a1 61 61 80", "a1 61 61 83 01 02 03", "b8 01 61 61 01", "bb 0000000000000001 61 61 01",
	"a1 63 75766d 81 83 02 04 02",              // uvm: WebAuthn level 2, 10.3
	"a1 6b 6372656450726f74656374 02",          // credProtect: CTAP 2.1, 12.1
	"a1 6b 686d61632d736563726574 44 00000000", // hmac-secret: CTAP 2.1, 12.5
	"a1 61 61 81 81 80",                        // four levels
}

// badExtensions are no such maps. Most items are those of RFC 8949, appendix F.
var badExtensions = []string{
	"00", "20", "40", "60", "80", "c0 00", "c0 a0", "f6", "ff", "1f", // no map
	"a1", "a1 01", "a2 01 02", "a2 01 02 03", "a1 61", "a1 61 61", // cut short
	"a1 61 61 18", "a1 61 61 19 03", "a1 61 61 1a 0000", "a1 61 61 1b 00000000", "a1 61 61 38", "a1 61 61 f8", "a1 61 61 f9 00", "a1 61 61 fb 00000000",
	"a1 61 61 41", "a1 61 61 61", "a1 61 61 58", "a1 61 61 5a ffffffff 00", "a1 61 61 7b 7fffffffffffffff 010203", // strings that lie
	"a1 61 61 81", "a1 61 61 98 02 00", "a1 61 61 9a ffffffff 00", "a1 61 61 9b ffffffffffffffff", "bb ffffffffffffffff", "bb 8000000000000000", // lists and maps that lie
	"bb 8000000000000001 61 61 01", "b9 0100 61 61 01",
	"a1 61 61 1c", "a1 61 61 1d", "a1 61 61 1e", "a1 61 61 3c", "a1 61 61 5c", "a1 61 61 7d", "a1 61 61 9e", "bc", "bd", "be", "a1 61 61 fc", "a1 61 61 fe", // reserved
	"a1 61 61 f8 00", "a1 61 61 f8 18", "a1 61 61 f8 1f", // simple values in two bytes
	"bf ff", "bf 61 61 01 ff", "a1 61 61 5f 41 00 ff", "a1 61 61 7f 61 61 ff", "a1 61 61 9f ff", "a1 61 61 bf ff", "a1 61 61 ff", "a1 ff 00", // without a length
	"a1 61 61 c0 00", "a1 61 61 d9 d9f7 00", "d9 d9f7 a0", // tags
	"a0 00", "a0 a0", "a1 01 02 03", "a0 ff", // more after it
	"a1 61 61 81 81 81 80", "a1 61 61 a1 01 a1 01 a1 01 a0", // five levels
}

func TestExtensionData(t *testing.T) {
	t.Parallel()
	for _, s := range goodExtensions {
		require.True(t, isExtensionData(unhex(t, s)), s)
	}
	require.False(t, isExtensionData(nil))
	for _, s := range badExtensions {
		require.False(t, isExtensionData(unhex(t, s)), s)
	}
}

// FuzzExtensionData: no extension data that is accepted begins other data that is accepted. So where it ends does not
// depend on who reads it. With one more level around it, it is accepted until it nests too deep.
func FuzzExtensionData(f *testing.F) {
	for _, s := range append(goodExtensions, badExtensions...) {
		f.Add(unhex(f, s), []byte{0})
	}
	f.Fuzz(func(t *testing.T, data, more []byte) {
		if len(data) > maxExtensions || !isExtensionData(data) {
			return
		}
		require.EqualValues(t, cborMap, data[0]>>5)
		for n := range len(data) {
			require.False(t, isExtensionData(data[:n]), "its first %d bytes", n)
		}
		require.Equal(t, len(more) == 0, isExtensionData(slices.Concat(data, more)))
		around := data
		for range maxNesting {
			around = slices.Concat([]byte{0xa1, 0x61, 'x'}, around)
		}
		require.False(t, isExtensionData(around))
	})
}
