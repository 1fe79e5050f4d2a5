package op

import "strings"

// maxLogin is the longest name of a user that is shown, in bytes: that of useradd(8).
const maxLogin = 32

// Login returns the name of an account's user if it may stand beside the uid, else "". A name is for people: nothing is
// signed, logged or decided by it. It may stand there if it has the form that useradd(8) makes, with upper case letters and
// dots as Debian allows them. So it has neither blanks nor brackets, and cannot say more than a name. Only uid 0 may be root.
// A uid of another member has no name: its accounts are not known here.
func (a Account) Login(name string) string {
	form, _ := strings.CutSuffix(name, "$")
	if a.Member != "" || form == "" || len(form) > maxLogin || a.UID != 0 && strings.EqualFold(form, "root") {
		return ""
	}
	for i, c := range []byte(form) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '_':
		case i > 0 && ('0' <= c && c <= '9' || c == '-' || c == '.'):
		default:
			return ""
		}
	}
	return name
}

// Named returns the account with its user's name: "1000 (alice)", or "1000" if the name may not be shown.
func (a Account) Named(name string) string { return beside(a.String(), a.Login(name)) }

// Beside returns a requester, as Requester.String names it, with the name of its user: "uid:1000 (alice)". users has names
// by requester. A requester that is no uid, or whose name is missing or may not be shown, is returned as it is.
func Beside(by string, users map[string]string) string {
	a, ok := AccountOf(by)
	if !ok {
		return by
	}
	return beside(by, a.Login(users[by]))
}

// AccountOf returns the account of a requester that is a uid, as Requester.String names it.
func AccountOf(by string) (a Account, ok bool) {
	text, found := strings.CutPrefix(by, "uid:")
	if !found {
		return Account{}, false
	}
	a, err := ParseAccount(text)
	return a, err == nil
}

func beside(who, name string) string {
	if name == "" {
		return who
	}
	return who + " (" + name + ")"
}
