package matrix_test

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/server"
	"gated/internal/host/service"
)

// claims is a row in which the accounts of the host have a name for the requester's uid that says more than a name, or that is
// another uid's, too. An operator is shown the uid alone, and the name gives no right.
func claims(id, what, name, before string) attack {
	return attack{id: id, what: "a user's name: " + what, want: refusal.NotAllowed, run: func(w *world) error {
		needRootIn(w)
		w.destroyRequest()
		path := filepath.Join(w.t.TempDir(), "passwd")
		lines := fmt.Sprintf("%s%s:x:1000:1::/:/bin/sh\nerin:x:%d:1::/:/bin/sh\n", before, name, stranger)
		require.NoError(w.t, os.WriteFile(path, []byte(lines), 0o600))
		users := service.NewUsers(time.Now, path)
		require.Equal(w.t, "erin", users.Name(op.Account{UID: stranger}))
		socket := w.serveLists(server.Config{UID: daemonUID, Operators: []uint32{4000}, Users: users})
		w.arm()
		shown := string(w.callAs(socket, "GET", "/v1/requests", "", ""))
		require.Contains(w.t, shown, `"requested_by":["uid:1000"]`)
		require.Contains(w.t, shown, `"users":{}`)
		return problem(w.t, w.callAs(socket, "DELETE", "/v1/desired/web", "", ""))
	}}
}

// userNameRows: what stands beside a uid is a name, and that uid's alone.
var userNameRows = []attack{
	claims("U14a", "a second line of root's", "root", "root:x:0:0::/root:/bin/sh\n"),
	claims("U14b", "root for another uid alone", "root", ""),
	claims("U14c", "root in other letters", "ROOT", ""),
	claims("U14d", "root with a Cyrillic letter", "r\u043eot", ""),
	claims("U14e", "another uid in brackets", "root (uid 0)", ""),
	claims("U14f", "the end of its own brackets, and a requester of its own", "x), uid:0 (root", ""),
	claims("U14g", "a sequence that clears the line of a terminal", "\x1b[2K\ruid:0", ""),
	claims("U14h", "a person who signs", "alice@example.com", ""),
	claims("U14i", "a number", "0", ""),
	claims("U14j", "the end of its line, and a line of root's", "a:x:1:1:::\nroot", ""),
	claims("U14k", "a second line of an operator's", "carol", "carol:x:4000:1::/:/bin/sh\n"),
}
