package op

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLoginIsAPortableNameOrNone(t *testing.T) {
	alice := Account{UID: 1000}
	for _, good := range []string{"alice", "a", "_apt", "www-data", "pc1$", "Alice.Smith", "x1.2-3_4", strings.Repeat("a", 32), strings.Repeat("a", 32) + "$"} {
		require.Equal(t, good, alice.Login(good))
	}
	for _, bad := range []string{"", "$", "-a", ".a", "1", "0", "root", "Root", "ROOT", "root$", "root (uid 0)", "alice)", "a b", " a", "a ", "a,b", "a:b",
		`a"b`, "a\x1b[31m", "a\nb", "a\x00", "r\u043eot", "alic\u00e9", "a\u202e", "a$b", "a$$", "\xff", "<b>", "@all", strings.Repeat("a", 33)} {
		require.Empty(t, alice.Login(bad), "%q", bad)
	}
	require.Equal(t, "root", Account{}.Login("root"))
	require.Empty(t, Account{UID: 1000, Member: "node2"}.Login("alice"))
	require.Equal(t, "1000 (alice)", alice.Named("alice"))
	require.Equal(t, "1000", alice.Named("root"))
}

func TestNameStandsBesideTheUIDAndNeverInstead(t *testing.T) {
	users := map[string]string{"uid:0": "root", "uid:1000": "alice", "uid:1001": "root", "uid:1002": "x), uid:0 (root", "uid:1003@node2": "bob",
		"agent:builder#7": "alice", "desired:web": "alice", "gate": "alice", "uid:01000": "alice", "uid:-1": "alice", "uid:": "alice", "": "alice"}
	for by, want := range map[string]string{"uid:0": "uid:0 (root)", "uid:1000": "uid:1000 (alice)", "uid:4": "uid:4"} {
		require.Equal(t, want, Beside(by, users))
	}
	for by := range users {
		if by != "uid:0" && by != "uid:1000" {
			require.Equal(t, by, Beside(by, users))
		}
	}
	require.Equal(t, "uid:1000", Beside("uid:1000", nil))
}
