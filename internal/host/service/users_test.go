package service

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
)

func namesOf(t *testing.T, text string) (u *Users, path string, at *time.Time) {
	path = filepath.Join(t.TempDir(), "passwd")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	return NewUsers(func() time.Time { return now }, path), path, &now
}

const accounts = `root:x:0:0:root:/root:/bin/sh
toor:x:0:0::/root:/bin/sh
alice:x:1000:1000:root (uid 0):/home/alice:/bin/sh
root (uid 0):x:1001:1001::/:/bin/sh
root:x:1002:1002::/:/bin/sh
Root:x:1003:1003::/:/bin/sh
r` + "\u043eot" + `:x:1004:1004::/:/bin/sh
x), uid0 (root:x:1005:1005::/:/bin/sh
` + "\x1b[2Kbob" + `:x:1006:1006::/:/bin/sh
alice:x:1007:1007::/:/bin/sh
first:x:01000:1::/:/bin/sh
short:x:1010:1:/
long:x:1010:1::/:/bin/sh:
0:x:1008:1008::/:/bin/sh
` + `build$:x:1009:1009::/:/bin/sh
`

func TestUsersAreNamedAsTheirHostNamesThem(t *testing.T) {
	u, _, _ := namesOf(t, accounts)
	asked := []string{"uid:0", "uid:1000", "uid:1000", "uid:1000@node2", "agent:builder#7", "desired:web", "hub:hub.example.com", "gate", "",
		"uid:", "uid:01000", "uid:4294967296", "uid:-1", "uid:9999"}
	for uid := 1001; uid < 1011; uid++ {
		asked = append(asked, fmt.Sprintf("uid:%d", uid))
	}
	require.Equal(t, map[string]string{"uid:0": "root", "uid:1000": "alice", "uid:1009": "build$"}, u.Of(asked...),
		"a name that is another uid's, or says more than a name, is nobody's")
	require.Empty(t, u.Name(op.Account{UID: 1000, Member: "node2"}))
	var none *Users
	require.Equal(t, map[string]string{}, none.Of(asked...))
	require.Empty(t, none.Name(op.Account{}))
}

func TestUsersAreRememberedForAMinute(t *testing.T) {
	u, path, at := namesOf(t, accounts)
	named := func() string { return u.Of("uid:1000")["uid:1000"] }
	require.Equal(t, "alice", named())
	require.NoError(t, os.WriteFile(path, []byte("bob:x:1000:1000::/:/bin/sh\n"), 0o600))
	*at = at.Add(time.Minute - 1)
	require.Equal(t, "alice", named())
	*at = at.Add(1)
	require.Equal(t, "bob", named())
	require.NoError(t, os.Remove(path))
	require.Equal(t, "bob", named())
	*at = at.Add(-time.Hour)
	require.Empty(t, named(), "a clock that goes back ends a minute, too, and without a file nobody has a name")
	require.Empty(t, NewUsers(time.Now, t.TempDir()).Name(op.Account{}), "a directory has no names")
}

func TestAccountsAreReadSoFar(t *testing.T) {
	long := strings.Repeat("#", 1<<20-len("carol:x:1000:1:::\n")-1) + "\n" + "carol:x:1000:1:::\n"
	u, _, _ := namesOf(t, long+"dave:x:1001:1:::\n")
	require.Equal(t, map[string]string{"uid:1000": "carol"}, u.Of("uid:1000", "uid:1001"))
	u, _, _ = namesOf(t, "carol:x:1000:1:::")
	require.Equal(t, "carol", u.Name(op.Account{UID: 1000}))
	u, _, _ = namesOf(t, "#"+long)
	require.Empty(t, u.Of("uid:1000"), "a line that is cut names nobody")
}

func TestAnObjectNamesSoManyUsers(t *testing.T) {
	var b strings.Builder
	var asked []string
	for uid := 2000; uid < 2100; uid++ {
		fmt.Fprintf(&b, "u%d:x:%d:1::/:/bin/sh\n", uid, uid)
		asked = append(asked, "uid:"+strconv.Itoa(uid))
	}
	u, _, _ := namesOf(t, b.String())
	require.Len(t, u.Of(asked[:64]...), 64)
	named := u.Of(asked...)
	require.Len(t, named, 64)
	require.Equal(t, "u2063", named["uid:2063"])
}

// The environment names nobody, also not the process's own uid.
func TestUsersOfThisMachine(t *testing.T) {
	t.Setenv("USER", "mallory")
	require.Equal(t, "root", NewUsers(time.Now, Accounts).Name(op.Account{}))
	u, _, _ := namesOf(t, "")
	require.Empty(t, u.Name(op.Account{UID: uint32(os.Getuid())}))
}

// FuzzUserNames: what is read is a name that may be shown, and is one uid's alone.
func FuzzUserNames(f *testing.F) {
	f.Add([]byte(accounts))
	f.Add([]byte("a:x:1:1:::\na:x:2:1:::\nb:x:1:1:::\n::::::\n:::\na:x:01:1:::"))
	f.Fuzz(func(t *testing.T, text []byte) {
		owner := map[string]uint32{}
		for uid, name := range userNames(text) {
			if name == "" {
				continue
			}
			if op.Beside(fmt.Sprint("uid:", uid), map[string]string{fmt.Sprint("uid:", uid): name}) != fmt.Sprintf("uid:%d (%s)", uid, name) {
				t.Fatalf("%d: %q cannot be shown", uid, name)
			}
			if other, taken := owner[name]; taken {
				t.Fatalf("%q is %d and %d", name, uid, other)
			}
			owner[name] = uid
		}
	})
}
