package command

import (
	"os"
	"os/user"
	"slices"
	"strconv"

	"gated/internal/base/refusal"
)

// account is the user that a command runs as.
type account struct {
	Name   string // as the entry names it; empty is the daemon's own
	Own    bool   // it is the daemon's own user, so nothing is switched
	UID    uint32
	GID    uint32
	Groups []uint32 // sorted
}

// accountOf looks up an entry's user again for each call. Only root can change to another user.
// The daemon's own user is refused, because a command that runs as that user could sign for
// itself.
func (d *Driver) accountOf(name string) (account, error) {
	own := os.Geteuid()
	if name == "" {
		name = strconv.Itoa(own)
	}
	u, err := user.Lookup(name)
	if err != nil {
		if u, err = user.LookupId(name); err != nil {
			return account{}, refusal.New(refusal.Unavailable, "there is no user %q", name).
				WithHint("add the user, or name another in gated.yaml")
		}
	}
	a := account{Name: u.Username}
	if a.UID, err = number(u.Uid); err == nil {
		a.GID, err = number(u.Gid)
	}
	if err != nil {
		return account{}, refusal.New(refusal.Unavailable, "the user %q has no numbers for uid and gid", name)
	}
	switch {
	case int(a.UID) == own && !d.cfg.SingleUser:
		return account{}, refusal.New(refusal.NotAllowed,
			"it would run as gated's own user, %s, and could change the gate itself", u.Username).
			WithHint("give it a user of its own in gated.yaml")
	case int(a.UID) == own:
		a.Own = true
		return a, nil
	case own != 0:
		return account{}, refusal.New(refusal.Unavailable, "only root can run it as %s", name).WithHint("run gated as root")
	}
	return a, a.join(u)
}

// join adds the groups that the user has after a login.
func (a *account) join(u *user.User) error {
	ids, err := u.GroupIds()
	if err != nil {
		return refusal.New(refusal.Unavailable, "the groups of %s are not known: %v", u.Username, err)
	}
	for _, id := range ids {
		n, err := number(id)
		if err != nil {
			return refusal.New(refusal.Unavailable, "a group of %s is %q", u.Username, id)
		}
		a.Groups = append(a.Groups, n)
	}
	slices.Sort(a.Groups)
	a.Groups = slices.Compact(a.Groups)
	return nil
}

func number(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	return uint32(n), err
}
