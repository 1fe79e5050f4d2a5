package service

import (
	"bytes"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"gated/internal/base/op"
)

// Accounts is the file with the accounts of a host (passwd(5)).
const Accounts = "/etc/passwd"

const (
	// usersFor is how long the accounts are remembered: names change rarely, and a list of 1,000 requests must not read the
	// file 1,000 times.
	usersFor = time.Minute
	// maxAccounts is how much of the file is read, in bytes. A user of a later line shows without a name.
	maxAccounts = 1 << 20
	// maxNamed is how many uids of one object get a name.
	maxNamed = 64
)

// Users knows the names of this host's users, to show them beside their uids. Nothing is decided by a name. A nil Users knows
// none.
//
// It reads the file itself. Package os/user keeps the name of the process's own uid until the process ends, and takes it from
// the environment if the file has none.
type Users struct {
	path string
	now  func() time.Time

	mu    sync.Mutex
	since time.Time
	names map[uint32]string // nil before the first read
}

// NewUsers returns the names in a file as passwd(5) describes it. If it cannot be read, nobody has a name.
func NewUsers(now func() time.Time, path string) *Users { return &Users{path: path, now: now} }

// Of returns the names of those requesters, as op.Requester.String names them, that are uids of this host and have a name
// that op.Account.Login lets stand beside it. A requester without one is not in the result.
func (u *Users) Of(requesters ...string) map[string]string {
	out := map[string]string{}
	for _, by := range requesters {
		a, ok := op.AccountOf(by)
		if !ok || len(out) >= maxNamed {
			continue
		}
		if name := u.Name(a); name != "" {
			out[by] = name
		}
	}
	return out
}

// Name returns the name of an account's user, or "" if it has none to show.
func (u *Users) Name(a op.Account) string {
	if u == nil || a.Member != "" {
		return ""
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	now := u.now()
	if age := now.Sub(u.since); u.names == nil || age < 0 || age >= usersFor {
		u.names, u.since = namesIn(u.path), now
	}
	return u.names[a.UID]
}

// namesIn reads the names in a file; none if it cannot be read.
func namesIn(path string) map[uint32]string {
	f, err := os.Open(path)
	if err != nil {
		return map[uint32]string{}
	}
	defer func() { _ = f.Close() }() // it was only read
	b, err := io.ReadAll(io.LimitReader(f, maxAccounts))
	if err != nil {
		return map[uint32]string{}
	}
	if len(b) < maxAccounts {
		b = append(b, '\n') // the last line is whole, also without its end
	}
	return userNames(b)
}

// userNames reads lines of passwd(5). As in a lookup, the first line of a uid and the first line of a name count: a second
// line root with another uid names nobody. A line that is not whole, or whose uid has another spelling, counts for nothing.
func userNames(accounts []byte) map[uint32]string {
	names, owners := map[uint32]string{}, map[string]uint32{}
	for len(accounts) > 0 {
		line, rest, whole := bytes.Cut(accounts, []byte{'\n'})
		accounts = rest
		fields := bytes.Split(line, []byte{':'})
		if !whole || len(fields) != 7 {
			continue
		}
		id, err := strconv.ParseUint(string(fields[2]), 10, 32)
		if err != nil || strconv.FormatUint(id, 10) != string(fields[2]) {
			continue
		}
		name, uid := string(fields[0]), uint32(id)
		if _, taken := owners[name]; !taken {
			owners[name] = uid
		}
		if _, named := names[uid]; named {
			continue
		}
		names[uid] = ""
		if owners[name] == uid {
			names[uid] = op.Account{UID: uid}.Login(name)
		}
	}
	return names
}
