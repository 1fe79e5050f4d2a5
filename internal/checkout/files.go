package checkout

import (
	"io/fs"
	"os"
	"slices"
)

// Files returns the files of a scope as people count them: all but what git
// keeps in the .git at its top. It follows no symbolic link out of the scope.
func Files(root *os.Root) fs.FS {
	tree, ok := root.FS().(fs.ReadLinkFS)
	if !ok {
		return root.FS() // what git keeps is counted, too
	}
	return withoutGit{tree}
}

type withoutGit struct{ fs.ReadLinkFS }

// Open opens a file, and of the top a directory that does not list .git.
func (w withoutGit) Open(name string) (fs.File, error) {
	f, err := w.ReadLinkFS.Open(name)
	if dir, ok := f.(fs.ReadDirFile); ok && err == nil && name == "." {
		return topDirectory{dir}, nil
	}
	return f, err
}

type topDirectory struct{ fs.ReadDirFile }

// ReadDir may return fewer entries than there are yet, also none.
func (d topDirectory) ReadDir(n int) ([]fs.DirEntry, error) {
	entries, err := d.ReadDirFile.ReadDir(n)
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return e.Name() == ".git" }), err
}
