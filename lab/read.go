package lab

import (
	"errors"
	"fmt"
	"math"

	"gpipebench/internal/expr"
)

// Reader is of tables, by expressions of package expr. Columns are named by their IDs. It has these functions:
//
//	cell(table, column, key, value, ...)  the number in the row where column key has value, ..., with its
//	                                      interval if it has one: seconds, bytes, percent, or as it is;
//	                                      exact, however it is printed
//	nth(n, table, column, ...)            the n-th number of a cell that has several, from 1, without interval
//	text(table, column, key, value, ...)  what is printed there
//	low(...), high(...)                   the ends of the interval there
//	rows(table)                           how many rows it has
//	count(table, column, text)            how many of them have that text there
//
// What a table lacks is a [NoCell].
type Reader struct {
	Table func(id string) (*Table, error)
	// Seen is called with each cell that is read, and the pairs of a column and its value by which its row was
	// found; nil: nothing is.
	Seen func(t *Table, column int, v Value, keys []string)
}

// Functions are the reader's.
func (r Reader) Functions() expr.Functions {
	return expr.Functions{
		"cell": func(args []any) (any, error) {
			v, err := r.read(args)
			n, is := v.Number()
			if err == nil && !is {
				err = &NoCell{What: fmt.Sprintf("%v: %q has no number", args, v.Text)}
			}
			return n, err
		},
		"nth": func(args []any) (any, error) {
			if len(args) > 0 {
				if n, ok := args[0].(expr.Number); ok && n.X >= 1 && n.X <= 1000 && n.X == math.Trunc(n.X) {
					return r.nth(args[1:], fmt.Sprintf("no %v numbers", n), int(n.X), func(v Value) []float64 { return v.Numbers })
				}
			}
			return nil, errors.New("want a whole number from 1 first")
		},
		"text": func(args []any) (any, error) {
			v, err := r.read(args)
			return v.Text, err
		},
		"low":  func(args []any) (any, error) { return r.nth(args, "no interval", 1, intervalOf) },
		"high": func(args []any) (any, error) { return r.nth(args, "no interval", 2, intervalOf) },
		"rows": func(args []any) (any, error) {
			texts, err := expr.Texts(args, 1)
			if err != nil {
				return nil, err
			}
			t, err := r.Table(texts[0])
			if err != nil {
				return nil, err
			}
			return expr.Exact(float64(len(t.Rows))), nil
		},
		"count": func(args []any) (any, error) {
			t, at, texts, err := r.Column(args, 3)
			if err != nil {
				return nil, err
			}
			n := 0
			for _, row := range t.Rows {
				if row[at].Text == texts[2] {
					n++
				}
			}
			return expr.Exact(float64(n)), nil
		},
	}
}

// Column finds the table and the place in it of the column that the first two of the arguments name. There must be
// at least least arguments; all are returned as texts.
func (r Reader) Column(args []any, least int) (t *Table, at int, texts []string, err error) {
	if texts, err = expr.Texts(args, least); err != nil {
		return nil, 0, nil, err
	}
	if t, err = r.Table(texts[0]); err != nil {
		return nil, 0, nil, err
	}
	at, err = t.Place(texts[1])
	return t, at, texts, err
}

func intervalOf(v Value) []float64 { return v.Interval }

// read finds a cell by its table, its column, and pairs of a column and its text or number in the row.
func (r Reader) read(args []any) (v Value, err error) {
	texts, err := expr.Texts(args, 2)
	if err != nil {
		return v, err
	}
	t, err := r.Table(texts[0])
	if err != nil {
		return v, err
	}
	if v, err = t.Cell(texts[1], args[2:]...); err == nil && r.Seen != nil {
		r.Seen(t, t.Column(texts[1]), v, texts[2:])
	}
	return v, err
}

// nth returns one of the numbers that of takes from a cell, counted from 1. If there are fewer, its error says that
// the cell has what.
func (r Reader) nth(args []any, what string, n int, of func(Value) []float64) (any, error) {
	v, err := r.read(args)
	if err != nil {
		return nil, err
	}
	numbers := of(v)
	if len(numbers) < n {
		return nil, &NoCell{What: fmt.Sprintf("%v: %q has %s", args, v.Text, what)}
	}
	return expr.Exact(numbers[n-1]), nil
}
