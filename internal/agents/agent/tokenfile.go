package agent

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"gated/internal/base/refusal"
)

// WriteTokenFile stores a token in a new file that only its owner may read. An existing file or link is an error
// (fs.ErrExist).
func WriteTokenFile(path, token string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // O_EXCL follows no link
	if err != nil {
		return err
	}
	_, err = f.WriteString(token + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

const madeAnew = "gated agent register NAME --token-file FILE makes one"

// ReadTokenFile returns the token in a file. It refuses as NotAllowed a file that others may read or write, another
// user's file, a link, or anything but a regular file. A file without a token is Malformed. No error shows its content.
func ReadTokenFile(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ELOOP) {
		return "", refusal.New(refusal.NotAllowed, "%s is a symbolic link", path).WithHint("name the file itself")
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return "", refusal.New(refusal.NotAllowed, "%s is no regular file", path).WithHint(madeAnew)
	case st.Uid != uint32(os.Geteuid()):
		return "", refusal.New(refusal.NotAllowed, "%s is uid %d's", path, st.Uid).WithHint(madeAnew)
	case st.Mode&0o077 != 0:
		return "", refusal.New(refusal.NotAllowed, "%s may be read by others", path).WithHint("chmod 600 %s", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, TokenLen+2))
	if err != nil {
		return "", err
	}
	token := strings.TrimSuffix(string(b), "\n")
	if len(token) != TokenLen {
		return "", refusal.New(refusal.Malformed, "%s holds no token", path).WithHint(madeAnew)
	}
	return token, nil
}
