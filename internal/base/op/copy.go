package op

import "time"

// Copy is the snapshot or the backup that a look's step restores or deletes.
type Copy struct {
	Kind string    // "snapshot" or "backup", which is also the parameter that names it
	Name string    // as steps use it
	Made time.Time // by the back end's clock; zero if the back end does not say
}

// Facts returns what people should see before a copy replaces a target's data or is
// deleted. The driver calls it and says in holds how much the copy has. If the step
// restores, over says what is overwritten. If the back end cannot tell, the texts
// say so; only over may be empty, for a step that deletes.
func (c Copy) Facts(holds, over string) []Fact {
	made := "taken when, the back end does not say"
	if !c.Made.IsZero() {
		made = "taken " + c.Made.UTC().Truncate(time.Second).Format(time.RFC3339)
	}
	out := []Fact{{Name: c.Kind, Text: Shown(c.Name) + ", " + made}, {Name: c.Kind + " holds", Text: holds}}
	if over != "" {
		out = append(out, Fact{Name: FactOverwritten, Text: over})
	}
	return out
}

// FactOverwritten is the name of the fact that says what a restore overwrites.
const FactOverwritten = "overwritten"
