package command_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/driver"
	"gated/internal/driver/command"
	"gated/internal/driver/command/catalogue"
)

// TestWhoCanSwapAPath: check warns of a path parameter if a user who may ask can write the root, a
// directory above it, or one below it.
func TestWhoCanSwapAPath(t *testing.T) {
	const asker, other = 4242, 4343
	asRoot := os.Getuid() == 0
	own := func(path string, uid int) func(string) error {
		return func(root string) error { return os.Lchown(filepath.Join(root, path), uid, 0) }
	}
	mode := func(path string, m os.FileMode) func(string) error {
		return func(root string) error { return os.Chmod(filepath.Join(root, path), m) }
	}
	for _, c := range []struct {
		name  string
		make  func(root string) error
		says  string // of the finding; empty: there is none
		chown bool
	}{
		{"root's alone", func(string) error { return nil }, "", false},
		{"the root is an asker's", own("top/srv", asker), "may write ROOT/top/srv, and", true},
		{"what is below is an asker's", own("top/srv/a/work", asker), "uid 4242 may write ROOT/top/srv/a/work, and", true},
		{"what is above is an asker's", own("top", asker), "uid 4242 may write ROOT/top, and", true},
		{"another user's, who may not ask", own("top/srv/a/work", other), "", true},
		{"everybody may write below", mode("top/srv/a", 0o777), "everybody may write ROOT/top/srv/a, and", false},
		{"everybody may add below", mode("top/srv/a", 0o777|os.ModeSticky), "everybody may write ROOT/top/srv/a, and", false},
		{"everybody may write above", mode("top", 0o777), "everybody may write ROOT/top, and", false},
		{"everybody may add above", mode("top", 0o777|os.ModeSticky), "", false},
		{"a group may write below", func(root string) error {
			path := filepath.Join(root, "top/srv/a")
			if err := os.Lchown(path, -1, 4444); err != nil {
				return err
			}
			return os.Chmod(path, 0o775)
		}, "the group 4444 may write ROOT/top/srv/a, and", true},
		{"root's group may", mode("top/srv/a", 0o775), "", true},
		{"a link below to an asker's directory", func(root string) error {
			if err := own("away", asker)(root); err != nil {
				return err
			}
			return os.Symlink(filepath.Join(root, "away"), filepath.Join(root, "top/srv/link"))
		}, "", true},
		{"the root is a link", func(root string) error {
			if err := os.Rename(filepath.Join(root, "top/srv"), filepath.Join(root, "top/real")); err != nil {
				return err
			}
			if err := os.Symlink("real", filepath.Join(root, "top/srv")); err != nil {
				return err
			}
			return own("top/real/a", asker)(root)
		}, "uid 4242 may write ROOT/top/real/a, and", true},
		{"the link to the root is in an asker's directory", func(root string) error {
			return errors.Join(leadOver(root, "mine", 0o755), own("mine", asker)(root))
		}, "uid 4242 may write ROOT/mine, and", true},
		{"everybody may replace the link to the root", func(root string) error {
			return errors.Join(leadOver(root, "mine", 0o755), mode("mine", 0o777)(root))
		}, "everybody may write ROOT/mine, and", false},
		{"the link to the root is an asker's, in a directory for everybody", func(root string) error {
			return errors.Join(leadOver(root, "mine", 0o755), mode("mine", 0o777|os.ModeSticky)(root), own("mine/top", asker)(root))
		}, "uid 4242 may write ROOT/mine/top, and", true},
		{"the link to the root is root's, in a directory for everybody", func(root string) error {
			return errors.Join(leadOver(root, "mine", 0o755), mode("mine", 0o777|os.ModeSticky)(root))
		}, "", true},
		{"an access list lets an asker write", func(root string) error { return list(filepath.Join(root, "top/srv/a"), asker) },
			"who is in its access list may write ROOT/top/srv/a, and", true},
		{"links to the root that lead in a circle", func(root string) error {
			return errors.Join(os.Rename(filepath.Join(root, "top"), filepath.Join(root, "real")), os.Symlink("top", filepath.Join(root, "top")))
		}, "it is not known who may write below ", false},
		{"no root", func(root string) error { return os.RemoveAll(filepath.Join(root, "top")) }, "it is not known who may write below ", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.chown && !asRoot {
				t.Skip("only root gives files away")
			}
			b := newBench(t)
			root := b.path("r")
			for _, dir := range []string{"top/srv/a/work", "away"} {
				require.NoError(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
			}
			err := c.make(root)
			if errors.Is(err, unix.ENOTSUP) {
				t.Skip("no access lists here")
			}
			require.NoError(t, err)
			b.entry("clean", []string{"/bin/rm", "{where}", "{n}"}, func(e *catalogue.Entry) {
				e.Params = map[string]catalogue.Param{"where": {Type: catalogue.Path, Below: filepath.Join(root, "top/srv")},
					"n": {Type: catalogue.Bool}}
			})
			d := command.New(command.Config{Entries: b.entries, Asks: func(uid uint32) bool { return uid == asker }})
			var found []driver.Finding
			for _, f := range d.Check(t.Context()) {
				if strings.Contains(f.What, " -p ") {
					found = append(found, f)
				}
			}
			if c.says == "" {
				require.Empty(t, found)
				return
			}
			require.Len(t, found, 1)
			require.Equal(t, "command/clean -p where", found[0].What)
			require.Equal(t, driver.Note, found[0].State)
			require.Contains(t, found[0].Detail, strings.ReplaceAll(c.says, "ROOT", root))
			require.NotEmpty(t, found[0].Hint)
		})
	}
}

