package fsck

// Codes returns every code, and its rule.
func Codes() map[Code]Rule { return ruleOf }
