// Package steer has the rules by which a hook refuses a shell's command and names the line of gated to type instead.
// It is steering, not a wall: a command that hides what it runs is not refused.
package steer
