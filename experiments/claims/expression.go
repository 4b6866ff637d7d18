package claims

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"gpipebench/experiments/rounds"
	"gpipebench/experiments/simulation"
	"gpipebench/experiments/suite"
	"gpipebench/experiments/workload"
	"gpipebench/gpipe/schedule"
	"gpipebench/internal/expr"
	"gpipebench/nn"
)

// A claim's evidence is an expression over the cells of tables, as package expr has
// them, with these functions:
//
//	cell(table, column, key, value, ...)  the number in the row where column key has value, ...: seconds,
//	                                      bytes, percent, or as it is; exact, however it is printed
//	nth(n, table, column, ...)            the n-th number of a cell that has several, from 1
//	text(table, column, key, value, ...)  what is printed there
//	low(...), high(...)                   the ends of the interval there
//	every(table, column, allowed, ...)    whether all of a column is among these
//	params(model)                         parameters of a network, given as in a spec
//	even(K, M)                            a step on even stages by the closed form, in units of the
//	                                      network's F of a mini-batch: f:r:b = 1:1:2, early recomputation
//	activations(model, K, M, N, mode)     bytes on the fullest of K modelled TPUs, as planned, that are
//	                                      neither parameters nor gradients nor the optimiser's
type evaluator struct {
	expr.Functions
	ctx    context.Context
	tables tablesOf
	reads  []string // the cells that were read, as evidence
	small  bool     // one of the tables is of the smoke profile
}

func newEvaluator(ctx context.Context, tables tablesOf) *evaluator {
	e := &evaluator{ctx: ctx, tables: tables}
	e.Functions = expr.Functions{
		"cell": func(args []any) (any, error) { return e.nth(args, "no number", 1, numbersOf) },
		"nth": func(args []any) (any, error) {
			if len(args) > 0 {
				if n, ok := args[0].(float64); ok && n >= 1 && n <= 1000 && n == math.Trunc(n) {
					return e.nth(args[1:], fmt.Sprintf("no %v numbers", n), int(n), numbersOf)
				}
			}
			return nil, errors.New("want a whole number from 1 first")
		},
		"text": func(args []any) (any, error) {
			v, err := e.read(args)
			return v.Text, err
		},
		"low":         func(args []any) (any, error) { return e.nth(args, "no interval", 1, intervalOf) },
		"high":        func(args []any) (any, error) { return e.nth(args, "no interval", 2, intervalOf) },
		"every":       e.every,
		"params":      params,
		"even":        even,
		"activations": e.activations,
	}
	return e
}

// checkExpression refuses what cannot be evaluated whatever the tables are.
func checkExpression(text string) error { return newEvaluator(context.Background(), nil).Check(text) }

func numbersOf(v suite.Value) []float64  { return v.Numbers }
func intervalOf(v suite.Value) []float64 { return v.Interval }

func (e *evaluator) every(args []any) (any, error) {
	texts, err := expr.Texts(args, 3)
	if err != nil {
		return nil, err
	}
	t, column, err := e.column(texts[0], texts[1])
	if err != nil {
		return nil, err
	}
	for _, row := range t.Printed() {
		if !slices.Contains(texts[2:], row[column]) {
			e.saw(fmt.Sprintf("%s: %s: %s", t.ID, strings.Join(row, ", "), row[column]))
			return false, nil
		}
	}
	e.saw(fmt.Sprintf("%s: %s: %s in all %d rows", t.ID, texts[1], strings.Join(texts[2:], " or "), len(t.Rows)))
	return len(t.Rows) > 0, nil
}

func params(args []any) (any, error) {
	m, err := modelOf(args)
	if err != nil {
		return nil, err
	}
	layers, err := m.Build()
	if err != nil {
		return nil, err
	}
	return float64(nn.CountParams(layers)), nil
}

func even(args []any) (any, error) {
	ns, err := expr.Numbers(args, 2)
	if err != nil {
		return nil, err
	}
	return rounds.EvenStep(workload.Setup{Partitions: int(ns[0]), MicroBatches: int(ns[1]), Schedule: schedule.GPipe, Checkpoint: schedule.Always})
}

