//go:build !crashpoints

package crashpoint

// Built reports whether this program has crash points.
const Built = false

// Here does nothing, and the compiler leaves it out.
func Here(Point) {}
