package daemon

// MayAdopt is who may take over an edit of the signers in a directory.
func MayAdopt(dir string, by int) error {
	_, err := mayAdopt(dir, by)
	return err
}

// WayBack says how to go back after a change.
var WayBack = backTo
