package claims

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"gpipebench/gpipe"
	"gpipebench/gpipe/schedule"
	"gpipebench/internal/expr"
	"gpipebench/internal/stats"
	"gpipebench/internal/units"
	"gpipebench/lab"
	"gpipebench/lab/timed"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/simulate"
	"gpipebench/train"
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
//	rate(table, column, ...)              of a cell such as 1 of 3: the share, with its interval (Clopper
//	                                      and Pearson, 95%)
//	every(table, column, allowed, ...)    whether all of a column is among these; noisy cells leave it open
//	params(model)                         parameters of a network, given as in a spec
//	layer(what, model, name)              a layer's params, its saved bytes or flops for one example
//	even(K, M)                            a step on even stages by the closed form, in units of the
//	                                      network's F of a mini-batch: f:r:b = 1:1:2, early recomputation
//	activations(model, K, M, N, mode)     bytes on the fullest of K modelled TPUs, as planned, that are
//	                                      neither parameters nor gradients nor the optimiser's
//	fullest(model, accelerator, K, M, N)  bytes on the fullest of K devices for a step with adam; bf16
//	                                      activations and the paper's 12 bytes a parameter
type evaluator struct {
	expr.Functions
	ctx    context.Context
	tables tablesOf
	reads  []string              // the cells that were read, as evidence
	rests  map[string]claimTable // by experiment: a table of it that was read
}

func newEvaluator(ctx context.Context, tables tablesOf) *evaluator {
	e := &evaluator{ctx: ctx, tables: tables, rests: map[string]claimTable{}}
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
		"low":         func(args []any) (any, error) { return e.nth(args, "no interval", 1, intervalOf) },
		"high":        func(args []any) (any, error) { return e.nth(args, "no interval", 2, intervalOf) },
		"rate":        e.rate,
		"every":       e.every,
		"params":      params,
		"layer":       e.layer,
		"even":        even,
		"activations": e.activations,
		"fullest":     e.fullest,
	}
	return e
}

// checkExpression refuses what cannot be evaluated whatever the tables are.
func checkExpression(text string) error { return newEvaluator(context.Background(), nil).Check(text) }

func numbersOf(v lab.Value) []float64  { return v.Numbers }
func intervalOf(v lab.Value) []float64 { return v.Interval }

func (e *evaluator) cell(args []any) (any, error) {
	v, err := e.read(args)
	if err != nil {
		return nil, err
	}
	if len(v.Numbers) == 0 {
		return nil, &missingEvidence{fmt.Sprintf("%v: %q has no number", args, v.Text)}
	}
	if len(v.Interval) == 2 {
		return expr.Between(v.Numbers[0], v.Interval[0], v.Interval[1]), nil
	}
	return expr.Exact(v.Numbers[0]), nil
}

func (e *evaluator) rate(args []any) (any, error) {
	v, err := e.read(args)
	if err != nil {
		return nil, err
	}
	if len(v.Numbers) != 2 || !(v.Numbers[1] > 0) {
		return nil, &missingEvidence{fmt.Sprintf("%v: %q is not a number of several", args, v.Text)}
	}
	lo, hi := stats.RateInterval(int(v.Numbers[0]), int(v.Numbers[1]))
	return expr.Between(v.Numbers[0]/v.Numbers[1], lo, hi), nil
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
	all, other := expr.Of(len(t.Rows) > 0), ""
	for _, row := range t.Printed() {
		is := expr.Of(slices.Contains(texts[2:], row[column]))
		if is == expr.No && row[column] == "noisy" {
			is = expr.Undecided
		}
		if is < all {
			all, other = is, fmt.Sprintf("%s: %s: %s", t.ID, strings.Join(row, ", "), row[column])
		}
	}
	if other == "" {
		other = fmt.Sprintf("%s: %s: %s in all %d rows", t.ID, t.Columns[column].Name, strings.Join(texts[2:], " or "), len(t.Rows))
	}
	e.saw(other)
	return all, nil
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
	return expr.Exact(float64(nn.CountParams(layers))), nil
}

func (e *evaluator) layer(args []any) (any, error) {
	texts, err := expr.Texts(args, 3)
	if err != nil {
		return nil, err
	}
	m, err := modelOf(args[1:])
	if err != nil {
		return nil, err
	}
	d, err := computed(fmt.Sprint("layers of ", args[1]), func() (*simulate.Description, error) {
		return simulate.Describing{Model: m, Setup: train.Setup{Partitions: 1, MicroBatches: 1}, Batch: 1}.Run(e.ctx)
	})
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(d.Layers, func(l gpipe.LayerInfo) bool { return l.Name == texts[2] })
	if i < 0 {
		return nil, fmt.Errorf("no layer %q", texts[2])
	}
	l := d.Layers[i]
	figures := map[string]int64{"params": l.Params, "saved": l.SavedBytes, "flops": l.FLOPs}
	figure, ok := figures[texts[0]]
	if !ok {
		return nil, fmt.Errorf("%q: want flops, params or saved", texts[0])
	}
	e.saw(fmt.Sprintf("%s of %s %d", texts[0], l.Name, figure))
	return expr.Exact(float64(figure)), nil
}

