package stats

import (
	"fmt"
	"testing"
)

func TestCoverPairs(t *testing.T) {
	levels := []int{4, 3, 3, 3, 2, 2, 2, 4, 2}
	rows := CoverPairs(levels)
	for i := range levels {
		for j := i + 1; j < len(levels); j++ {
			seen := map[[2]int]bool{}
			for _, row := range rows {
				seen[[2]int{row[i], row[j]}] = true
			}
			if len(seen) != levels[i]*levels[j] {
				t.Errorf("factors %d and %d: %d pairs of %d", i, j, len(seen), levels[i]*levels[j])
			}
		}
	}
	if len(rows) > 2*4*4 {
		t.Errorf("%d rows", len(rows))
	}
	if a, b := fmt.Sprint(rows), fmt.Sprint(CoverPairs(levels)); a != b {
		t.Errorf("two calls differ: %s and %s", a, b)
	}
}

func TestCoverEach(t *testing.T) {
	levels := []int{12, 5, 4, 3, 2, 2, 2, 7}
	rows := CoverEach(levels)
	for i, n := range levels {
		seen := map[int]bool{}
		for _, row := range rows {
			seen[row[i]] = true
		}
		if len(seen) != n {
			t.Errorf("factor %d: %d levels of %d", i, len(seen), n)
		}
	}
	if len(rows) > 12+2 {
		t.Errorf("%d rows", len(rows))
	}
}
