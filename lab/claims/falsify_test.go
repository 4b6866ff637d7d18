package claims

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gpipebench/internal/expr"
	"gpipebench/internal/testkit"
	"gpipebench/lab/records"
	"gpipebench/lab/timed"
	"gpipebench/lab/timed/timedtest"
)

// refused is how far from the paper's figure ours must not be, in percent (of its difference from
// 1, if the tolerance is of that), by the name of the tolerance: with each, a figure that far off is refused. It says so once more
// than the ledgers, so that a tolerance is not widened unnoticed.
var refused = map[string]float64{"stem": 2, "bytes": 6, "grid": 60, "planned": 60, "machine": 45, "share": 60, "formula": 15, "printed": 12, "roofline": 75, "fitted": 15, "gain": 120, "scaling": 15, "interleaved": 30}

// reading is what a claim's check reads: calls of functions, in their order, with their
// values. Those of moved have other values. All numbers are exact.
type reading struct {
	calls  []string
	values map[string]any
	moved  map[string]any
}

// read is what calls return on the reference, computed once.
var read = map[string]any{}

// over returns an evaluator that reads so.
func (r *reading) over(tables tablesOf, t *testing.T) *evaluator {
	e := newEvaluator(tables)
	r.values = map[string]any{}
	for name, f := range e.Functions {
		e.Functions[name] = func(args []any) (any, error) {
			call := name + fmt.Sprint(args)
			if _, seen := r.values[call]; !seen {
				v, known := read[call]
				if !known {
					var err error
					if v, err = f(args); err != nil {
						return nil, err
					}
					if n, ok := v.(expr.Number); ok {
						v = expr.Exact(n.X)
					}
					read[call] = v
				}
				r.calls, r.values[call] = append(r.calls, call), v
			}
			if v, ok := r.moved[call]; ok {
				return v, nil
			}
			return r.values[call], nil
		}
	}
	return e
}

// outcome is a claim's verdict if moved values are read.
func outcome(t *testing.T, c Claim, tables tablesOf, moved map[string]any) (Judgement, *reading, error) {
	r := &reading{moved: moved}
	j, err := c.judge(r.over(tables, t))
	return j, r, err
}

// falsified shows that records could make a claim's verdict another: its error says
// what does not.
func falsified(t *testing.T, c Claim, tables tablesOf) error {
	c.Shows = nil
	if c.over != "" {
		if err := rangeFalsified(t, c, tables); err != nil {
			return err
		}
		c.over = ""
	}
	now, r, err := outcome(t, c, tables, nil)
	if err != nil {
		return err
	}
	if now.Verdict == NoRecord {
		return fmt.Errorf("no record: %s", now.Why)
	}
	if len(r.calls) == 0 {
		return errors.New("it reads nothing")
	}
	if c.tolerance != nil {
		return figureFalsified(t, c, tables, now, r)
	}
	yes, _, no := c.Kind.outcomes()
	other := map[Verdict]Verdict{yes: no, no: yes}[now.Verdict]
	turns := func(call string, v any) bool {
		then, _, err := outcome(t, c, tables, map[string]any{call: v})
		return err == nil && then.Verdict == other
	}
	var all []any // each of which must turn it, in place of something that it reads
	for _, text := range c.FalsifiedBy {
		if x, err := strconv.ParseFloat(text, 64); err == nil {
			all = append(all, expr.Exact(x))
		} else {
			all = append(all, text)
		}
	}
	turned, turning := 0, map[int]bool{}
	for _, call := range r.calls {
		ok := false
		for i, v := range all {
			if turns(call, v) {
				ok, turning[i] = true, true
			}
		}
		if len(all) == 0 {
			switch v := r.values[call].(type) {
			case expr.Number:
				near := []float64{4 * v.X, v.X / 4}
				for _, other := range r.values {
					if x, is := other.(expr.Number); is && x != v && (len(borders(t, c)) == 0 || x.X < 10*v.X && v.X < 10*x.X) {
						near = append(near, 0.99*x.X, 1.01*x.X)
					}
				}
				ok = slices.ContainsFunc(near, func(x float64) bool { return turns(call, expr.Exact(x)) })
			case expr.Truth:
				ok = turns(call, -v)
			case string:
				ok = turns(call, "another text")
			}
		}
		switch {
		case ok:
			turned++
		case now.Verdict == yes:
			return fmt.Errorf("whatever is read by %s = %v: it %s", call, r.values[call], now.Verdict)
		}
	}
	if turned == 0 {
		return fmt.Errorf("nothing turns %s", now.Verdict)
	}
	if len(turning) < len(all) {
		return fmt.Errorf("not each of %v turns %s", c.FalsifiedBy, now.Verdict)
	}
	return nil
}

