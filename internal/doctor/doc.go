// Package doctor says whether gated protects a directory, by trying: it reserves
// a path that does not exist under a name of its own, and looks whether each hook
// that is installed refuses to change it, and lets another path pass. It changes
// neither the directory nor its repository.
package doctor
