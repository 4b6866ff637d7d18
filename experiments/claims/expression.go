package claims

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"slices"
	"strconv"
	"strings"

	"gpipebench/experiments/rounds"
	"gpipebench/experiments/simulation"
	"gpipebench/experiments/suite"
	"gpipebench/experiments/workload"
	"gpipebench/gpipe/schedule"
	"gpipebench/nn"
)

// A claim's evidence is an expression over the cells of tables, in Go's syntax:
// numbers, texts, + - * /, comparisons, && || ! and the functions below.
//
//	cell(table, column, key, value, ...)  the number in the row where column key has value, ...: seconds,
//	                                      bytes, percent, or as it is; exact, however it is printed
//	nth(n, table, column, ...)            the n-th number of a cell that has several, from 1
//	text(table, column, key, value, ...)  what is printed there
//	low(...), high(...)                   the ends of the interval there
//	every(table, column, allowed, ...)    whether all of a column is among these
//	rising(a, b, ...)                     whether each is larger than the one before
//	abs(a), min(a, ...), max(a, ...)
//	params(model)                         parameters of a network, given as in a spec
//	even(K, M)                            a step on even stages by the closed form, in units of the
//	                                      network's F of a mini-batch: f:r:b = 1:1:2, early recomputation
//	activations(model, K, M, N, mode)     bytes on the fullest of K modelled TPUs, as planned, that are
//	                                      neither parameters nor gradients nor the optimiser's
type evaluator struct {
	ctx    context.Context
	tables tablesOf
	reads  []string // the cells that were read, for whoever wants to see
	small  bool     // one of the tables is of the smoke profile
}

// missingEvidence is an error of an expression whose cells are not there.
type missingEvidence struct{ what string }

func (m *missingEvidence) Error() string { return m.what }

// checkExpression refuses what cannot be evaluated whatever the tables are.
func checkExpression(text string) error {
	x, err := parser.ParseExpr(text)
	if err != nil {
		return errors.New(strings.Join(strings.Fields(err.Error()), " "))
	}
	var bad error
	ast.Inspect(x, func(n ast.Node) bool {
		switch n := n.(type) {
		case nil, *ast.BasicLit, *ast.BinaryExpr, *ast.ParenExpr, *ast.UnaryExpr, *ast.Ident:
		case *ast.CallExpr:
			if name, ok := n.Fun.(*ast.Ident); !ok || functions[name.Name] == nil {
				bad = fmt.Errorf("%s is no function: want %s", text[n.Fun.Pos()-1:n.Fun.End()-1], strings.Join(functionNames(), ", "))
			}
		default:
			bad = fmt.Errorf("%q: want numbers, texts, operators and functions", text[n.Pos()-1:n.End()-1])
		}
		return bad == nil
	})
	return bad
}

// number evaluates an expression that is one.
func (e *evaluator) number(text string) (float64, error) {
	v, err := e.evaluate(text)
	if err != nil {
		return 0, err
	}
	n, ok := v.(float64)
	if !ok {
		return 0, fmt.Errorf("%s is %v: want a number", text, v)
	}
	return n, nil
}

// truth evaluates an expression that is true or false.
func (e *evaluator) truth(text string) (bool, error) {
	v, err := e.evaluate(text)
	if err != nil {
		return false, err
	}
	b, ok := v.(bool)
	if !ok {
		return false, fmt.Errorf("%s is %v: want what is true or false", text, v)
	}
	return b, nil
}

func (e *evaluator) evaluate(text string) (any, error) {
	x, err := parser.ParseExpr(text)
	if err != nil {
		return nil, err
	}
	return e.eval(x)
}

