//go:build !crashpoints

package crashpoint

// Here does nothing, and the compiler leaves it out.
func Here(Point) {}
