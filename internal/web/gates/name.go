package gates

import (
	"strconv"
	"strings"

	"gated/client"
)

// maxName is the longest part of a name that is made of a host, in bytes.
const maxName = 63

// names gives each gate a name of a-z, 0-9, dot and dash: the host's. A name that is taken gets a number.
func names(gates []client.KnownGate) []string {
	out, taken := make([]string, len(gates)), map[string]bool{}
	for i, k := range gates {
		base := word(k)
		name := base
		for n := 2; taken[name]; n++ {
			name = base + "-" + strconv.Itoa(n)
		}
		taken[name] = true
		out[i] = name
	}
	return out
}

// word makes a name of the host that a gate guards, or of its address if that is not known.
func word(k client.KnownGate) string {
	text := k.Host
	if text == "" && k.Address.Remote() {
		if r, err := client.ParseRemote(string(k.Address)); err == nil {
			text = r.Host
		}
	}
	text = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.', r == '-':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, text)
	text = strings.Trim(text, ".-") // a URL's path has no meaning for . and .. but for those alone
	if len(text) > maxName {
		text = strings.TrimRight(text[:maxName], ".-")
	}
	if text == "" {
		return "gate"
	}
	return text
}
