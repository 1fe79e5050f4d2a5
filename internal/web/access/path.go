package access

import (
	"net/url"
	"strings"
)

// LocalPath reads the path, with its query, to which a browser goes after it signed in. It is false for whatever a browser
// could take for an address of another site.
func LocalPath(text string) (path string, ok bool) {
	u, err := url.Parse(text)
	if err != nil || u.IsAbs() || u.Host != "" || u.User != nil || u.Opaque != "" || u.Fragment != "" ||
		!strings.HasPrefix(text, "/") || strings.HasPrefix(text, "//") || strings.ContainsAny(text, "\\\t\r\n") {
		return "", false
	}
	return text, true
}
