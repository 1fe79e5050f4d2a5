package checkout

import (
	"io/fs"
	"os"
	"slices"
)

// Files returns the files of a scope that people count: all but the content of the .git at its top. It follows no
// symbolic link out of the scope.
func Files(root *os.Root) fs.FS {
	tree, ok := root.FS().(fs.ReadLinkFS)
	if !ok {
		return root.FS() // then git's files are counted too
	}
	return withoutGit{tree}
}

type withoutGit struct{ fs.ReadLinkFS }

// Open opens a file. The top directory does not list .git.
func (w withoutGit) Open(name string) (fs.File, error) {
	f, err := w.ReadLinkFS.Open(name)
	if dir, ok := f.(fs.ReadDirFile); ok && err == nil && name == "." {
		return topDirectory{dir}, nil
	}
	return f, err
}

type topDirectory struct{ fs.ReadDirFile }

// ReadDir may return fewer entries than remain, even none.
func (d topDirectory) ReadDir(n int) ([]fs.DirEntry, error) {
	entries, err := d.ReadDirFile.ReadDir(n)
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return e.Name() == ".git" }), err
}
