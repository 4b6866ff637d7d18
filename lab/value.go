package lab

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"gpipebench/internal/expr"
	"gpipebench/internal/stats"
	"gpipebench/internal/units"
)

// Value is what a cell of a table holds: a text, or numbers and how they are
// printed. Claims and plots read the numbers, which are not rounded.
type Value struct {
	Text     string
	Numbers  []float64 // in seconds, in bytes, in percent after a %; a cell's number is the first
	Interval []float64 // both ends, in the number's unit; none if there is no interval
}

// String is a value as it is printed.
func (v Value) String() string { return v.Text }

// Number is the cell's number, with its interval if it has one; false: it has no number.
func (v Value) Number() (expr.Number, bool) {
	switch {
	case len(v.Numbers) == 0:
		return expr.Number{}, false
	case len(v.Interval) == 2:
		return expr.Between(v.Numbers[0], v.Interval[0], v.Interval[1]), true
	}
	return expr.Exact(v.Numbers[0]), true
}

// MarshalText is a value as tables in JSON have it.
func (v Value) MarshalText() ([]byte, error) { return []byte(v.Text), nil }

// Absent stands where there is no value.
var Absent = Value{Text: "-"}

const star = " *"

// Starred is a value with an asterisk unless what it rests on fits the memory of its devices.
func Starred(v Value, fits bool) Value {
	if !fits {
		v.Text += star
	}
	return v
}

// IsStarred reports whether Starred has added an asterisk.
func (v Value) IsStarred() bool { return strings.HasSuffix(v.Text, star) }

// Number returns x, printed with format; NaN, which follows from what is missing, is Absent.
func Number(format string, x float64) Value {
	if math.IsNaN(x) {
		return Absent
	}
	return Value{Text: fmt.Sprintf(format, x), Numbers: []float64{x}}
}

// Fixed prints a number of digits after the decimal point.
func Fixed(x float64, digits int) Value { return Number("%."+strconv.Itoa(digits)+"f", x) }

// Difference is Fixed with a sign.
func Difference(x float64, digits int) Value { return Number("%+."+strconv.Itoa(digits)+"f", x) }

// Percent prints a share in percent with digits decimals.
func Percent(share float64, digits int) Value {
	return Number("%."+strconv.Itoa(digits)+"f%%", 100*share)
}

// Share is a part of a whole in percent; of nothing it is Absent.
func Share(part, whole float64) Value {
	if whole == 0 {
		return Absent
	}
	return Value{Text: units.FormatShare(part, whole), Numbers: []float64{100 * part / whole}}
}

// Signed is a relative difference in whole percent; one that rounds to 0 is +0%, NaN is Absent.
func Signed(x float64) Value {
	if math.IsNaN(x) {
		return Absent
	}
	return Value{Text: fmt.Sprintf("%+.0f%%", math.Round(100*x)+0), Numbers: []float64{100 * x}}
}

// Seconds is a time in the unit that suits it.
func Seconds(t float64) Value { return Value{Text: units.FormatSeconds(t), Numbers: []float64{t}} }

// Bytes is an amount of memory in binary units.
func Bytes(n int64) Value {
	return Value{Text: units.FormatBytes(n), Numbers: []float64{float64(n)}}
}

// Whole is a number without a fraction, as text prints it.
func Whole(n int64, text string) Value { return Value{Text: text, Numbers: []float64{float64(n)}} }

// Interval is an interval without a value of its own: [lo, hi]; Absent if it lacks an end.
func Interval(lo, hi Value) Value {
	if len(lo.Numbers) == 0 || len(hi.Numbers) == 0 {
		return Absent
	}
	return Value{Text: fmt.Sprintf("[%v, %v]", lo, hi), Interval: []float64{lo.Numbers[0], hi.Numbers[0]}}
}

// Bracketed returns the 95% interval of the values' median, whose ends print makes;
// Absent if there are too few values.
func Bracketed(values []float64, print func(float64) Value) Value {
	lo, hi, ok := stats.Interval(values, 0.95)
	if !ok {
		return Absent
	}
	return Interval(print(lo), print(hi))
}

// Median returns the median of values and, as a second cell, its 95% interval, if
// there is one.
func Median(values []float64, print func(float64) Value) []Value {
	v, interval := print(stats.Median(values)), Bracketed(values, print)
	v.Interval = interval.Interval
	return []Value{v, interval}
}

