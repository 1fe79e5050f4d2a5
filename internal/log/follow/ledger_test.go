package follow

import _ "gated/internal/ledger/ledgertest" // if the environment asks for a ledger
