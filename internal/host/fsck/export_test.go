package fsck

// Codes returns every code, and its rule.
func Codes() map[Code]Rule { return ruleOf }

// Forget makes this program one that knows no agents and reservations, until the function that it returns is called.
func Forget() (recall func()) {
	known := claims
	claims = nil
	return func() { claims = known }
}
