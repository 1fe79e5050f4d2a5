// Package doctor finds out by trial whether gated protects a directory. It reserves a path that does not exist, under a
// name of its own. Then it checks that each installed hook refuses to change that path, and permits another path. It
// changes neither the directory nor its repository.
package doctor
