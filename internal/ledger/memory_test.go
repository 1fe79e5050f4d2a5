package ledger_test

import (
	"testing"

	"gated/internal/ledger"
	"gated/internal/ledger/ledgertest"
	"gated/internal/ledger/memory"
)

// TestTheEngineInMemory: tests rest on it, so it passes what every engine passes.
func TestTheEngineInMemory(t *testing.T) {
	ledgertest.Engines(t, func(*testing.T) ledgertest.World {
		l := memory.New()
		return ledgertest.World{
			Member: func(*testing.T) ledger.Engine { return l.Member() },
			Doubt: func(_ *testing.T, e ledger.Engine, kept bool) func() {
				fault := memory.InDoubt
				if kept {
					fault = memory.LateKept
				}
				e.(*memory.Member).Order(fault)
				return func() {}
			},
		}
	})
}
