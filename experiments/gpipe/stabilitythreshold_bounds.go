package gpipe

import (
	"fmt"
	"math"

	"gpipebench/internal/stats"
	"gpipebench/lab"
)

// thresholdBounds are the least and the most that a value can be. The most of a threshold beyond the
// upper end of the grid is infinite, the least of one below its lower end 0.
type thresholdBounds struct{ least, most float64 }

// over is the quotient of two values above 0, of which either may be unbounded.
func (b thresholdBounds) over(of thresholdBounds) thresholdBounds {
	return thresholdBounds{b.least / of.most, b.most / of.least}
}

// known reports whether it is a single value.
func (b thresholdBounds) known() bool { return b.least == b.most }

// thresholdMedian returns the median of values and, as a second cell, its 95% interval by order
// statistics. Neither decreases where a value increases, so the least and the most of the
// values give the least and the most of both: values that the grid only bounds
// make them wider, and are neither left out nor guessed.
func thresholdMedian(values []thresholdBounds, print func(float64) lab.Value) []lab.Value {
	var least, most []float64
	for _, b := range values {
		least, most = append(least, b.least), append(most, b.most)
	}
	middle := thresholdBounds{stats.Median(least), stats.Median(most)}
	value := middle.value(print)
	lo, _, ok := stats.Interval(least, 0.95)
	_, hi, _ := stats.Interval(most, 0.95)
	if !ok {
		if !middle.known() {
			value.Interval = []float64{middle.least, middle.most}
		}
		return []lab.Value{value, lab.Absent}
	}
	ends := thresholdBounds{lo, hi}
	interval := lab.Value{Text: ends.between(print), Interval: []float64{lo, hi}}
	value.Interval = interval.Interval
	return []lab.Value{value, interval}
}

// value prints what is known of a single value.
func (b thresholdBounds) value(print func(float64) lab.Value) lab.Value {
	least, most := b.least > 0, !math.IsInf(b.most, 1)
	switch {
	case b.known():
		return print(b.least)
	case least && most:
		return lab.Value{Text: fmt.Sprintf("%v to %v", print(b.least), print(b.most)), Numbers: []float64{b.least, b.most}}
	case least:
		return lab.Value{Text: fmt.Sprintf("≥ %v", print(b.least)), Numbers: []float64{b.least}}
	case most:
		return lab.Value{Text: fmt.Sprintf("≤ %v", print(b.most)), Numbers: []float64{b.most}}
	}
	return lab.Absent
}

// between prints an interval, an end of which may be unknown.
func (b thresholdBounds) between(print func(float64) lab.Value) string {
	lo, hi := "0", "∞)"
	if b.least > 0 {
		lo = print(b.least).Text
	}
	if !math.IsInf(b.most, 1) {
		hi = print(b.most).Text + "]"
	}
	return "[" + lo + ", " + hi
}
