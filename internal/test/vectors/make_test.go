package vectors

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

// maker makes the cases of one file.
type maker struct {
	kind, about string
	cases       func(t *testing.T) []Vector
}

var makers = map[string]maker{
	"payload":         {"payload", "The bytes that people sign: gated docs payload, gated docs batch. Form says which of the three it is read as.", payloads},
	"signature":       {"envelope", "Signed approvals and rejections that come to a gate: gated docs signatures.", signatures},
	"certificate":     {"envelope", "Approvals by keys that an authority certified: gated docs signatures, gated docs allowed-signers.", certificates},
	"webauthn":        {"envelope", "Approvals that a browser signed with a passkey: gated docs signatures.", webauthn},
	"batch":           {"envelope", "Approvals whose signatures are over a batch: gated docs batch.", batches},
	"proof":           {"envelope", "Rotations with proofs of possession: gated docs signatures.", proofs},
	"decision":        {"decision", "What a gate decides about a verified envelope whose payload it did not issue: gated docs payload.", decisions},
	"allowed_signers": {"allowed_signers", "Lists of signers: gated docs allowed-signers.", lists},
	"revoked":         {"revoked", "Revocation files: gated docs allowed-signers.", revocations},
	"merkle":          {"merkle", "Proofs in the tree of a log, of an entry and of consistency: gated docs audit.", merkles},
	"head":            {"head", "Signed heads of a log, with the gate's key as their reader knows it: gated docs audit.", heads},
}

// TestEveryMadeCaseIsInItsFile: what the makers make is in the files, byte for byte. With -write it is added before.
func TestEveryMadeCaseIsInItsFile(t *testing.T) {
	for n, m := range makers {
		made := m.cases(t)
		if *Write {
			Add(t, n, File{Kind: m.kind, About: m.about}, made)
		}
		have := map[string]jsontext.Value{}
		for _, raw := range Read(t, n).Cases {
			require.NoError(t, raw.Canonicalize())
			have[CaseName(t, raw)] = raw
		}
		for _, c := range made {
			raw := marshal(t, c)
			require.NoError(t, raw.Canonicalize())
			require.Equal(t, string(raw), string(have[c.Named()]), "%s: %s is another one, or not there: a case is never changed, and -write adds new ones", n, c.Named())
		}
	}
	for _, n := range Names(t) {
		if n != "evidence" { // a gate's nonces and keys are random: package evidence adds these cases
			require.Contains(t, makers, n, "no maker makes this file")
		}
	}
}