// rangeFalsified shows that records could take a paper's figure out of the span of ours, and put it
// there.
func rangeFalsified(t *testing.T, c Claim, tables tablesOf) error {
	now, r, err := outcome(t, c, tables, nil)
	if err != nil || now.Over == nil {
		return fmt.Errorf("no span: %s, %w", now.Why, err)
	}
	paper, _ := readPrinted(c.Paper, c.Unit)
	figure := c
	figure.over = ""
	_, own, err := outcome(t, figure, tables, nil)
	if err != nil {
		return err
	}
	far := map[string]any{} // the figure itself, out of its tolerance
	for i, call := range own.calls {
		far[call] = expr.Exact(map[bool]float64{true: 1000, false: 1}[i == 0] * r.values[call].(expr.Number).X)
	}
	for _, low := range []float64{0.9, 1.1} {
		moved, n := maps.Clone(far), 0
		for _, call := range r.calls {
			if _, is := far[call]; !is {
				moved[call] = expr.Exact(paper.value * (low + 0.2*float64(n)))
				n++
			}
		}
		then, _, err := outcome(t, c, tables, moved)
		if want := map[bool]Verdict{true: Unstated, false: Differs}[low < 1]; err != nil || n == 0 || then.Verdict != want {
			return fmt.Errorf("a span from %g times the paper's figure (%d calls): %s, %v, want %s", low, n, then.Verdict, err, want)
		}
	}
	return nil
}

// upheld reports whether what is there refutes a claim, and a value beside a border of its
// check would not. A claim's falsified_by says only what refutes it.
func upheld(t *testing.T, c Claim, tables tablesOf) bool {
	c.Shows = nil
	now, r, err := outcome(t, c, tables, nil)
	yes, _, no := c.Kind.outcomes()
	if err != nil || now.Verdict != no {
		return false
	}
	for _, s := range borders(t, c) {
		border, _ := strconv.ParseFloat(c.check[s[0]:s[1]], 64)
		for _, call := range r.calls {
			for _, x := range []float64{0.99 * border, 1.01 * border} {
				if then, _, err := outcome(t, c, tables, map[string]any{call: expr.Exact(x)}); err == nil && then.Verdict == yes {
					return true
				}
			}
		}
	}
	return false
}

// figureFalsified moves what is read so that the figure is the paper's, and that it is
// off by what the tolerance must refuse.
func figureFalsified(t *testing.T, c Claim, tables tablesOf, now Judgement, r *reading) error {
	paper, _ := readPrinted(c.Paper, c.Unit)
	reach, ok := refused[c.Tolerance]
	if c.Tolerance == "digits" {
		reach, ok = 300*paper.half/paper.value, true
	}
	if !ok {
		return fmt.Errorf("nothing says what the tolerance %s must refuse", c.Tolerance)
	}
	yes, _, no := c.Kind.outcomes()
	for off, want := range map[float64]Verdict{0: yes, 1: no, -1: no} {
		target, hit := paper.value*(1+off*reach/100), false
		if c.tolerance.Gain {
			target = 1 + (paper.value-1)*(1+off*reach/100)
		}
		for _, moving := range [][]string{r.calls[:1], r.calls} { // the figure is linear in the first, or in all
			at := func(factor float64) (Judgement, float64) {
				moved := map[string]any{}
				for _, call := range moving {
					moved[call] = expr.Exact(factor * r.values[call].(expr.Number).X)
				}
				then, _, err := outcome(t, c, tables, moved)
				if err != nil || then.Figure == nil {
					return then, math.NaN()
				}
				return then, then.Figure.Value
			}
			_, one := at(1)
			_, two := at(2)
			then, value := at(1 + (target-one)/(two-one))
			if math.Abs(value/target-1) < 1e-6 {
				hit = true
				if then.Verdict != want {
					return fmt.Errorf("%v for the paper's %s: %s, want %s", value, c.Paper, then.Verdict, want)
				}
				break
			}
		}
		if !hit {
			return fmt.Errorf("what it reads cannot give %v", target)
		}
	}
	return nil
}

