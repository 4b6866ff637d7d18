package claims

import (
	"fmt"
	"slices"
	"strings"

	"gpipebench/internal/expr"
	"gpipebench/lab"
)

// A claim's evidence is an expression over the cells of tables, with the functions of a [lab.Reader] and
//
//	every(table, column, allowed, ...)  whether all of a column is among these; noisy cells leave it open
type evaluator struct {
	expr.Functions
	tables   tablesOf
	families map[string]*judged    // by experiment, of those that have a design
	reads    cellsRead             // the cells that were read
	rests    map[string]claimTable // by experiment: a table of it that was read
}

func newEvaluator(tables tablesOf) *evaluator {
	e := &evaluator{tables: tables, rests: map[string]claimTable{}}
	e.Functions = lab.Reader{Table: e.table, Seen: e.saw}.Functions()
	e.Functions["every"] = e.every
	return e
}

// checkExpression refuses what cannot be evaluated whatever the tables are.
func checkExpression(text string) error { return newEvaluator(nil).Check(text) }

func (e *evaluator) every(args []any) (any, error) {
	t, column, texts, err := lab.Reader{Table: e.table}.Column(args, 3)
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

// table finds a table, on which the claim then rests.
func (e *evaluator) table(name string) (*lab.Table, error) {
	t, ok := e.tables[name]
	if !ok {
		return nil, &lab.NoCell{What: "no table " + name}
	}
	e.rests[t.experiment] = t
	return t.Table, nil
}

// saw keeps a cell that was read.
func (e *evaluator) saw(t *lab.Table, column int, v lab.Value, keys []string) {
	var names []string
	for i := 0; i < len(keys); i += 2 {
		names = append(names, keyed(t.Columns[t.Column(keys[i])], keys[i+1]))
	}
	e.reads.add(t.ID, strings.Join(names, ", "), said(t.Columns[column], v.Text))
	e.reads.starred = e.reads.starred || v.IsStarred()
}