// eval is a float64, a string or a bool.
func (e *evaluator) eval(x ast.Expr) (any, error) {
	switch x := x.(type) {
	case *ast.ParenExpr:
		return e.eval(x.X)
	case *ast.BasicLit:
		if x.Kind == token.STRING {
			return strconv.Unquote(x.Value)
		}
		return strconv.ParseFloat(x.Value, 64)
	case *ast.UnaryExpr:
		v, err := e.eval(x.X)
		if err != nil {
			return nil, err
		}
		switch v := v.(type) {
		case float64:
			if x.Op == token.SUB {
				return -v, nil
			}
		case bool:
			if x.Op == token.NOT {
				return !v, nil
			}
		}
		return nil, fmt.Errorf("%s before %v", x.Op, v)
	case *ast.BinaryExpr:
		// Both sides, so that what is missing is said whatever the other is.
		a, err := e.eval(x.X)
		if err != nil {
			return nil, err
		}
		b, err := e.eval(x.Y)
		if err != nil {
			return nil, err
		}
		return operate(x.Op, a, b)
	case *ast.CallExpr:
		name, ok := x.Fun.(*ast.Ident)
		if !ok || functions[name.Name] == nil {
			return nil, errors.New("no such function")
		}
		var args []any
		for _, arg := range x.Args {
			v, err := e.eval(arg)
			if err != nil {
				return nil, err
			}
			args = append(args, v)
		}
		v, err := functions[name.Name](e, args)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name.Name, err)
		}
		return v, nil
	}
	return nil, errors.New("want numbers, texts, operators and functions")
}

func operate(op token.Token, a, b any) (any, error) {
	switch a := a.(type) {
	case float64:
		if b, ok := b.(float64); ok {
			switch op {
			case token.ADD:
				return a + b, nil
			case token.SUB:
				return a - b, nil
			case token.MUL:
				return a * b, nil
			case token.QUO:
				return a / b, nil
			case token.LSS:
				return a < b, nil
			case token.LEQ:
				return a <= b, nil
			case token.GTR:
				return a > b, nil
			case token.GEQ:
				return a >= b, nil
			case token.EQL:
				return a == b, nil
			case token.NEQ:
				return a != b, nil
			}
		}
	case bool:
		if b, ok := b.(bool); ok {
			switch op {
			case token.LAND:
				return a && b, nil
			case token.LOR:
				return a || b, nil
			}
		}
	case string:
		if b, ok := b.(string); ok {
			switch op {
			case token.EQL:
				return a == b, nil
			case token.NEQ:
				return a != b, nil
			}
		}
	}
	return nil, fmt.Errorf("%v %s %v has no meaning", a, op, b)
}

var functions map[string]func(e *evaluator, args []any) (any, error)

