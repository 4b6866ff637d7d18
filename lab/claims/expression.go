package claims

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"gpipebench/internal/expr"
	"gpipebench/lab"
)

// A claim's evidence is an expression over the cells of tables, as package expr has
// them. Columns are named by their IDs. It has these functions:
//
//	cell(table, column, key, value, ...)  the number in the row where column key has value, ..., with its
//	                                      interval if it has one: seconds, bytes, percent, or as it is;
//	                                      exact, however it is printed
//	nth(n, table, column, ...)            the n-th number of a cell that has several, from 1, without interval
//	text(table, column, key, value, ...)  what is printed there
//	low(...), high(...)                   the ends of the interval there
//	every(table, column, allowed, ...)    whether all of a column is among these; noisy cells leave it open
//	rows(table)                           how many rows it has
type evaluator struct {
	expr.Functions
	tables   tablesOf
	families map[string]*judged    // by experiment, of those that have a design
	reads    cellsRead             // the cells that were read
	rests    map[string]claimTable // by experiment: a table of it that was read
}

func newEvaluator(tables tablesOf) *evaluator {
	e := &evaluator{tables: tables, rests: map[string]claimTable{}}
	e.Functions = expr.Functions{
		"cell": e.cell,
		"nth": func(args []any) (any, error) {
			if len(args) > 0 {
				if n, ok := args[0].(expr.Number); ok && n.X >= 1 && n.X <= 1000 && n.X == math.Trunc(n.X) {
					return e.nth(args[1:], fmt.Sprintf("no %v numbers", n), int(n.X), numbersOf)
				}
			}
			return nil, errors.New("want a whole number from 1 first")
		},
		"text": func(args []any) (any, error) {
			v, err := e.read(args)
			return v.Text, err
		},
		"low":   func(args []any) (any, error) { return e.nth(args, "no interval", 1, intervalOf) },
		"high":  func(args []any) (any, error) { return e.nth(args, "no interval", 2, intervalOf) },
		"every": e.every,
		"rows":  e.rows,
	}
	return e
}

// checkExpression refuses what cannot be evaluated whatever the tables are.
func checkExpression(text string) error { return newEvaluator(nil).Check(text) }

func numbersOf(v lab.Value) []float64  { return v.Numbers }
func intervalOf(v lab.Value) []float64 { return v.Interval }

func (e *evaluator) cell(args []any) (any, error) {
	v, err := e.read(args)
	n, is := v.Number()
	if err == nil && !is {
		err = &lab.NoCell{What: fmt.Sprintf("%v: %q has no number", args, v.Text)}
	}
	return n, err
}

func (e *evaluator) every(args []any) (any, error) {
	texts, err := expr.Texts(args, 3)
	if err != nil {
		return nil, err
	}
	t, column, err := e.column(texts[0], texts[1])
	if err != nil {
		return nil, err
	}
	all, worst := expr.Of(len(t.Rows) > 0), -1
	for i, row := range t.Rows {
		is := expr.Of(slices.Contains(texts[2:], row[column].Text))
		if is == expr.No && row[column].Text == "noisy" {
			is = expr.Undecided
		}
		if is < all {
			all, worst = is, i
		}
	}
	if worst < 0 {
		e.reads.add(t.ID, fmt.Sprintf("all %d rows", len(t.Rows)), said(t.Columns[column], strings.Join(texts[2:], " or ")))
	} else {
		e.reads.add(t.ID, rowName(t, worst), said(t.Columns[column], t.Rows[worst][column].Text))
	}
	return all, nil
}

func (e *evaluator) rows(args []any) (any, error) {
	texts, err := expr.Texts(args, 1)
	if err != nil {
		return nil, err
	}
	t, err := e.table(texts[0])
	if err != nil {
		return nil, err
	}
	return expr.Exact(float64(len(t.Rows))), nil
}

// table finds a table, on which the claim then rests.
func (e *evaluator) table(name string) (*lab.Table, error) {
	t, ok := e.tables[name]
	if !ok {
		return nil, &lab.NoCell{What: "no table " + name}
	}
	e.rests[t.experiment] = t
	return t.Table, nil
}

// column finds a table and a column of it.
func (e *evaluator) column(table, name string) (*lab.Table, int, error) {
	t, err := e.table(table)
	if err != nil {
		return nil, 0, err
	}
	i, err := t.Place(name)
	return t, i, err
}

// read finds a cell by its table, its column, and pairs of a column and its text or
// number in the row.
func (e *evaluator) read(args []any) (lab.Value, error) {
	none := lab.Value{}
	texts, err := expr.Texts(args, 2)
	if err != nil {
		return none, err
	}
	t, column, err := e.column(texts[0], texts[1])
	if err != nil {
		return none, err
	}
	v, err := t.Cell(texts[1], args[2:]...)
	if err != nil {
		return none, err
	}
	var names []string
	for i := 2; i < len(texts); i += 2 {
		names = append(names, keyed(t.Columns[t.Column(texts[i])], texts[i+1]))
	}
	e.reads.add(t.ID, strings.Join(names, ", "), said(t.Columns[column], v.Text))
	e.reads.starred = e.reads.starred || v.IsStarred()
	return v, nil
}

// nth returns one of the numbers that of takes from a cell, counted from 1. If there
// are fewer, its error says that the cell has what.
func (e *evaluator) nth(args []any, what string, n int, of func(lab.Value) []float64) (any, error) {
	v, err := e.read(args)
	if err != nil {
		return nil, err
	}
	numbers := of(v)
	if len(numbers) < n {
		return nil, &lab.NoCell{What: fmt.Sprintf("%v: %q has %s", args, v.Text, what)}
	}
	return expr.Exact(numbers[n-1]), nil
}
