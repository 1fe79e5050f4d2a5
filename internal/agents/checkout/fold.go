package checkout

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// caseFold is FS_CASEFOLD_FL of linux/fs.h: a directory of ext4, f2fs or tmpfs in which names are equal if only case
// differs. New directories below inherit it.
const caseFold = 0x40000000

// exfatMagic is EXFAT_SUPER_MAGIC of linux/magic.h.
const exfatMagic = 0x2011bab0

// folds reports whether names in a directory are equal if only case differs. If a file system does not say, they
// differ, unless the top level's .git answers to another spelling, as on shares of other systems.
func folds(dir string) bool {
	var fs unix.Statfs_t
	if unix.Statfs(dir, &fs) == nil && (fs.Type == unix.MSDOS_SUPER_MAGIC || fs.Type == exfatMagic) {
		return true
	}
	return flagged(dir) || respelled(dir)
}

func flagged(dir string) bool {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false // may not be read
	}
	defer func() { _ = unix.Close(fd) }()
	flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS)
	return err == nil && flags&caseFold != 0
}

func respelled(dir string) bool {
	written, err := os.Lstat(filepath.Join(dir, ".git"))
	if err != nil {
		return false
	}
	other, err := os.Lstat(filepath.Join(dir, ".GIT"))
	return err == nil && os.SameFile(written, other)
}
