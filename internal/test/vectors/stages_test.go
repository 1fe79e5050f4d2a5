package vectors

import (
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
)

// TestEveryStageIsShown: each code that each stage of verification can refuse with is in a case.
func TestEveryStageIsShown(t *testing.T) {
	seen := map[refusal.Stage]map[refusal.Code]bool{}
	for _, n := range Names(t) {
		for _, raw := range Read(t, n).Cases {
			var c Outcome
			require.NoError(t, json.Unmarshal(raw, &c))
			if r := c.Refused; r != nil {
				if seen[r.Stage] == nil {
					seen[r.Stage] = map[refusal.Code]bool{}
				}
				seen[r.Stage][r.Code] = true
			}
		}
	}
	for stage, codes := range map[refusal.Stage][]refusal.Code{
		refusal.StageDecode:    {refusal.Malformed, refusal.Oversized, refusal.WeakKey},
		refusal.StageNamespace: {refusal.NamespaceMismatch},
		refusal.StageAllowList: {refusal.UnknownSigner, refusal.SignerExpired, refusal.SignerRevoked, refusal.Unavailable},
		refusal.StageCrypto:    {refusal.BadSignature, refusal.TouchRequired, refusal.OriginMismatch, refusal.WeakKey, refusal.Malformed},
		refusal.StageInclusion: {refusal.BindingMismatch},
		refusal.StageTarget:    {refusal.TargetMismatch},
		refusal.StageTime:      {refusal.ValidityTooLong, refusal.NotYetValid, refusal.Expired},
		refusal.StageNonce:     {refusal.Replayed, refusal.BindingMismatch},
		refusal.StageRole:      {refusal.RoleDenied},
		refusal.StageBinding:   {refusal.StaleTarget},
		refusal.StagePolicy:    {refusal.ThresholdUnmet},
	} {
		for _, code := range codes {
			require.True(t, seen[stage][code], "no case is refused with %s at %s", code, stage)
		}
	}
}
