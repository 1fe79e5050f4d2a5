package ownfile

import (
	"errors"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"syscall"

	"gated/internal/base/refusal"
)

// maxToken bounds a token, in bytes.
const maxToken = 1024

// tokenText matches a bearer token (RFC 6750, section 2.1).
var tokenText = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9._~+/-]{16,}=*$`)
})

// ReadToken returns the token in a file of one line: at least 16 characters of RFC 6750. It refuses a file that
// others may read or change, a link, or anything but a regular file, as NotAllowed. A file without a token is
// Malformed, a missing file Unavailable. No error shows its content.
func ReadToken(path string) (string, error) {
	if err := Own().CheckAbove(path); errors.Is(err, refusal.NotAllowed) {
		return "", err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) {
		return "", refusal.New(refusal.NotAllowed, "%s is a symbolic link", path).WithHint("name the file itself")
	}
	if err != nil {
		return "", refusal.New(refusal.Unavailable, "the token: %v", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", refusal.New(refusal.Unavailable, "the token: %v", err)
	}
	if !info.Mode().IsRegular() {
		return "", refusal.New(refusal.NotAllowed, "%s is no regular file", path)
	}
	if err := Own().CheckOpen(f); err != nil {
		return "", err
	}
	switch {
	case info.Mode().Perm()&0o077 != 0:
		return "", refusal.New(refusal.NotAllowed, "%s may be read by others", path).WithHint("chmod 600 %s", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxToken+2))
	if err != nil {
		return "", refusal.New(refusal.Unavailable, "the token: %v", err)
	}
	token := strings.TrimSuffix(string(b), "\n")
	if len(token) > maxToken || !tokenText().MatchString(token) {
		return "", refusal.New(refusal.Malformed, "%s holds no token: one line of 16 to %d letters, digits and -._~+/",
			path, maxToken).
			WithHint("head -c 32 /dev/urandom | base64 > %s", path)
	}
	return token, nil
}