// Ratio returns a ratio of two runs and, as a second cell, its interval; a ratio that
// is 1 by definition has none.
func Ratio(r stats.Ratio, one bool) []Value {
	v := Fixed(r.Median, 2)
	if !r.Known || one {
		return []Value{v, Absent}
	}
	interval := Interval(Fixed(r.Lo, 2), Fixed(r.Hi, 2))
	v.Interval = interval.Interval
	return []Value{v, interval}
}

// Mean returns the mean of one value or more.
func Mean(xs []float64, digits int) Value { return Fixed(stats.Sampled(xs).Mean, digits) }

// SD returns the standard deviation between seeds; Absent for a single seed.
func SD(xs []float64, digits int) Value {
	if len(xs) < 2 {
		return Absent
	}
	_, sd := stats.MeanAndSD(xs)
	return Fixed(sd, digits)
}

// GeometricMean averages the ratios of paired values, with a 95% interval if there are two or more.
func GeometricMean(over, under []float64, digits int) Value {
	logs := make([]float64, len(over))
	for i := range over {
		logs[i] = math.Log(over[i] / under[i])
	}
	s := stats.Sampled(logs)
	mean := Fixed(math.Exp(s.Mean), digits)
	if lo, hi, ok := s.Interval(0.95); ok {
		return Joined("%v %v", mean, Interval(Fixed(math.Exp(lo), digits), Fixed(math.Exp(hi), digits)))
	}
	return mean
}

// Paired is a mean difference with its 95% interval, if there is one.
func Paired(p stats.Paired, digits int) Value {
	v := Difference(p.Mean, digits)
	if lo, hi, ok := p.Interval(0.95); ok {
		return Joined("%v %v", v, Interval(Difference(lo, digits), Difference(hi, digits)))
	}
	return v
}

// Joined returns one cell of several values. Format has a %v for the text of each. The
// numbers are in the order of the values; the interval belongs to the first value that
// has one. A single value that is Absent stays so.
func Joined(format string, cells ...any) Value {
	var joined Value
	var texts []any
	values := valuesOf(cells)
	if len(values) == 1 && values[0].Text == Absent.Text {
		return Absent
	}
	for _, v := range values {
		texts = append(texts, v.Text)
		joined.Numbers = append(joined.Numbers, v.Numbers...)
		if joined.Interval == nil {
			joined.Interval = v.Interval
		}
	}
	joined.Text = fmt.Sprintf(format, texts...)
	return joined
}

// List returns one cell of any number of values, with a text between them.
func List(between string, cells ...any) Value {
	return Joined(strings.TrimSuffix(strings.Repeat("%v"+between, len(valuesOf(cells))), between), cells...)
}

// Ints is List of whole numbers.
func Ints(between string, ns []int) Value {
	var cells []any
	for _, n := range ns {
		cells = append(cells, n)
	}
	return List(between, cells...)
}

// Figure reads a figure as a paper prints it, such as 81,505, 1.8B, 3.15 GiB or 63.4%;
// a text that does not begin with a number stays a text, and "" is Absent.
func Figure(text string) Value {
	if text == "" {
		return Absent
	}
	v := Value{Text: text}
	if x, _, ok := units.ReadFigure(text); ok {
		v.Numbers = []float64{x}
	}
	return v
}

// valuesOf converts what Table.Add takes to values, one for each cell.
func valuesOf(cells []any) (all []Value) {
	for _, cell := range cells {
		switch c := cell.(type) {
		case Value:
			all = append(all, c)
		case []Value:
			all = append(all, c...)
		case []any:
			all = append(all, valuesOf(c)...)
		case string:
			all = append(all, Value{Text: c})
		case int:
			all = append(all, Whole(int64(c), strconv.Itoa(c)))
		case int64:
			all = append(all, Whole(c, strconv.FormatInt(c, 10)))
		case uint64:
			all = append(all, Value{Text: strconv.FormatUint(c, 10), Numbers: []float64{float64(c)}})
		case []int: // a partition
			all = append(all, Ints(",", c))
		case Verbatim:
			all = append(all, c.Printed(""))
		case fmt.Stringer:
			all = append(all, Value{Text: c.String()})
		default:
			panic(fmt.Sprintf("experiments: a cell of %T: want a value, a text, a whole number or what has a String", c))
		}
	}
	return all
}
