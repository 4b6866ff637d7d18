package cells_test

import (
	"errors"
	"math"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/lab/cells"
)

// Every border of every row is found from every guess, in few looks.
func TestFindBorder(t *testing.T) {
	for _, n := range []int{1, 2, 5, 40} {
		row := make([]int, n)
		for i := range row {
			row[i] = 10 * (i + 1)
		}
		for fit := range n + 1 {
			for guess := -1; guess <= n; guess++ {
				looks := map[int]int{}
				b := testkit.Must(cells.FindBorder(row, guess, func(x int) (bool, error) { looks[x]++; return x <= 10*fit, nil }))(t)
				want := cells.Border[int]{Fits: 10 * fit, Not: 10 * (fit + 1)}
				if fit == n {
					want.Not = 0
				}
				testkit.Equal(t, b, want, "%d fit of %d, guess %d", fit, n, guess)
				most := 2*int(math.Log2(float64(n))+1) + 2
				if guess >= 0 && guess < n && max(guess-fit, fit-guess) <= 1 {
					most = min(most, 4)
				}
				for x, times := range looks {
					testkit.Equal(t, times, 1, "%d fit of %d, guess %d: looks at %d", fit, n, guess, x)
				}
				if len(looks) > most {
					t.Errorf("%d fit of %d, guess %d: %d looks, want at most %d", fit, n, guess, len(looks), most)
				}
			}
		}
	}
	boom := errors.New("boom")
	_, err := cells.FindBorder([]int{1, 2, 3}, 1, func(int) (bool, error) { return false, boom })
	testkit.Is(t, err, boom)
}
