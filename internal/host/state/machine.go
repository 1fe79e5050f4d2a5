package state

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// machinePurpose makes the digest specific to this use, so that comparing it with other programs' digests does not
// identify the machine.
const machinePurpose = "gated state directory v1"

// machineDigest returns an application-specific digest of the machine's id, as machine-id(5) asks: the id itself is
// confidential and is not stored. It is empty on a machine without an id.
func machineDigest(files []string) (string, error) {
	for _, name := range files {
		b, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("read the machine id: %w", err)
		}
		// An image holds "uninitialized" before its first boot.
		id := strings.TrimSpace(string(b))
		if len(id) != 32 || strings.Trim(id, "0123456789abcdef") != "" {
			continue
		}
		mac := hmac.New(sha256.New, []byte(machinePurpose))
		mac.Write([]byte(id))
		return hex.EncodeToString(mac.Sum(nil)), nil
	}
	return "", nil
}
