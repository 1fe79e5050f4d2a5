package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"gated/internal/authz"
	"gated/internal/journal"
	"gated/internal/op"
)

// readFile reads the file of signers at path.
func (k *known) readFile(path string) (err error) {
	k.file, err = newSignersFile(path).read()
	if k.fileless = errors.Is(err, fs.ErrNotExist); k.fileless {
		return nil
	}
	return err
}

// contradicted refuses to take a backup's list of signers because no database
// knows a better one, where the file of signers does not bear it out: it does not
// list what the backup lists, which may have been removed since, or it is gone
// although there was a database. Whoever damages the database shall not bring a
// key back by that alone. No database and no file is a new machine.
func (k known) contradicted(backup journal.TrustVersion) error {
	if k.fileless && !k.there {
		return nil
	}
	why := "there is no database here"
	switch {
	case k.err != nil:
		says, _, _ := strings.Cut(k.err.Error(), "\n")
		why = fmt.Sprintf("the database that was here is not believed (%s)", says)
	case k.there:
		why = "the database that was here has no list of signers"
	}
	what, err := k.missingInFile(backup)
	if err != nil || what == "" {
		return err
	}
	return op.Refuse(op.Conflict, "who may sign now is not known: %s, and %s", why, what).
		WithHint("nothing was changed. A key that was removed since the backup would count again. To take the backup's list all the same: " +
			"--signers-of-backup; then compare it with gated trust show, and put keys that must not count into the file revoked before the start")
}

// missingInFile says what the backup lists and the file of signers does not, ""
// if that is nothing.
func (k known) missingInFile(backup journal.TrustVersion) (string, error) {
	if k.fileless {
		return "the file " + signersName + " is missing", nil
	}
	found, err := authz.LoadTrust(k.file)
	if err != nil {
		return fmt.Sprintf("the file %s cannot be read: %s", signersName, op.AsRefusal(err).Detail), nil
	}
	listed, err := loadTrust("the backup's list of signers", backup.Text)
	if err != nil {
		return "", err
	}
	lacks := change{added: compare(found, listed).added}
	if len(lacks.added) == 0 {
		return "", nil
	}
	return fmt.Sprintf("the file %s does not list what the backup lists: %s", signersName, strings.Join(lacks.lines(), "; ")), nil
}
