// Package shell takes the text of a shell's command apart: which programs it would run, with which words, as far as the
// text alone says that. It runs nothing and looks at no file.
package shell
