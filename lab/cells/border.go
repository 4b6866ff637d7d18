package cells

// Border is where along a row things cease to fit.
type Border[T any] struct {
	Fits T `json:"fits"` // the last that does; zero: not even the first
	Not  T `json:"not"`  // the first that does not; zero: all do
}

// FindBorder finds the border in a row by bisection, which assumes that a larger network, or a larger
// mini-batch, takes more memory. It looks first at guess, the index of a border that may be near;
// below 0: none. An error of fits ends the search.
func FindBorder[T any](row []T, guess int, fits func(T) (bool, error)) (Border[T], error) {
	lo, hi := -1, len(row)
	look := func(i int) error {
		ok, err := fits(row[i])
		if ok {
			lo = i
		} else {
			hi = i
		}
		return err
	}
	for width := 1; guess >= 0 && guess < len(row) && lo+1 < hi; width *= 2 { // gallop from the guess
		if err := look(guess); err != nil {
			return Border[T]{}, err
		}
		if lo >= 0 && hi < len(row) {
			break
		}
		if lo == guess {
			guess += width
		} else {
			guess -= width
		}
	}
	for lo+1 < hi {
		if err := look((lo + hi) / 2); err != nil {
			return Border[T]{}, err
		}
	}
	var b Border[T]
	if lo >= 0 {
		b.Fits = row[lo]
	}
	if hi < len(row) {
		b.Not = row[hi]
	}
	return b, nil
}