func init() {
	functions = map[string]func(e *evaluator, args []any) (any, error){
		"cell": func(e *evaluator, args []any) (any, error) {
			return e.nth(args, "no number", 1, func(v suite.Value) []float64 { return v.Numbers })
		},
		"nth": func(e *evaluator, args []any) (any, error) {
			if len(args) > 0 {
				if n, ok := args[0].(float64); ok && n >= 1 && n <= 1000 && n == math.Trunc(n) {
					return e.nth(args[1:], fmt.Sprintf("no %v numbers", n), int(n), func(v suite.Value) []float64 { return v.Numbers })
				}
			}
			return nil, errors.New("want a whole number from 1 first")
		},
		"text": func(e *evaluator, args []any) (any, error) {
			v, err := e.read(args)
			return v.Text, err
		},
		"low":  func(e *evaluator, args []any) (any, error) { return e.end(args, 1) },
		"high": func(e *evaluator, args []any) (any, error) { return e.end(args, 2) },
		"every": func(e *evaluator, args []any) (any, error) {
			texts, err := allTexts(args, 3)
			if err != nil {
				return nil, err
			}
			t, column, err := e.column(texts[0], texts[1])
			if err != nil {
				return nil, err
			}
			for _, row := range t.Printed() {
				if !slices.Contains(texts[2:], row[column]) {
					e.reads = append(e.reads, fmt.Sprintf("%s: %s: %s", t.ID, strings.Join(row, ", "), row[column]))
					return false, nil
				}
			}
			e.reads = append(e.reads, fmt.Sprintf("%s: %s: %s in all %d rows", t.ID, texts[1], strings.Join(texts[2:], " or "), len(t.Rows)))
			return len(t.Rows) > 0, nil
		},
		"rising": func(e *evaluator, args []any) (any, error) {
			ns, err := allNumbers(args, 2)
			if err != nil {
				return nil, err
			}
			for i := range ns[1:] {
				if !(ns[i] < ns[i+1]) {
					return false, nil
				}
			}
			return true, nil
		},
		"abs": ofNumbers(1, func(ns []float64) float64 { return math.Abs(ns[0]) }),
		"min": ofNumbers(1, func(ns []float64) float64 { return slices.Min(ns) }),
		"max": ofNumbers(1, func(ns []float64) float64 { return slices.Max(ns) }),
		"params": func(e *evaluator, args []any) (any, error) {
			m, err := modelOf(args)
			if err != nil {
				return nil, err
			}
			layers, err := m.Build()
			if err != nil {
				return nil, err
			}
			return float64(nn.CountParams(layers)), nil
		},
		"even": func(_ *evaluator, args []any) (any, error) {
			ns, err := allNumbers(args, 2)
			if err != nil {
				return nil, err
			}
			return rounds.EvenStep(workload.Setup{Partitions: int(ns[0]), MicroBatches: int(ns[1]), Schedule: schedule.GPipe, Checkpoint: schedule.Always})
		},
		"activations": func(e *evaluator, args []any) (any, error) {
			m, err := modelOf(args)
			if err != nil {
				return nil, err
			}
			if len(args) != 5 {
				return nil, errors.New("want a model, K, M, N and a checkpoint mode")
			}
			ns, err := allNumbers(args[1:4], 3)
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
		},
	}
}

func functionNames() []string {
	var names []string
	for name := range functions {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func ofNumbers(least int, f func([]float64) float64) func(*evaluator, []any) (any, error) {
	return func(_ *evaluator, args []any) (any, error) {
		ns, err := allNumbers(args, least)
		if err != nil {
			return nil, err
		}
		return f(ns), nil
	}
}

func allNumbers(args []any, least int) ([]float64, error) {
	var ns []float64
	for _, a := range args {
		n, ok := a.(float64)
		if !ok {
			return nil, fmt.Errorf("%v: want a number", a)
		}
		ns = append(ns, n)
	}
	if len(ns) < least {
		return nil, fmt.Errorf("%d arguments: want %d", len(ns), least)
	}
	return ns, nil
}

func allTexts(args []any, least int) ([]string, error) {
	var texts []string
	for _, a := range args {
		switch a := a.(type) {
		case string:
			texts = append(texts, a)
		case float64:
			texts = append(texts, strconv.FormatFloat(a, 'f', -1, 64))
		default:
			return nil, fmt.Errorf("%v: want a text or a number", a)
		}
	}
	if len(texts) < least {
		return nil, fmt.Errorf("%d arguments: want %d or more", len(texts), least)
	}
	return texts, nil
}

// modelOf reads the first argument, a network as in a spec.
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

// read finds a cell: table, column, and pairs of a column and what that has in the
// row that is meant, its text or its number.
func (e *evaluator) read(args []any) (suite.Value, error) {
	none := suite.Value{}
	texts, err := allTexts(args, 2)
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
	e.reads = append(e.reads, strings.TrimSpace(fmt.Sprintf("%s %s", strings.Join(keys, " "), texts[1]))+" "+v.Text)
	return v, nil
}

// nth is one of the numbers that of takes from a cell, counted from 1; what says
// what is missing if there are fewer.
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

// end is an end of the interval in a cell.
func (e *evaluator) end(args []any, which int) (any, error) {
	return e.nth(args, "no interval", which, func(v suite.Value) []float64 { return v.Interval })
}
