// Package loss asks whether any sequence of unsigned steps loses data. A
// generator makes sequences of everything that a caller can do without a
// signature, and runs each against a real gate, store, reconciler and driver.
// Writers mark their bytes, and after each action the oracle looks for every
// mark by other hands than the gate's. The package has tests alone.
//
// The oracle has a model of its own: which bytes were written where, who
// touched which guest, and what operators signed. It never asks
// internal/classify what is allowed, because it would then agree with its
// mistakes. docs/design/loss.md says what the model allows and why.
package loss
