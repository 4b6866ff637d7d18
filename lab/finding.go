package lab

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gpipebench/internal/expr"
	"gpipebench/internal/units"
)

// Heading is what stands above a figure.
type Heading struct {
	// Finding is what the figure shows, in a sentence whose figures come from its tables; "":
	// the subject stands alone.
	Finding string
	Subject string // what it is of, and how many rounds or seeds that is
}

// N says how many of something a figure is of, such as "n = 7 rounds".
func N(n int, one string) string { return "n = " + units.Counted(n, one) }

// Heading is the heading of a figure of the experiment: the spec's finding with figures of tables, and its
// title with n, unless that is "". Without a cell that the finding has, as in a profile that is
// too small for it, there is no finding.
func (b *Base[S]) Heading(n string, tables ...*Table) (Heading, error) {
	h := Heading{Subject: b.Title()}
	if n != "" {
		h.Subject += " (" + n + ")"
	}
	var err error
	h.Finding, err = Filled(b.head.Finding, tables...)
	if err != nil {
		err = fmt.Errorf("%s: finding: %w", b.ID(), err)
	}
	return h, err
}

var inBraces = regexp.MustCompile(`\{([^{}]*)\}`)

// Filled is a finding with the values of the expressions in its braces; "" if tables lack a
// cell. An expression is of package expr, and has the functions of a [Reader] and these:
//
//	least(table, column), most(...)  the smallest and the largest number of a column
//	choose(truth, yes, no, open)     one of these texts; open if intervals leave the truth open
//
// A number is printed with three significant digits.
func Filled(finding string, tables ...*Table) (string, error) {
	of := findingFunctions(tables)
	var failed error
	text := inBraces.ReplaceAllStringFunc(finding, func(braces string) string {
		v, err := of.Evaluate(strings.Trim(braces, "{}"))
		if err != nil {
			failed = errors.Join(failed, err)
			return ""
		}
		if n, ok := v.(expr.Number); ok {
			return significant(n.X)
		}
		return fmt.Sprint(v)
	})
	if _, missing := errors.AsType[*NoCell](failed); missing {
		return "", nil
	}
	return text, failed
}

// checkFinding refuses a finding that has no value whatever the tables are.
func checkFinding(finding string) error {
	for _, m := range inBraces.FindAllStringSubmatch(finding, -1) {
		if err := findingFunctions(nil).Check(m[1]); err != nil {
			return err
		}
	}
	return nil
}

// significant prints three digits of a number, or all before its point.
func significant(x float64) string {
	if text := strconv.FormatFloat(x, 'g', 3, 64); !strings.Contains(text, "e+") {
		return text
	}
	return strconv.FormatFloat(x, 'f', 0, 64)
}

func findingFunctions(tables []*Table) expr.Functions {
	table := func(id string) (*Table, error) {
		i := slices.IndexFunc(tables, func(t *Table) bool { return t.ID == id })
		if i < 0 {
			return nil, &NoCell{What: "no table " + id}
		}
		return tables[i], nil
	}
	reader := Reader{Table: table}
	extreme := func(of func([]float64) float64) expr.Function {
		return func(args []any) (any, error) {
			t, at, _, err := reader.Column(args, 2)
			if err != nil {
				return nil, err
			}
			var numbers []float64
			for _, row := range t.Rows {
				numbers = append(numbers, row[at].Numbers[:min(1, len(row[at].Numbers))]...)
			}
			if len(numbers) == 0 {
				return nil, &NoCell{What: fmt.Sprintf("%v: no numbers", args)}
			}
			return expr.Exact(of(numbers)), nil
		}
	}
	all := reader.Functions()
	maps.Copy(all, expr.Functions{
		"least": extreme(slices.Min[[]float64]),
		"most":  extreme(slices.Max[[]float64]),
		"choose": func(args []any) (any, error) {
			if len(args) == 4 {
				if is, ok := args[0].(expr.Truth); ok {
					return args[map[expr.Truth]int{expr.Yes: 1, expr.No: 2, expr.Undecided: 3}[is]], nil
				}
			}
			return nil, errors.New("want a truth value and three texts")
		},
	})
	return all
}
