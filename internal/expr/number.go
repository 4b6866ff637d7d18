package expr

import (
	"fmt"
	"go/token"
	"math"
	"strconv"
)

// Number is a figure and the interval that it lies in, Lo <= X <= Hi. An exact number is
// an interval without a width.
type Number struct{ X, Lo, Hi float64 }

// Exact returns x as a number without doubt.
func Exact(x float64) Number { return Number{x, x, x} }

// Between returns x with an interval, which is widened if x is outside.
func Between(x, lo, hi float64) Number { return Number{x, min(x, lo), max(x, hi)} }

// IsExact reports whether the interval has no width.
func (n Number) IsExact() bool { return n.Lo == n.X && n.X == n.Hi }

func (n Number) String() string {
	short := func(x float64) string { return strconv.FormatFloat(x, 'g', 4, 64) }
	if n.IsExact() {
		return short(n.X)
	}
	return fmt.Sprintf("%s [%s, %s]", short(n.X), short(n.Lo), short(n.Hi))
}

// Series are numbers one by one, such as a figure of each round, without intervals. Arithmetic with
// another series, or with a number, is one by one; what has no partner has no outcome.
type Series []float64

// pairs is how many outcomes an operation has of which a side is a series.
func pairs(a, b any) (n int, is bool) {
	n = math.MaxInt
	for _, side := range []any{a, b} {
		switch x := side.(type) {
		case Series:
			n, is = min(n, len(x)), true
		case Number:
		default:
			return 0, false
		}
	}
	return n, is
}

func oneByOne(op token.Token, a, b any, n int) (any, error) {
	at := func(side any, i int) any {
		if of, is := side.(Series); is {
			return Exact(of[i])
		}
		return side
	}
	out := make(Series, n)
	for i := range out {
		v, err := operate(op, at(a, i), at(b, i))
		of, is := v.(Number)
		if err != nil || !is {
			return nil, fmt.Errorf("%v %s %v has no meaning", a, op, b)
		}
		out[i] = of.X
	}
	return out, nil
}

// Truth is a truth value of Kleene's logic: "and" is the minimum, "or" the maximum, and
// "not" changes the sign.
type Truth int8

const (
	No        Truth = -1
	Undecided Truth = 0 // true for some numbers in the intervals and false for others
	Yes       Truth = 1
)

func (t Truth) String() string {
	return map[Truth]string{No: "false", Undecided: "not decided", Yes: "true"}[t]
}

// Of returns Yes or No.
func Of(b bool) Truth {
	if b {
		return Yes
	}
	return No
}

// less reports whether a < b, whatever numbers of the intervals they are. NaN is not
// less than anything.
func less(a, b Number) Truth {
	switch {
	case a.Hi < b.Lo:
		return Yes
	case a.Lo < b.Hi:
		return Undecided
	}
	return No
}

// atMost reports whether a <= b.
func atMost(a, b Number) Truth {
	if math.IsNaN(a.X) || math.IsNaN(b.X) {
		return No
	}
	return -less(b, a)
}

// equal reports whether a == b.
func equal(a, b Number) Truth {
	if a.IsExact() && b.IsExact() {
		return Of(a.X == b.X)
	}
	return min(Undecided, atMost(a, b), atMost(b, a))
}

func plus(a, b Number) Number  { return Number{a.X + b.X, a.Lo + b.Lo, a.Hi + b.Hi} }
func minus(a, b Number) Number { return plus(a, Number{-b.X, -b.Hi, -b.Lo}) }

func times(a, b Number) Number { return hull(a.X*b.X, a.Lo*b.Lo, a.Lo*b.Hi, a.Hi*b.Lo, a.Hi*b.Hi) }

// over divides; an interval with 0 inside leaves nothing known.
func over(a, b Number) Number {
	if b.Lo <= 0 && b.Hi >= 0 && !b.IsExact() {
		return Number{a.X / b.X, math.Inf(-1), math.Inf(1)}
	}
	return hull(a.X/b.X, a.Lo/b.Lo, a.Lo/b.Hi, a.Hi/b.Lo, a.Hi/b.Hi)
}

// hull returns x in the smallest interval with all ends.
func hull(x float64, ends ...float64) Number {
	n := Exact(x)
	for _, end := range ends {
		n = Between(x, min(n.Lo, end), max(n.Hi, end))
	}
	return n
}

// absolute returns the distance from 0.
func absolute(n Number) Number {
	lo, hi := math.Abs(n.Lo), math.Abs(n.Hi)
	if n.Lo <= 0 && n.Hi >= 0 {
		return Number{math.Abs(n.X), 0, max(lo, hi)}
	}
	return Number{math.Abs(n.X), min(lo, hi), max(lo, hi)}
}

// each applies f to the figures, to the lower ends and to the upper ends.
func each(ns []Number, f func(a, b float64) float64) Number {
	n := ns[0]
	for _, m := range ns[1:] {
		n = Number{f(n.X, m.X), f(n.Lo, m.Lo), f(n.Hi, m.Hi)}
	}
	return n
}
