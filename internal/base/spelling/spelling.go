// Package spelling finds the word that was meant by one with a typing mistake.
package spelling

// Nearest returns the first of the words that is spelt most like a word, if one is near: one mistake, two in a word of 7 bytes,
// three in one of 11.
func Nearest(word string, words []string) (string, bool) {
	best, least := "", mistakes(len(word))+1
	for _, w := range words {
		if n, ok := distance(word, w, least-1); ok {
			best, least = w, n
		}
	}
	return best, best != ""
}

// mistakes is how many typing mistakes a word of n bytes may have: one, two from 7 bytes on, and three from 11 on.
func mistakes(n int) int { return max(1, min((n+1)/4, 3)) }

// distance is the least number of bytes to add, drop, change or swap with their neighbour that makes b of a. No byte is
// changed twice (optimal string alignment). ok is false if the number is above most.
func distance(a, b string, most int) (n int, ok bool) {
	if len(a)-len(b) > most || len(b)-len(a) > most {
		return 0, false
	}
	var before, last, row []int
	row = make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)], row[len(b)] <= most
}