func even(args []any) (any, error) {
	ns, err := expr.Numbers(args, 2)
	if err != nil {
		return nil, err
	}
	step, err := timed.EvenStep(train.Setup{Partitions: int(ns[0].X), MicroBatches: int(ns[1].X), Schedule: schedule.GPipe, Checkpoint: schedule.Always})
	return expr.Exact(step), err
}

func (e *evaluator) activations(args []any) (any, error) {
	if len(args) != 5 {
		return nil, errors.New("want a model, K, M, N and a checkpoint mode")
	}
	mode, err := schedule.ParseCheckpoint(fmt.Sprint(args[4]))
	if err != nil {
		return nil, err
	}
	devices, err := e.step(args[0], "tpuv3", args[1:4], mode, gpipe.Modelling{DType: graph.F32})
	var most int64
	for _, d := range devices {
		most = max(most, d.ActivationBytes)
	}
	return expr.Exact(float64(most)), err
}

func (e *evaluator) fullest(args []any) (any, error) {
	if len(args) != 5 {
		return nil, errors.New("want a model, an accelerator, K, M and N")
	}
	devices, err := e.step(args[0], fmt.Sprint(args[1]), args[2:], schedule.Always, gpipe.Modelling{DType: graph.BF16, KeepScores: true})
	var most int64
	for _, d := range devices {
		most = max(most, d.PeakBytes)
	}
	e.saw("fullest device " + units.FormatBytes(most))
	return expr.Exact(float64(most)), err
}

// step simulates a step with K, M and N, and returns its devices.
func (e *evaluator) step(model any, accelerator string, kmn []any, mode schedule.Checkpoint, how gpipe.Modelling) ([]simulate.SimulatedDevice, error) {
	m, err := modelOf([]any{model})
	if err != nil {
		return nil, err
	}
	ns, err := expr.Numbers(kmn, 3)
	if err != nil {
		return nil, err
	}
	s := simulate.Simulating{Model: m, Accelerator: accelerator, Batch: int(ns[2].X), Optimizer: "adam", DType: how.DType, Accounting: how.Accounting, KeepScores: how.KeepScores}
	s.Setup = train.Setup{Partitions: int(ns[0].X), MicroBatches: int(ns[1].X), Checkpoint: mode}
	return computed(fmt.Sprint("a step of ", model, accelerator, kmn, mode, how.DType, how.Accounting, how.KeepScores), func() ([]simulate.SimulatedDevice, error) {
		r, err := s.Run(e.ctx)
		if err != nil {
			return nil, err
		}
		return r.Devices, nil
	})
}

// known are the results of computed. They depend on no records, take most of a
// verification's time, and a program may verify often.
var known sync.Map

// computed computes what is named only once.
func computed[T any](what string, compute func() (T, error)) (T, error) {
	if v, ok := known.Load(what); ok {
		return v.(T), nil
	}
	v, err := compute()
	if err == nil {
		known.Store(what, v)
	}
	return v, err
}

// missingEvidence is an error of an expression whose cells are not there.
type missingEvidence struct{ what string }

func (m *missingEvidence) Error() string { return m.what }

// modelOf reads the first argument, a network as a spec has it.
func modelOf(args []any) (train.Model, error) {
	var m train.Model
	if len(args) == 0 {
		return m, errors.New("want a model")
	}
	err := lab.Decode("model", []byte(fmt.Sprint(args[0])), &m, nil)
	if err == nil && m.Classes == 0 {
		m.Classes = 1000
	}
	return m, err
}

// column finds a table and a column of it.
func (e *evaluator) column(table, name string) (*lab.Table, int, error) {
	t, ok := e.tables[table]
	if !ok {
		return nil, 0, &missingEvidence{"no table " + table}
	}
	e.rests[t.experiment] = t
	i := t.Column(name)
	if i < 0 {
		var names []string
		for _, c := range t.Columns {
			names = append(names, c.ID)
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
func (e *evaluator) read(args []any) (lab.Value, error) {
	none := lab.Value{}
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
	rows, read := slices.Clone(t.Rows), ""
	for i := 0; i < len(keys); i += 2 {
		_, key, err := e.column(texts[0], keys[i])
		if err != nil {
			return none, err
		}
		read += t.Columns[key].Name + " " + keys[i+1] + " "
		number, isNumber := args[2+i+1].(expr.Number)
		rows = slices.DeleteFunc(rows, func(row []lab.Value) bool {
			v := row[key]
			return v.Text != keys[i+1] && !(isNumber && len(v.Numbers) > 0 && v.Numbers[0] == number.X)
		})
	}
	if len(rows) != 1 {
		return none, &missingEvidence{fmt.Sprintf("table %s has %d rows with %s", texts[0], len(rows), strings.Join(keys, " "))}
	}
	v := rows[0][column]
	e.saw(read + t.Columns[column].Name + " " + v.Text)
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
		return nil, &missingEvidence{fmt.Sprintf("%v: %q has %s", args, v.Text, what)}
	}
	return expr.Exact(numbers[n-1]), nil
}
