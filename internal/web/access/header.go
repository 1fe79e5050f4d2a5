package access

import "net/http"

// Policy is the Content-Security-Policy of every answer.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// permissions lets these pages use passkeys, and nothing else of a browser.
const permissions = "publickey-credentials-get=(self), publickey-credentials-create=(self), camera=(), microphone=(), " +
	"geolocation=(), payment=(), usb=(), serial=(), hid=(), midi=(), display-capture=(), idle-detection=()"

// headers sets what every answer has.
func (w *Wall) headers(h http.Header) {
	h.Set("Content-Security-Policy", Policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", permissions)
	if w.secure {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
	noStore(h)
}

// noStore keeps a page out of caches. A handler of files sets another Cache-Control after it.
func noStore(h http.Header) { h.Set("Cache-Control", "no-store") }
