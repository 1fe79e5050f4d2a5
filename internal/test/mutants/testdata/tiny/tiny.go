// Package tiny has one mutant of each kind. Its tests kill all but those that mutants_test.go names.
package tiny

import "errors"

var errNegative = errors.New("negative")

// Class has mutants that the tests kill, and a limit that no test looks at.
func Class(n int, known bool) (string, error) {
	if n < 0 {
		return "", errNegative
	}
	switch {
	case n > 100 && known:
		return "large", nil
	}
	return "small", nil
}

// Total adds, and calls what no test looks at.
func Total(list []int, note func(string)) int {
	sum := 0
	for _, n := range list {
		sum += n
	}
	note("added")
	return sum
}

// Yes is called by no test.
func Yes(word string) bool {
	switch word {
	case "yes":
		return true
	}
	return false
}
