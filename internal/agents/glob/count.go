package glob

import (
	"errors"
	"io"
	"io/fs"
	"slices"
)

// MaxVisited is how many directory entries Count looks at.
const MaxVisited = 20_000

// readBatch is how many entries are read at once, so that one huge directory is
// not read to its end.
const readBatch = 256

// Count counts the files of a scope that the pattern matches: every entry except directories. It reads only directories
// that the pattern could match something in, and follows no symlink; root should be that of an os.Root, which ensures
// this even if another process changes the tree.
//
// It stops at limit files or MaxVisited entries; more then says that there may be more than n. It says so too if a
// directory below cannot be read. An error is one of the scope's own directory.
func Count(root fs.FS, p Pattern, limit int) (n int, more bool, err error) {
	if p.nodes == nil {
		return 0, false, nil
	}
	c := &counter{root: root, p: p, limit: limit}
	if p.fold || p.literal == "" {
		// A file system that ignores case may spell the literal part in any case.
		c.pending = []directory{{name: ".", nodes: p.begin()}}
	} else if err := c.descend(p.literal); err != nil {
		return 0, false, err
	}
	for len(c.pending) > 0 && !c.stopped {
		d := c.pending[len(c.pending)-1]
		c.pending = c.pending[:len(c.pending)-1]
		if err := c.read(d); err != nil {
			if d.name == "." {
				return 0, false, err
			}
			c.unread = true
		}
	}
	return c.n, c.stopped || c.unread, nil
}

// directory is a directory to read, with the nodes after its name and "/".
type directory struct {
	name  string // as root has it
	nodes []int32
}

type counter struct {
	root    fs.FS
	p       Pattern
	limit   int
	pending []directory
	visited int
	n       int
	stopped bool // at a limit
	unread  bool // a directory was left out
}

// descend goes to the path that everything matched is, or is below. It follows no symlink.
func (c *counter) descend(path string) error {
	if _, err := fs.Stat(c.root, "."); err != nil {
		return err
	}
	for i := 0; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' {
			continue
		}
		info, err := fs.Lstat(c.root, path[:i])
		switch {
		case err != nil:
			c.unread = !errors.Is(err, fs.ErrNotExist)
			return nil
		case i == len(path):
			c.entry(path, info.IsDir(), c.p.begin(), path)
		case !info.IsDir():
			return nil
		}
	}
	return nil
}

// read reads one directory.
func (c *counter) read(d directory) error {
	f, err := c.root.Open(d.name)
	if errors.Is(err, fs.ErrNotExist) && d.name != "." {
		return nil // it was removed meanwhile
	}
	if err != nil {
		return err
	}
	defer f.Close()
	dir, ok := f.(fs.ReadDirFile)
	if !ok {
		return &fs.PathError{Op: "readdir", Path: d.name, Err: fs.ErrInvalid}
	}
	for !c.stopped {
		entries, err := dir.ReadDir(readBatch)
		for _, e := range entries {
			if c.visited++; c.visited > MaxVisited {
				c.stopped = true
				return nil
			}
			name := e.Name()
			if d.name != "." {
				name = d.name + "/" + name
			}
			c.entry(name, e.IsDir(), d.nodes, e.Name())
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// entry counts a file, or notes a directory for later. before are the nodes before text; they have not read it yet.
func (c *counter) entry(name string, isDir bool, before []int32, text string) {
	nodes := c.p.advance(before, text+"/", unbounded())
	switch {
	case isDir:
		nodes = slices.DeleteFunc(nodes, func(i int32) bool { return len(c.p.nodes[i].edges) == 0 })
		if len(nodes) > 0 {
			c.pending = append(c.pending, directory{name, nodes})
		}
	case !c.p.mayEnd(nodes):
	case c.n == c.limit:
		c.stopped = true
	default:
		c.n++
	}
}
