package stats

import (
	"fmt"
	"testing"

	"gpipebench/internal/testkit"
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
			testkit.Equal(t, levels[i]*levels[j], len(seen), "factors %d and %d: %d pairs", i, j, len(seen))
		}
	}
	if len(rows) > 2*4*4 {
		t.Errorf("%d rows", len(rows))
	}
	testkit.Equal(t, fmt.Sprint(rows), fmt.Sprint(CoverPairs(levels)), "two calls differ")
}

func TestCoverEach(t *testing.T) {
	levels := []int{12, 5, 4, 3, 2, 2, 2, 7}
	rows := CoverEach(levels)
	for i, n := range levels {
		seen := map[int]bool{}
		for _, row := range rows {
			seen[row[i]] = true
		}
		testkit.Equal(t, n, len(seen), "factor %d: %d levels", i, len(seen))
	}
	if len(rows) > 12+2 {
		t.Errorf("%d rows", len(rows))
	}
}