// list gives a directory of root's group an access list that lets one user write.
func list(path string, uid uint32) error {
	b := binary.LittleEndian.AppendUint32(nil, 2) // the version of the form (linux/posix_acl_xattr.h)
	const none = ^uint32(0)
	for _, e := range []struct {
		tag, perm uint16
		id        uint32
	}{{1, 7, none}, {2, 7, uid}, {4, 5, none}, {0x10, 7, none}, {0x20, 5, none}} {
		b = binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(b, e.tag), e.perm)
		b = binary.LittleEndian.AppendUint32(b, e.id)
	}
	return unix.Setxattr(path, "system.posix_acl_access", b, 0)
}

// leadOver moves the directory above the root away, and puts a link in its place that leads there over
// another link, in a directory of its own.
func leadOver(root, over string, mode os.FileMode) error {
	path := func(name string) string { return filepath.Join(root, name) }
	return errors.Join(os.Rename(path("top"), path("real")), os.Mkdir(path(over), mode),
		os.Symlink(path("real"), path(over+"/top")), os.Symlink(over+"/top", path("top")))
}

// TestCommandsThatShareARoot look at it once: a check has some seconds for all of them.
func TestCommandsThatShareARoot(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root gives files away")
	}
	b := newBench(t)
	root := b.path("r")
	require.NoError(t, os.Mkdir(root, 0o755))
	require.NoError(t, os.Lchown(root, 4343, 0))
	for _, name := range []string{"clean", "wash"} {
		b.entry(name, []string{"/bin/rm", "{where}"}, func(e *catalogue.Entry) {
			e.Params = map[string]catalogue.Param{"where": {Type: catalogue.Path, Below: root}}
		})
	}
	for _, may := range []bool{false, true} {
		asked, found := 0, 0
		d := command.New(command.Config{Entries: b.entries, Asks: func(uint32) bool { asked++; return may }})
		for _, f := range d.Check(t.Context()) {
			if strings.Contains(f.What, " -p ") {
				found++
			}
		}
		require.Equal(t, 1, asked)
		require.Equal(t, map[bool]int{false: 0, true: 2}[may], found, "each of them is warned of")
	}
}

// TestALargeRootIsNotTakenForSafe: what was not looked at is said, and a look ends.
func TestALargeRootIsNotTakenForSafe(t *testing.T) {
	b := newBench(t)
	root := b.path("r")
	require.NoError(t, os.Mkdir(root, 0o755))
	for i := range 20_001 {
		require.NoError(t, os.WriteFile(filepath.Join(root, fmt.Sprint(i)), nil, 0o600))
	}
	b.entry("clean", []string{"/bin/rm", "{where}"}, func(e *catalogue.Entry) {
		e.Params = map[string]catalogue.Param{"where": {Type: catalogue.Path, Below: root}}
	})
	said := func() (out []string) {
		for _, f := range command.New(command.Config{Entries: b.entries, Asks: func(uint32) bool { return false }}).Check(t.Context()) {
			if strings.Contains(f.What, " -p ") {
				out = append(out, f.Detail)
			}
		}
		return out
	}
	require.Equal(t, []string{"it is not known who may write below " + root + ": there are more than 20000 names"}, said())
	require.NoError(t, os.Remove(filepath.Join(root, "0")))
	require.Empty(t, said())
}
