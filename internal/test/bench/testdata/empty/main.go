// Empty does nothing: what a process costs that is a Go program.
package main

func main() {}
