// Package expr evaluates expressions in Go's syntax: numbers, texts, + - * /,
// comparisons, && || ! and functions. Values are Number, Series, string or Truth: numbers carry
// intervals, by interval arithmetic, and a comparison that the intervals leave open is
// Undecided. Arithmetic treats the intervals of a number's uses as independent, so an
// interval may come out too wide, never too narrow.
//
// Every set of functions has these as well:
//
//	rising(a, b, ...)             whether each is larger than the one before
//	abs(a), min(a, ...), max(a, ...)
//	span(a, ...)                  the interval from the lowest of them to the highest
package expr

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Function computes a value from its arguments.
type Function func(args []any) (any, error)

// Functions are the functions that an expression may call, by name. One that it names without
// calling it has no arguments.
type Functions map[string]Function

var builtin = Functions{
	"rising": func(args []any) (any, error) {
		ns, err := Numbers(args, 2)
		if err != nil {
			return nil, err
		}
		t := Yes
		for i := range ns[1:] {
			t = min(t, less(ns[i], ns[i+1]))
		}
		return t, nil
	},
	"abs": ofNumbers(func(ns []Number) Number { return absolute(ns[0]) }),
	"min": ofNumbers(func(ns []Number) Number { return each(ns, math.Min) }),
	"max": ofNumbers(func(ns []Number) Number { return each(ns, math.Max) }),
	"span": ofNumbers(func(ns []Number) Number {
		lo, hi := each(ns, math.Min).X, each(ns, math.Max).X
		return Between((lo+hi)/2, lo, hi)
	}),
}

// named returns the function that an expression calls, and its name.
func (fs Functions) named(call *ast.CallExpr) (name string, f Function) {
	if id, ok := call.Fun.(*ast.Ident); ok {
		if f = fs[id.Name]; f == nil {
			f = builtin[id.Name]
		}
		return id.Name, f
	}
	return "", nil
}

// names lists these functions and more.
func (fs Functions) names(more Functions) string {
	return strings.Join(slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Keys(fs)), slices.Collect(maps.Keys(more))))), ", ")
}

// Check rejects an expression that cannot be evaluated whatever the functions
// return.
func (fs Functions) Check(text string) error {
	return fs.check(text, func(name string) bool { return fs[name] != nil || builtin[name] != nil })
}

// CheckOpen is Check where functions without arguments, which stand as names, may be added later.
func (fs Functions) CheckOpen(text string) error {
	return fs.check(text, func(string) bool { return true })
}

func (fs Functions) check(text string, known func(name string) bool) error {
	x, err := parser.ParseExpr(text)
	if err != nil {
		return errors.New(strings.Join(strings.Fields(err.Error()), " "))
	}
	var bad error
	ast.Inspect(x, func(n ast.Node) bool {
		switch n := n.(type) {
		case nil, *ast.BasicLit, *ast.BinaryExpr, *ast.ParenExpr, *ast.UnaryExpr:
		case *ast.Ident:
			if !known(n.Name) {
				bad = fmt.Errorf("unknown name %s: want %s", n.Name, fs.names(nil))
			}
		case *ast.CallExpr:
			if _, f := fs.named(n); f == nil {
				bad = fmt.Errorf("%s is no function: want %s", text[n.Fun.Pos()-1:n.Fun.End()-1], fs.names(builtin))
			}
		default:
			bad = fmt.Errorf("%q: want numbers, texts, operators and functions", text[n.Pos()-1:n.End()-1])
		}
		return bad == nil
	})
	return bad
}

// Number evaluates an expression whose value is a number.
func (fs Functions) Number(text string) (Number, error) { return as[Number](fs, text, "a number") }

// Truth evaluates an expression whose value is a truth value.
func (fs Functions) Truth(text string) (Truth, error) { return as[Truth](fs, text, "true or false") }

func as[T any](fs Functions, text, want string) (T, error) {
	v, err := fs.Evaluate(text)
	x, ok := v.(T)
	if err == nil && !ok {
		err = fmt.Errorf("%s is %v: want %s", text, v, want)
	}
	return x, err
}

