package expr

import (
	"errors"
	"fmt"
	"go/token"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
)

// Operators and functions compute; a meaningless operation is an error, and a
// text that is not an expression is rejected before.
func TestExpressions(t *testing.T) {
	own := Functions{
		"length": func(args []any) (any, error) {
			texts, err := Texts(args, 1)
			return Exact(float64(len(strings.Join(texts, "")))), err
		},
		"fails": func([]any) (any, error) { return nil, errors.New("no") },
	}
	for text, want := range map[string]any{
		`1 + 2*3 - 4/2`: Exact(5), `-(1 - 2)`: Exact(1), `1 < 2 && !(2 <= 1) || false()`: nil, `"a" == "b"`: No, `"a" != "b"`: Yes,
		`1 == 1 && 1 != 2 && 2 > 1 && 2 >= 2`: Yes, `length("ab", 12)`: Exact(4), `rising(1, 2) && !rising(2, 2)`: Yes, `abs(-2) + min(1, 2) + max(1, 2)`: Exact(5),
		`1 + "a"`: nil, `!1`: nil, `-true()`: nil, `rising(1)`: nil, `abs("a")`: nil, `length(1 < 2)`: nil, `fails()`: nil, `span(1, 3)`: Number{2, 1, 3}, `span(3, 1)`: Number{2, 1, 3}, `span()`: nil,
	} {
		if got, err := own.Evaluate(text); got != want || (err == nil) != (want != nil) {
			t.Errorf("%s is %v, %v; want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		`1 +`: "expected operand", `os.Exit(1)`: "want abs, fails, length, max, min, rising, span", `none(1)`: "none is no function", `func() {}()`: "is no function", `a[1]`: `"a[1]": want numbers`, `1 < nine`: "unknown name nine: want fails, length",
	} {
		testkit.Fails(t, own.Check(text), want)
	}
	testkit.Equal(t, own.Check(`length("a") > fails`), nil)
	testkit.Equal(t, own.CheckOpen("1 < nine"), nil)
	testkit.Refused(own.Number("1 < 2"))(t, "is true: want a number")
	testkit.Refused(own.Truth("1"))(t, "is 1: want true or false")
}

// numbers are functions that return numbers with intervals.
var numbers = Functions{
	"x":    func([]any) (any, error) { return Number{2, 1, 3}, nil },
	"y":    func([]any) (any, error) { return Number{5, 4, 6}, nil },
	"z":    func([]any) (any, error) { return Number{-1, -3, 2}, nil },
	"nan":  func([]any) (any, error) { return Exact(math.NaN()), nil },
	"none": func([]any) (any, error) { return Undecided, nil },
}

// Numbers carry their intervals through arithmetic, and a comparison is decided only
// where the intervals decide it.
func TestIntervals(t *testing.T) {
	inf := math.Inf(1)
	for text, want := range map[string]any{
		`x() + y()`: Number{7, 5, 9}, `x() - y()`: Number{-3, -5, -1}, `x() * y()`: Number{10, 4, 18}, `y() / x()`: Number{2.5, 4. / 3, 6}, `-x()`: Number{-2, -3, -1},
		`x() * z()`: Number{-2, -9, 6}, `x() / z()`: Number{-2, -inf, inf}, `1 / 0`: Exact(inf), `abs(z())`: Number{1, 0, 3}, `abs(-y())`: Number{5, 4, 6},
		`min(x(), z(), 1.5)`: Number{-1, -3, 1.5}, `max(x(), z())`: Number{2, 1, 3},
		`x() < y()`: Yes, `y() < x()`: No, `x() < 2.5`: Undecided, `x() < 3`: Undecided, `x() <= 3`: Yes, `x() > 3`: No, `x() >= 3`: Undecided, `3 < x()`: No,
		`x() == 4`: No, `x() != 4`: Yes, `x() == 2`: Undecided, `x() == x()`: Undecided, `rising(0, x(), y())`: Yes, `rising(x(), 2, y())`: Undecided, `rising(y(), x())`: No,
		`none() && 1 < 2`: Undecided, `none() && 2 < 1`: No, `none() || 1 < 2`: Yes, `none() || 2 < 1`: Undecided, `!none()`: Undecided,
		`nan() < 1`: No, `nan() > 1`: No, `nan() <= 1`: No, `nan() >= 1`: No, `nan() == nan()`: No, `rising(1, nan())`: No,
	} {
		testkit.Equal(t, testkit.Must(numbers.Evaluate(text))(t), want, "%s", text)
	}
	for n, want := range map[Number]string{{2, 1, 3}: "2 [1, 3]", Exact(1.5): "1.5", Between(1, 2, 3): "1 [1, 3]"} {
		testkit.Equal(t, n.String(), want)
	}
}

// Series are computed one by one, with a series or a number; they cannot be compared.
func TestSeries(t *testing.T) {
	own := Functions{
		"rounds": func([]any) (any, error) { return Series{1, 2, 4}, nil },
		"two":    func([]any) (any, error) { return Series{3, 3}, nil },
		"none":   func([]any) (any, error) { return Series(nil), nil },
	}
	for text, want := range map[string]string{
		`rounds + 1`: "[2 3 5]", `8 / rounds`: "[8 4 2]", `rounds * two`: "[3 6]", `two - rounds`: "[2 1]", `rounds / none`: "[]", `none + 1`: "[]",
	} {
		testkit.Equal(t, fmt.Sprint(testkit.Must(own.Evaluate(text))(t)), want, "%s", text)
	}
	for _, text := range []string{`rounds < 1`, `rounds + "a"`, `min(rounds)`} {
		testkit.Refused(own.Evaluate(text))(t)
	}
}

// Whatever numbers of the intervals are taken, a result is in its interval, and a
// comparison that is decided is as it says.
func TestIntervalsHoldEveryNumber(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	draw := func() Number {
		x := r.NormFloat64()
		return Number{x, x - r.Float64(), x + r.Float64()}
	}
	of := func(n Number) float64 { return n.Lo + r.Float64()*(n.Hi-n.Lo) }
	for range 2000 {
		a, b := draw(), draw()
		x, y := of(a), of(b)
		for op, is := range map[token.Token]float64{token.ADD: x + y, token.SUB: x - y, token.MUL: x * y, token.QUO: x / y} {
			v, err := operate(op, a, b)
			if n := v.(Number); err != nil || !(n.Lo-1e-12 <= is && is <= n.Hi+1e-12) {
				t.Fatalf("%v %v %v: %v outside of %v", x, op, y, is, v)
			}
		}
		for op, is := range map[token.Token]bool{token.LSS: x < y, token.LEQ: x <= y, token.GTR: x > y, token.GEQ: x >= y, token.EQL: x == y, token.NEQ: x != y} {
			if v, err := operate(op, a, b); err != nil || v != Undecided && v != Of(is) {
				t.Fatalf("%v %v %v: %v", x, op, y, v)
			}
		}
	}
}
