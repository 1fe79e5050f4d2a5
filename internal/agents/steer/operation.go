package steer

// Operation is an operation on a driver's targets for which a shell has commands, too.
type Operation struct {
	Rule
	Op string
	// Name is the name of the hole that binds the target's name; empty if the command does not say that name.
	Name string
}

// Steerer is a driver that knows such commands. A hook names the operation in their place; it is no wall.
type Steerer interface {
	Steering() []Operation
}

// InPlaceOf returns an operation for patterns of this program's own. It panics if one is no pattern.
func InPlaceOf(operation, name string, patterns ...string) Operation {
	out := Operation{Op: operation, Name: name}
	for _, text := range patterns {
		p, err := ParsePattern(text)
		if err != nil {
			panic(text + ": " + err.Error())
		}
		out.Patterns = append(out.Patterns, p)
	}
	return out
}
