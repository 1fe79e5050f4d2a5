package tiny

import "testing"

func TestClass(t *testing.T) {
	for _, c := range []struct {
		n     int
		known bool
		want  string
	}{{0, true, "small"}, {5, true, "small"}, {500, true, "large"}, {500, false, "small"}} {
		if got, err := Class(c.n, c.known); err != nil || got != c.want {
			t.Fatalf("Class(%d, %t) = %s, %v", c.n, c.known, got, err)
		}
	}
	if _, err := Class(-1, true); err == nil {
		t.Fatal("a negative number has a class")
	}
}

func TestTotal(t *testing.T) {
	if got := Total([]int{1, 2, 3}, func(string) {}); got != 6 {
		t.Fatal(got)
	}
}
