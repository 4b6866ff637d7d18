package timed

import (
	"fmt"
	"slices"
	"strings"

	"gpipebench/internal/stats"
	"gpipebench/lab"
)

// Column is one or more columns of a table that has a row for each T.
type Column[T any] struct {
	Heads []string // none: it is left out
	Text  bool     // it stands at the left
	Cells func(T) any
}

// Fill adds columns to a table, and then a row for each of the given.
func Fill[T any](t *lab.Table, rows []T, columns ...Column[T]) {
	columns = slices.DeleteFunc(columns, func(c Column[T]) bool { return len(c.Heads) == 0 })
	for _, c := range columns {
		if c.Text {
			t.Texts(c.Heads...)
		} else {
			t.Numbers(c.Heads...)
		}
	}
	for _, row := range rows {
		var cells []any
		for _, c := range columns {
			cells = append(cells, c.Cells(row))
		}
		t.Add(cells...)
	}
}

// Text is a column of texts.
func Text[T any](head string, of func(T) any) Column[T] {
	return Column[T]{Heads: []string{head}, Text: true, Cells: of}
}

// Number is a column of numbers, or of as many as there are heads.
func Number[T any](head string, of func(T) any, more ...string) Column[T] {
	return Column[T]{Heads: append([]string{head}, more...), Cells: of}
}

// interval is the head beside a head of medians.
func interval(head string) string { return "95%, " + strings.TrimPrefix(head, "measured ") }

// Medians are a column of medians over rounds, and one of their 95% intervals. A row without
// values has neither.
func Medians[T any](head string, print func(float64) lab.Value, of func(T) []float64) Column[T] {
	return Column[T]{Heads: []string{head, interval(head)}, Cells: func(row T) any {
		if values := of(row); len(values) > 0 {
			return lab.Median(values, print)
		}
		return []lab.Value{lab.Absent, lab.Absent}
	}}
}

// Times are Medians of seconds.
func Times[T any](head string, of func(T) []float64) Column[T] {
	return Medians(head, lab.Seconds, of)
}

// Percents are Medians of shares, in percent with that many digits.
func Percents[T any](head string, digits int, of func(T) []float64) Column[T] {
	return Medians(head, func(s float64) lab.Value { return lab.Percent(s, digits) }, of)
}

// Ratios are a column of medians of ratios within rounds, and one of their 95% intervals. The
// ratio of a run to itself has no interval; a row without values has neither.
func Ratios[T any](head string, of func(T) (over, under []float64)) Column[T] {
	return Column[T]{Heads: []string{head, interval(head)}, Cells: func(row T) any {
		over, under := of(row)
		if len(over) == 0 || len(under) == 0 {
			return []lab.Value{lab.Absent, lab.Absent}
		}
		return lab.Ratio(stats.RatioOf(over, under), slices.Equal(over, under))
	}}
}

// Headed gives the second of a column's heads another name.
func (c Column[T]) Headed(interval string) Column[T] {
	c.Heads[1] = interval
	return c
}

// Whole is a whole number that is printed with all its digits.
func Whole(n int64) lab.Value { return lab.Whole(n, fmt.Sprint(n)) }
