package op

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"gated/internal/base/refusal"
)

// Passkeys says which WebAuthn signatures count at a gate. The zero value accepts none.
type Passkeys struct {
	Origins []string // of the pages that may ask for signatures, each as Origin accepts it
	Synced  bool     // also of keys that a vault may copy to other devices
}

// Any reports whether any passkey's signature can count.
func (p Passkeys) Any() bool { return len(p.Origins) > 0 }

// Allow refuses what a security key attests, if it does so for an origin that is not one of p.Origins (OriginMismatch),
// or if the key may be copied and p.Synced is false (WeakKey). It returns nil for a key that is no passkey.
func (p Passkeys) Allow(a *Attested) error {
	switch {
	case !a.Passkey():
		return nil
	case !p.Any():
		return refusal.New(refusal.OriginMismatch, "passkeys are not accepted here, and a page of %s asked for the signature", Shown(a.Origin)).
			WithHint("sign with another key; or name the page's origin in passkeys.origins of gated.yaml")
	case !slices.Contains(p.Origins, a.Origin):
		return refusal.New(refusal.OriginMismatch, "a page of %s asked for the signature, and only %s may", Shown(a.Origin), strings.Join(p.Origins, ", ")).
			WithHint("sign on the page whose address is in passkeys.origins of gated.yaml")
	case a.Flags&FlagBackupEligible != 0 && !p.Synced:
		return refusal.New(refusal.WeakKey, "the passkey may be copied to other devices, and passkeys.synced refuses such keys").
			WithHint("sign with a passkey that stays in one device, as in a FIDO2 security key; or with another key")
	}
	return nil
}

// maxOrigin bounds an origin, in bytes: the longest host name and a port.
const maxOrigin = 300

// Origin returns the host of a page's origin in the one form that browsers write (HTML, "ASCII serialization of an origin"): https://HOST or
// https://HOST:PORT. Only of localhost it may also be http. If text has another form, ok is false.
func Origin(text string) (host string, ok bool) {
	u, err := url.Parse(text)
	if err != nil || len(text) > maxOrigin {
		return "", false
	}
	host = u.Hostname()
	if !IsRelyingParty(host) || u.Scheme != "https" && (u.Scheme != "http" || host != localhost) {
		return "", false
	}
	want := u.Scheme + "://" + host
	if port := u.Port(); port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 || u.Scheme == "https" && n == 443 || u.Scheme == "http" && n == 80 {
			return "", false
		}
		want += ":" + strconv.FormatUint(n, 10)
	}
	return host, text == want
}

const localhost = "localhost"

// IsRelyingParty reports whether a name can be the id of a WebAuthn relying party here: localhost, or a name of two labels at the least in lower
// case, without a dot at its end. An address is none, and of a name like "com" every site could use the key.
func IsRelyingParty(name string) bool {
	if name == localhost {
		return true
	}
	labels := strings.Split(name, ".")
	if len(name) > 253 || len(labels) < 2 {
		return false
	}
	if isNumber(labels[len(labels)-1]) {
		return false // an address
	}
	return !slices.ContainsFunc(labels, func(l string) bool { return !isLabel(l) })
}

// isNumber reports whether browsers read a name as an address whose last label is l (URL Standard, "ends in a number checker").
func isNumber(l string) bool {
	hex, ok := strings.CutPrefix(l, "0x")
	return ok && strings.Trim(hex, "0123456789abcdef") == "" || strings.Trim(l, "0123456789") == ""
}

// isLabel reports whether l is a label of a host name in lower case (RFC 1123, 2.1).
func isLabel(l string) bool {
	for i := range len(l) {
		c := l[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && (c != '-' || i == 0 || i == len(l)-1) {
			return false
		}
	}
	return l != "" && len(l) <= 63
}

// IsOf reports whether pages of a host may use the keys of a relying party: the host is it, or is below it (WebAuthn level 3, 5.1.4.1).
func IsOf(host, party string) bool {
	return host == party || strings.HasSuffix(host, "."+party)
}
