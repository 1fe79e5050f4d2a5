package driver

import "gated/internal/agents/steer"

// Steering is a shell's commands for which there is an operation on a driver's targets.
type Steering struct {
	steer.Rule
	Op string
	// Name is the name of the hole that binds the target's name; empty if the command does not say that name.
	Name string
}

// Steerer is a driver that knows such commands. A hook names the operation in their place; it is no wall.
type Steerer interface {
	Steering() []Steering
}

// Steers returns a rule over patterns of this program's own. It panics if one is no pattern.
func Steers(operation, name string, patterns ...string) Steering {
	out := Steering{Op: operation, Name: name}
	for _, text := range patterns {
		p, err := steer.ParsePattern(text)
		if err != nil {
			panic(text + ": " + err.Error())
		}
		out.Patterns = append(out.Patterns, p)
	}
	return out
}
