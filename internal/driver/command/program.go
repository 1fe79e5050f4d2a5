package command

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"gated/internal/base/op"
	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
)

// maxProgram is the size in bytes of the largest executable.
const maxProgram = 128 << 20

// program is an executable that was read, and for a script its interpreter.
type program struct {
	path   string // as the entry names it
	real   string // the place of its file, for people
	digest string // SHA-256 of the content, in hex
	image  *os.File

	reader *program // of a script: the interpreter; otherwise nil
	option string   // the interpreter's option in the #! line; may be empty
}

// close releases the copies. It works for nil.
func (p *program) close() {
	if p == nil {
		return
	}
	if p.image != nil {
		_ = p.image.Close() // it has no buffered data
	}
	p.reader.close()
}

// text is the input of a program's digest.
func (p *program) text() any {
	if p == nil {
		return ""
	}
	return map[string]any{"path": p.path, "sha256": p.digest, "option": p.option, "reader": p.reader.text()}
}

// readFile reads one executable file, into a sealed copy or only to hash it.
type readFile func(path string) (p *program, head []byte, err error)

// executable reads an executable, and for a script also its interpreter. It refuses a file that
// cannot run with Unavailable and the reason. The caller closes the program.
func executable(path string, read readFile) (*program, error) {
	p, head, err := read(path)
	if err != nil {
		return nil, err
	}
	if bytes.HasPrefix(head, []byte("\x7fELF")) {
		return p, nil
	}
	interpreter, option, why := parseInterpreter(head)
	if why == "" && filepath.Base(interpreter) == "env" {
		why = "env runs it, and the driver does not hash the program that env finds"
	}
	if why != "" {
		p.close()
		return nil, refusal.New(refusal.Unavailable, "%s: %s", path, why).
			WithHint("name an ELF program, or a script whose first line is #! and an absolute path")
	}
	p.option = option
	p.reader, head, err = read(interpreter)
	if err == nil && !bytes.HasPrefix(head, []byte("\x7fELF")) {
		err = refusal.New(refusal.Unavailable, "%s: its interpreter %s is no ELF program", path, interpreter)
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// room is how many bytes of copies a look may still make. The look measured the files before it
// began.
type room int64

// copied copies one file into memory, seals the copy, and then hashes it.
func (r *room) copied(path string) (_ *program, head []byte, err error) {
	f, real, err := openProgram(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	image, n, err := sealedCopy(f, int64(*r))
	if err != nil {
		return nil, nil, refusal.New(refusal.Unavailable, "%s cannot be copied: %v", path, err)
	}
	*r -= room(n)
	p := &program{path: path, real: real, image: image}
	if p.digest, head, err = digestOf(image); err != nil {
		p.close()
		return nil, nil, refusal.New(refusal.Unavailable, "the copy of %s cannot be read: %v", path, err)
	}
	return p, head, nil
}

// digestOf returns the SHA-256 of a file's content, in hex, and its beginning.
func digestOf(f *os.File) (digest string, head []byte, err error) {
	hash := sha256.New()
	if _, err = io.Copy(hash, io.NewSectionReader(f, 0, maxProgram)); err != nil {
		return "", nil, err
	}
	head, err = headOf(f)
	return hex.EncodeToString(hash.Sum(nil)), head, err
}

// headOf returns the part of a file that the kernel reads to find its interpreter.
func headOf(f *os.File) ([]byte, error) {
	head := make([]byte, headLength)
	n, err := f.ReadAt(head, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return head[:n], err
}

// openProgram opens an executable file and returns its place. Only root and the daemon's own
// user may be able to change the file.
func openProgram(path string) (*os.File, string, error) {
	f, err := ownfile.Own().Open(path)
	if refused := (*refusal.Refusal)(nil); errors.As(err, &refused) {
		return nil, "", refusal.New(refusal.Unavailable, "others could run something else: %s", refused.Detail).
			WithHint("%s", refused.Hint)
	}
	if err != nil {
		return nil, "", refusal.New(refusal.Unavailable, "%s cannot be opened: %v", path, err).
			WithHint("install the program, or correct gated.yaml")
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.Mode()&0o111 == 0:
		err = refusal.New(refusal.Unavailable, "%s is not executable", path).WithHint("chmod +x, if it is meant to be run")
	case info.Size() > maxProgram:
		err = refusal.New(refusal.Unavailable, "%s has %d bytes, more than %d", path, info.Size(), maxProgram)
	}
	if err != nil {
		_ = f.Close()
		return nil, "", err
	}
	real, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if err != nil {
		real = path
	}
	return f, real, nil
}

// seals keep a copy unchanged. No program can write to it, change its length, or remove a seal.
const seals = unix.F_SEAL_WRITE | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// mfdExec allows to execute the copy (memfd_create(2), Linux 6.3).
const mfdExec = 0x10

// sealedCopy copies a file of at most so many bytes, and returns its length.
func sealedCopy(f io.Reader, most int64) (_ *os.File, n int64, err error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate("gated-command", flags|mfdExec)
	if errors.Is(err, unix.EINVAL) { // an older kernel
		fd, err = unix.MemfdCreate("gated-command", flags)
	}
	if err != nil {
		return nil, 0, err
	}
	image := os.NewFile(uintptr(fd), "a sealed copy")
	defer func() {
		if err != nil {
			_ = image.Close()
		}
	}()
	if n, err = io.Copy(image, io.LimitReader(f, most)); err != nil {
		return nil, 0, err
	}
	if more, _ := f.Read(make([]byte, 1)); more > 0 {
		return nil, 0, errors.New("it grew while it was looked at")
	}
	if _, err = unix.FcntlInt(image.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		return nil, 0, err
	}
	got, err := unix.FcntlInt(image.Fd(), unix.F_GET_SEALS, 0)
	if err == nil && got&seals != seals {
		err = fmt.Errorf("it has the seals %#x", got)
	}
	return image, n, err
}

// headLength is how many bytes of a file the kernel reads to find its interpreter
// (BINPRM_BUF_SIZE).
const headLength = 256

// parseInterpreter reads the first line of a script as the kernel does (execve(2)): a path and
// at most one option, which may contain blanks.
func parseInterpreter(head []byte) (interpreter, option, why string) {
	rest, ok := bytes.CutPrefix(head, []byte("#!"))
	if !ok {
		return "", "", "it is neither an ELF program nor a script that begins with #!"
	}
	line, _, ended := bytes.Cut(rest, []byte("\n"))
	if !ended && len(head) >= headLength {
		return "", "", "its first line is longer than the kernel reads"
	}
	text := strings.Trim(string(line), " \t")
	interpreter, option, _ = strings.Cut(strings.ReplaceAll(text, "\t", " "), " ")
	if i := len(interpreter); i < len(text) {
		option = strings.Trim(text[i:], " \t")
	}
	switch {
	case !filepath.IsAbs(interpreter) || filepath.Clean(interpreter) != interpreter:
		return "", "", "its first line names no interpreter by an absolute path"
	case op.CheckText("", text) != nil && strings.ContainsFunc(text, func(r rune) bool { return r != '\t' && op.CheckText("", string(r)) != nil }):
		return "", "", "its first line has a character that does not show as it is"
	}
	return interpreter, option, ""
}

// below resolves a caller's path, absolute or relative to root, to a path without links. It
// refuses with BadParams the root itself, a path that leads out of the root, and a missing
// path. Only the last name may be missing, because a command may make that file.
func below(root, given string) (string, error) {
	refuse := func(why string) (string, error) {
		return "", refusal.New(refusal.BadParams, "%s %s", op.Shown(given), why).WithHint("a path below %s is meant", root)
	}
	rel := given
	if filepath.IsAbs(given) {
		var ok bool
		if rel, ok = strings.CutPrefix(given, strings.TrimSuffix(root, "/")+"/"); !ok {
			return refuse("is not below " + root)
		}
	}
	for name := range strings.SplitSeq(rel, "/") {
		if name == ".." {
			return refuse("has a .. in it")
		}
	}
	if rel = filepath.Clean(rel); rel == "." || filepath.IsAbs(rel) {
		return refuse("is " + root + " itself")
	}
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", refusal.New(refusal.Unavailable, "%s cannot be opened: %v", root, err)
	}
	defer unix.Close(dir)
	found, err := resolve(dir, rel)
	if errors.Is(err, fs.ErrNotExist) && !dangling(dir, rel) {
		parent := filepath.Dir(rel)
		if found, err = resolve(dir, parent); err == nil {
			found = filepath.Join(found, filepath.Base(rel))
		}
	}
	switch {
	case errors.Is(err, unix.EXDEV), errors.Is(err, unix.ELOOP):
		return refuse("leads out of " + root)
	case err != nil:
		return refuse(fmt.Sprintf("cannot be followed: %v", err))
	}
	itself, err := resolve(dir, ".")
	if err != nil {
		return "", refusal.New(refusal.Unavailable, "%s cannot be looked at: %v", root, err)
	}
	if !strings.HasPrefix(found, strings.TrimSuffix(itself, "/")+"/") {
		return refuse("leads to " + root + " itself, or out of it")
	}
	if op.CheckText("", found) != nil {
		return refuse("leads to a name that does not show as it is")
	}
	return found, nil
}

// resolve returns the path of a name below an open directory. It only follows links that stay
// below that directory.
func resolve(dir int, rel string) (string, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(dir, rel, &how)
	for errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) { // a file was renamed meanwhile
		fd, err = unix.Openat2(dir, rel, &how)
	}
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	return os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
}

// dangling reports if the last name is a link to a missing file.
func dangling(dir int, rel string) bool {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(dir, rel, &how)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err == nil
}
