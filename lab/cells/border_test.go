package cells_test

import (
	"errors"
	"math"
	"testing"

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
				b, err := cells.FindBorder(row, guess, func(x int) (bool, error) { looks[x]++; return x <= 10*fit, nil })
				want := cells.Border[int]{Fits: 10 * fit, Not: 10 * (fit + 1)}
				if fit == n {
					want.Not = 0
				}
				if err != nil || b != want {
					t.Errorf("%d fit of %d, guess %d: %+v, %v; want %+v", fit, n, guess, b, err, want)
				}
				most := 2*int(math.Log2(float64(n))+1) + 2
				if guess >= 0 && guess < n && max(guess-fit, fit-guess) <= 1 {
					most = min(most, 4)
				}
				for x, times := range looks {
					if times > 1 {
						t.Errorf("%d fit of %d, guess %d: looked %d times at %d", fit, n, guess, times, x)
					}
				}
				if len(looks) > most {
					t.Errorf("%d fit of %d, guess %d: %d looks, want at most %d", fit, n, guess, len(looks), most)
				}
			}
		}
	}
	boom := errors.New("boom")
	if _, err := cells.FindBorder([]int{1, 2, 3}, 1, func(int) (bool, error) { return false, boom }); !errors.Is(err, boom) {
		t.Errorf("error %v", err)
	}
}