// Evaluate evaluates an expression.
func (fs Functions) Evaluate(text string) (any, error) {
	x, err := parser.ParseExpr(text)
	if err != nil {
		return nil, err
	}
	return fs.eval(x)
}

func (fs Functions) eval(x ast.Expr) (any, error) {
	switch x := x.(type) {
	case *ast.ParenExpr:
		return fs.eval(x.X)
	case *ast.BasicLit:
		if x.Kind == token.STRING {
			return strconv.Unquote(x.Value)
		}
		number, err := strconv.ParseFloat(x.Value, 64)
		return Exact(number), err
	case *ast.Ident:
		if f := fs[x.Name]; f != nil {
			return f(nil)
		}
		return nil, fmt.Errorf("unknown name %s: want %s", x.Name, fs.names(nil))
	case *ast.UnaryExpr:
		v, err := fs.eval(x.X)
		if err != nil {
			return nil, err
		}
		switch v := v.(type) {
		case Number:
			if x.Op == token.SUB {
				return minus(Exact(0), v), nil
			}
		case Truth:
			if x.Op == token.NOT {
				return -v, nil
			}
		}
		return nil, fmt.Errorf("%s before %v", x.Op, v)
	case *ast.BinaryExpr:
		// Evaluate both sides, so that an error of either is reported.
		a, err := fs.eval(x.X)
		if err != nil {
			return nil, err
		}
		b, err := fs.eval(x.Y)
		if err != nil {
			return nil, err
		}
		return operate(x.Op, a, b)
	case *ast.CallExpr:
		name, f := fs.named(x)
		if f == nil {
			return nil, errors.New("no such function")
		}
		var args []any
		for _, arg := range x.Args {
			v, err := fs.eval(arg)
			if err != nil {
				return nil, err
			}
			args = append(args, v)
		}
		v, err := f(args)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return v, nil
	}
	return nil, errors.New("want numbers, texts, operators and functions")
}

func operate(op token.Token, a, b any) (any, error) {
	if n, is := pairs(a, b); is {
		return oneByOne(op, a, b, n)
	}
	switch a := a.(type) {
	case Number:
		if b, ok := b.(Number); ok {
			switch op {
			case token.ADD:
				return plus(a, b), nil
			case token.SUB:
				return minus(a, b), nil
			case token.MUL:
				return times(a, b), nil
			case token.QUO:
				return over(a, b), nil
			case token.LSS:
				return less(a, b), nil
			case token.LEQ:
				return atMost(a, b), nil
			case token.GTR:
				return less(b, a), nil
			case token.GEQ:
				return atMost(b, a), nil
			case token.EQL:
				return equal(a, b), nil
			case token.NEQ:
				return -equal(a, b), nil
			}
		}
	case Truth:
		if b, ok := b.(Truth); ok {
			switch op {
			case token.LAND:
				return min(a, b), nil
			case token.LOR:
				return max(a, b), nil
			}
		}
	case string:
		if b, ok := b.(string); ok {
			switch op {
			case token.EQL:
				return Of(a == b), nil
			case token.NEQ:
				return Of(a != b), nil
			}
		}
	}
	return nil, fmt.Errorf("%v %s %v has no meaning", a, op, b)
}

func ofNumbers(f func([]Number) Number) Function {
	return func(args []any) (any, error) {
		ns, err := Numbers(args, 1)
		if err != nil {
			return nil, err
		}
		return f(ns), nil
	}
}

// Numbers returns the arguments, which must be at least least numbers.
func Numbers(args []any, least int) ([]Number, error) {
	var ns []Number
	for _, a := range args {
		n, ok := a.(Number)
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

// Texts returns the arguments as texts. They must be at least least texts or
// numbers.
func Texts(args []any, least int) ([]string, error) {
	var texts []string
	for _, a := range args {
		switch a := a.(type) {
		case string:
			texts = append(texts, a)
		case Number:
			texts = append(texts, strconv.FormatFloat(a.X, 'f', -1, 64))
		default:
			return nil, fmt.Errorf("%v: want a text or a number", a)
		}
	}
	if len(texts) < least {
		return nil, fmt.Errorf("%d arguments: want %d or more", len(texts), least)
	}
	return texts, nil
}