func (e *evaluator) activations(args []any) (any, error) {
	m, err := modelOf(args)
	if err != nil {
		return nil, err
	}
	if len(args) != 5 {
		return nil, errors.New("want a model, K, M, N and a checkpoint mode")
	}
	ns, err := expr.Numbers(args[1:4], 3)
	if err != nil {
		return nil, err
	}
	mode, err := schedule.ParseCheckpoint(fmt.Sprint(args[4]))
	if err != nil {
		return nil, err
	}
	s := simulation.Simulating{Model: m, Accelerator: "tpuv3", Batch: int(ns[2]), Optimizer: "adam"}
	s.DType, _ = workload.ParseDType("f32")
	s.Setup = workload.Setup{Partitions: int(ns[0]), MicroBatches: int(ns[1]), Checkpoint: mode}
	r, err := s.Run(e.ctx)
	if err != nil {
		return nil, err
	}
	var most int64
	for _, d := range r.Devices {
		most = max(most, d.ActivationBytes)
	}
	return float64(most), nil
}

// missingEvidence is an error of an expression whose cells are not there.
type missingEvidence struct{ what string }

func (m *missingEvidence) Error() string { return m.what }

// modelOf reads the first argument, a network as a spec has it.
func modelOf(args []any) (workload.Model, error) {
	var m workload.Model
	if len(args) == 0 {
		return m, errors.New("want a model")
	}
	err := suite.Decode("model", []byte(fmt.Sprint(args[0])), &m, nil)
	if err == nil && m.Classes == 0 {
		m.Classes = 1000
	}
	return m, err
}

// column finds a table and a column of it.
func (e *evaluator) column(table, name string) (*suite.Table, int, error) {
	t, ok := e.tables[table]
	if !ok {
		return nil, 0, &missingEvidence{"no table " + table}
	}
	e.small = e.small || t.small
	i := t.Column(name)
	if i < 0 {
		var names []string
		for _, c := range t.Columns {
			names = append(names, c.Name)
		}
		return nil, 0, &missingEvidence{fmt.Sprintf("table %s has no column %q, but %s", table, name, strings.Join(names, " | "))}
	}
	return t.Table, i, nil
}

// saw keeps a cell as evidence, once.
func (e *evaluator) saw(cell string) {
	if !slices.Contains(e.reads, cell) {
		e.reads = append(e.reads, cell)
	}
}

// read finds a cell by its table, its column, and pairs of a column and its text or
// number in the row.
func (e *evaluator) read(args []any) (suite.Value, error) {
	none := suite.Value{}
	texts, err := expr.Texts(args, 2)
	if err != nil {
		return none, err
	}
	keys := texts[2:]
	if len(keys)%2 != 0 {
		return none, errors.New("want a table, a column, and pairs of a column and its value")
	}
	t, column, err := e.column(texts[0], texts[1])
	if err != nil {
		return none, err
	}
	rows := slices.Clone(t.Rows)
	for i := 0; i < len(keys); i += 2 {
		_, key, err := e.column(texts[0], keys[i])
		if err != nil {
			return none, err
		}
		number, isNumber := args[2+i+1].(float64)
		rows = slices.DeleteFunc(rows, func(row []suite.Value) bool {
			v := row[key]
			return v.Text != keys[i+1] && !(isNumber && len(v.Numbers) > 0 && v.Numbers[0] == number)
		})
	}
	if len(rows) != 1 {
		return none, &missingEvidence{fmt.Sprintf("table %s has %d rows with %s", texts[0], len(rows), strings.Join(keys, " "))}
	}
	v := rows[0][column]
	e.saw(strings.TrimSpace(fmt.Sprintf("%s %s", strings.Join(keys, " "), texts[1])) + " " + v.Text)
	return v, nil
}

// nth returns one of the numbers that of takes from a cell, counted from 1. If there
// are fewer, its error says that the cell has what.
func (e *evaluator) nth(args []any, what string, n int, of func(suite.Value) []float64) (any, error) {
	v, err := e.read(args)
	if err != nil {
		return nil, err
	}
	numbers := of(v)
	if len(numbers) < n {
		return nil, &missingEvidence{fmt.Sprintf("%v: %q has %s", args, v.Text, what)}
	}
	return numbers[n-1], nil
}
