package shown

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gpipebench/internal/expr"
	"gpipebench/internal/stats"
	"gpipebench/lab"
)

// functions let expressions read values by their names, and have median, mean, sd and largest, of a figure of each
// round or seed.
func (v Values) functions() expr.Functions {
	all := expr.Functions{
		"median": ofSeries(stats.Median), "mean": ofSeries(func(x []float64) float64 { return stats.Sampled(x).Mean }), "largest": ofSeries(slices.Max[[]float64]),
		"sd": ofSeries(func(x []float64) float64 {
			if len(x) < 2 {
				return math.NaN()
			}
			_, sd := stats.MeanAndSD(x)
			return sd
		}),
	}
	for name, x := range v {
		switch of := x.(type) {
		case int:
			x = expr.Exact(float64(of))
		case int64:
			x = expr.Exact(float64(of))
		case float64:
			x = expr.Exact(of)
		case []float64:
			x = expr.Series(of)
		case bool:
			x = expr.Of(of)
		case lab.Verbatim:
			x = expr.Exact(of.Number())
		case lab.Value:
			x = expr.Exact(append(of.Numbers, math.NaN())[0])
		}
		all[name] = func([]any) (any, error) { return x, nil }
	}
	return all
}

// ofSeries is a function of a figure of each round or seed; none of them: not a number.
func ofSeries(f func([]float64) float64) expr.Function {
	return func(args []any) (any, error) {
		if len(args) == 1 {
			switch of, is := args[0].(expr.Series); {
			case is && len(of) == 0:
				return expr.Exact(math.NaN()), nil
			case is:
				return expr.Exact(f(of)), nil
			}
		}
		return nil, errors.New("want a figure of each round or seed")
	}
}

// Number is the value of an expression of values.
func (v Values) Number(expression string) (float64, error) {
	n, err := v.functions().Number(expression)
	return n.X, err
}

// when reports whether an expression is true; "": always.
func (v Values) when(expression string) (bool, error) {
	if expression == "" {
		return true, nil
	}
	truth, err := v.functions().Truth(expression)
	return truth == expr.Yes, err
}

// evaluate is an expression's value; a lab.Value or a lab.Verbatim alone is itself, as it is printed.
func (v Values) evaluate(expression string) (any, error) {
	switch x := v[expression].(type) {
	case lab.Value:
		return x, nil
	case lab.Verbatim:
		return x.Printed(""), nil
	}
	of, err := v.functions().Evaluate(expression)
	if err != nil {
		err = fmt.Errorf("%s: %w", expression, err)
	}
	return of, err
}

// cells are what a column shows of a row, which keeps the number by the column's ID, and whether it is a
// text or a truth value, which stand at the left.
func (v Values) cells(c ColumnSpec) (cells []lab.Value, left bool, err error) {
	of, err := v.evaluate(c.Is)
	if err != nil {
		return nil, false, err
	}
	if c.ID != "" {
		v[c.ID] = of
	}
	print := func(x float64) lab.Value { return printed(x, c.As) }
	switch x := of.(type) {
	case lab.Value:
		cells = []lab.Value{x}
	case string:
		cells, left = []lab.Value{{Text: x}}, true
	case expr.Truth:
		cells, left = []lab.Value{{Text: lab.YesOrNo(x == expr.Yes)}}, true
	case expr.Number:
		cells = []lab.Value{print(x.X)}
	case expr.Series:
		switch {
		case len(x) == 0:
			cells = []lab.Value{lab.Absent, lab.Absent}
		case !slices.ContainsFunc(x, func(x float64) bool { return x != 1 }):
			cells = []lab.Value{print(1), lab.Absent}
		default:
			cells = lab.Median(x, print)
		}
	default:
		return nil, false, fmt.Errorf("%s is %v: want a number, a text or a truth value", c.Is, of)
	}
	if c.Star != "" {
		starred, err := v.when(c.Star)
		if err != nil {
			return nil, false, err
		}
		cells[0] = lab.Starred(cells[0], !starred)
	}
	shown, err := v.when(c.When)
	if !shown {
		cells = []lab.Value{lab.Absent}
		if c.Else != "" {
			cells[0].Text = c.Else
		}
	}
	return cells, left, err
}

// printed is a number as a column shows it.
func printed(x float64, as string) lab.Value {
	switch {
	case math.IsNaN(x):
		return lab.Absent
	case as == "":
		return lab.Value{Text: strconv.FormatFloat(x, 'f', -1, 64), Numbers: []float64{x}}
	case as == "time":
		return lab.Seconds(x)
	case as == "bytes":
		return lab.Bytes(int64(x))
	case as == "signed":
		return lab.Signed(x)
	case strings.HasSuffix(as, "%%"):
		x *= 100
	case strings.HasSuffix(as, "%"):
		as += "%"
	}
	return lab.Number(as, x)
}
