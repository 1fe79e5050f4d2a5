// Package armor writes SSH signatures as texts.
package armor

import (
	"encoding/base64"
	"slices"
	"strings"
)

// width is the length of a line as ssh-keygen writes it, in characters.
const width = 70

// Signature returns an SSHSIG blob between its markers, as ssh-keygen -Y sign writes it (PROTOCOL.sshsig, "Armored format").
func Signature(blob []byte) string {
	var b strings.Builder
	b.WriteString("-----BEGIN SSH SIGNATURE-----\n")
	for line := range slices.Chunk([]byte(base64.StdEncoding.EncodeToString(blob)), width) {
		b.Write(line)
		b.WriteByte('\n')
	}
	b.WriteString("-----END SSH SIGNATURE-----\n")
	return b.String()
}
