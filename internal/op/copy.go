package op

import "time"

// Copy is the snapshot or the backup that the step of a look restores or deletes.
type Copy struct {
	Kind string    // "snapshot" or "backup", which is also the parameter that names it
	Name string    // as steps use it
	Made time.Time // by the back end's clock; zero where it does not say
}

// Facts are what people should see of a copy before it is put over a target or
// deleted. Its holder is a driver, which says in holds how much is in the copy, and
// in over, of a step that restores it, what is overwritten. Where a back end does
// not know, the text says so; neither is empty but over of a step that deletes.
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

// FactOverwritten is the name of the fact that says what a restore takes away.
const FactOverwritten = "overwritten"