// borders returns where the numbers stand in a claim's check that are not what it reads.
func borders(t *testing.T, c Claim) (spans [][2]int) {
	x := testkit.Must(parser.ParseExpr(c.check))(t)
	ast.Inspect(x, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			return slices.Contains([]string{"abs", "min", "max", "rising", "span"}, n.Fun.(*ast.Ident).Name)
		case *ast.BasicLit:
			if n.Kind != token.STRING {
				spans = append(spans, [2]int{int(n.Pos()) - 1, int(n.End()) - 1})
			}
		}
		return true
	})
	return spans
}

// referenceTables are the tables of the committed reference. Of what is timed and has no
// reference yet, they are of devices on which an example takes the same time in every run.
func referenceTables(t *testing.T) tablesOf {
	t.Helper()
	quick := Committed(t, QuickDir)
	tables := quick.tables()
	for _, x := range quick.dirs[0].all {
		e := x.Of
		if x.State != "none" {
			continue
		}
		var log *records.Log
		if e, ok := e.(timed.Experiment); ok {
			log = evenSteps(t, e)
		}
		if log == nil {
			continue
		}
		report := testkit.Must(e.Report(log, nil))(t)
		for _, table := range report.Tables {
			tables[table.ID] = claimTable{table, x.Experiment, "quick", log.Cost()}
		}
	}
	return tables
}

// evenSteps are steps of devices on which an example takes the same time in every run.
// Nil: the experiment's rounds are not of steps.
func evenSteps(t *testing.T, e timed.Experiment) *records.Log {
	repeated := testkit.Must(e.Repeated("quick"))(t)
	steps, ok := repeated.(*timed.Rounds)
	if !ok {
		return nil
	}
	log := records.New(e.Key("quick"))
	timedtest.FillRounds(t, log, steps, 1<<20, func(run *timed.Run, _ int) float64 { return float64(run.Training.Batch) })
	return log
}

// fallible reports whether a claim's check says anything that records could refute: all that is
// judged but arithmetic on the paper's own figures, and what a design judges, which has no check: see
// TestDesignedClaimsCanTurn.
func (c *Claim) fallible() bool {
	return c.Kind.judged() && c.Design == "" && !(c.Kind == Derived && c.Basis == Arithmetic)
}

// Every claim but what is derived has a table that refutes it; or, if it is refuted now,
// one that would not.
func TestClaimsCanBeFalsified(t *testing.T) {
	testkit.CI(t)
	ledger := allClaims(t)
	tables, tried := referenceTables(t), 0
	for _, c := range ledger {
		if !c.fallible() {
			continue
		}
		tried++
		if err := falsified(t, c, tables); err != nil && !upheld(t, c, tables) {
			t.Errorf("%s/claims.yaml:%d: %s: %v", c.Ledger, c.line, c.ID, err)
		}
	}
	t.Logf("%d claims", tried)
}

// The tests that hold properties of the program are there.
func TestTestedClaimsNameTests(t *testing.T) {
	ledger := allClaims(t)
	form := regexp.MustCompile(`^go test \./([a-z/]+) -run ([A-Za-z0-9|]+)$`)
	for _, c := range ledger {
		if c.Kind != Tested {
			continue
		}
		m := form.FindStringSubmatch(c.Command)
		if m == nil {
			t.Errorf("%s: %s", c.ID, c.Command)
			continue
		}
		var all strings.Builder
		for _, name := range testkit.Must(filepath.Glob(filepath.Join("..", "..", m[1], "*_test.go")))(t) {
			all.Write(testkit.Must(os.ReadFile(name))(t))
		}
		for name := range strings.SplitSeq(m[2], "|") {
			testkit.Has(t, all.String(), "\nfunc "+name+"(")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		if !slices.ContainsFunc(ledger, func(c Claim) bool { return c.Tolerance == name }) {
			t.Errorf("no tolerance %s", name)
		}
	}
}
