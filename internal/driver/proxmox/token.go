package proxmox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"syscall"

	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
)

// tokenLine is an API token with its secret, as pveum prints the two:
// gated@pve!gate=11111111-2222-3333-4444-555555555555.
var tokenLine = regexp.MustCompile(`^([A-Za-z0-9._-]+@[A-Za-z0-9._-]+![A-Za-z0-9._-]+)=([A-Za-z0-9-]{8,128})$`)

// readToken reads the token file. It refuses, with Conflict, a file that others may read or
// write, a link, and a file of another user than root or the daemon's. If the content is wrong,
// the error is Malformed, and its text does not have the content.
func readToken(path string) (id, secret string, err error) {
	if err := ownfile.Own().CheckAbove(path); errors.Is(err, refusal.NotAllowed) {
		return "", "", err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", "", refusal.New(refusal.Conflict, "proxmox.token_file cannot be read: %v", err).
			WithHint("write user@realm!name=secret there, as pveum user token add prints the two, with mode 0600 and the daemon's user as its owner; " +
				"or take the section proxmox out of gated.yaml")
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return "", "", fmt.Errorf("proxmox.token_file: %w", err)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.Mode().IsRegular() {
		return "", "", refusal.New(refusal.Conflict, "proxmox.token_file %s is no regular file", path)
	}
	if info.Mode().Perm()&0o077 != 0 || owner.Uid != 0 && int(owner.Uid) != os.Geteuid() {
		return "", "", refusal.New(refusal.Conflict, "proxmox.token_file %s has mode %#o and belongs to uid %d", path,
			info.Mode().Perm(), owner.Uid).
			WithHint("chown it to the daemon's user and chmod 0600 it")
	}
	text, err := io.ReadAll(io.LimitReader(f, 1024))
	if err != nil {
		return "", "", fmt.Errorf("proxmox.token_file: %w", err)
	}
	return parseToken(path, string(text))
}

// parseToken reads one line.
func parseToken(path, text string) (id, secret string, err error) {
	m := tokenLine.FindStringSubmatch(strings.TrimSuffix(text, "\n"))
	if m == nil {
		return "", "", refusal.New(refusal.Malformed, "proxmox.token_file %s is not one line user@realm!name=secret", path).
			WithHint("pveum user token add prints full-tokenid and value; put = between them")
	}
	return m[1], m[2], nil
}
