//go:build !ledgerpg

package ledgertest

import "gated/internal/ledger"

// onServer is for tests with the tag ledgerpg.
var onServer func(connection string) func() func() ledger.Engine
