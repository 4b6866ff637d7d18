package claims

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"gpipebench/experiments/suite"
	"gpipebench/experiments/suite/suitetest"
	"gpipebench/internal/stats"
)

func TestLedger(t *testing.T) {
	l, err := loadLedger()
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Claims) < 100 {
		t.Errorf("%d claims", len(l.Claims))
	}
	// Every cell of Table 2 that is not 1 by definition, once.
	cells := 0
	for _, c := range l.Claims {
		if strings.HasPrefix(c.ID, "table2-amoebanet-K") || strings.HasPrefix(c.ID, "table2-transformer-K") {
			cells++
		}
		if c.Command != "" && !strings.HasPrefix(c.Command, "gpipebench ") {
			t.Errorf("%s: command %q", c.ID, c.Command)
		}
		if strings.ContainsAny(c.Paper+c.Claim+c.Where+c.Version, "{}") {
			t.Errorf("%s: %s", c.ID, c.Claim)
		}
	}
	if cells != 16 {
		t.Errorf("%d cells of Table 2", cells)
	}
}

const goodLedger = `versions: {N: the paper}
claims:
  - id: a
    version: N
    where: Table 1
    claim: "what {x} is"
    kind: ratio
    paper: "{x}"
    tolerance: 10
    values: {measured: 'cell("t", "v", "k", {x})'}
    each:
      - {x: 1}
`

func TestLedgerErrorsHavePositions(t *testing.T) {
	for _, c := range []struct{ old, replacement, want string }{
		{"kind: ratio", "kind: guess", `claims.yaml:7:11: claims.0.kind: "guess": want exact, ratio, trend`},
		{"tolerance: 10", "tolerence: 10", "claims.yaml:9:5: claims.0: unknown field tolerence: want id, version, where, claim, paper, kind, tolerance, values, holds"},
		{"tolerance: 10", "tolerance: 0", "claims.yaml:9:5: claims.0.tolerance: want a number of percent"},
		{"version: N", "version: M", `claims.yaml:4:5: claims.0.version: unknown version "M": want N`},
		{`'cell("t",`, `'cel("t",`, "claims.yaml:10:5: claims.0.values: measured: cel is no function: want abs, activations, cell"},
		{`"k", {x})'`, `"k", {y})'`, "claims.yaml:10:5: claims.0.values: measured:"},
		{"what {x} is", "what {y} is", "claims.yaml:6:5: claims.0.claim"},
		{"- {x: 1}", "- {x: one}", "claims.yaml:8:5: claims.0.paper"},
		{"- {x: 1}", "- {x: 1}\n      - {x: 1}", "claims.yaml:13:9: claims.0.each.1: this entry is there already, as entry 0: want each once"},
		{"kind: ratio", "kind: trend", "claims.yaml:3:5: claims.0.holds: want an expression"},
		{"kind: ratio", "kind: not here", "claims.yaml:3:5: claims.0.reason: want a reason"},
		{"tolerance: 10", "tolerance: 10\n    noisy: 1 < 2", "claims.yaml:10:5: claims.0.noisy: only claims of kind ours"},
		{"kind: ratio", "kind: ours\n    holds: 1 < 2\n    noisy: none()", "claims.yaml:9:5: claims.0.noisy: none is no function"},
	} {
		text := strings.Replace(goodLedger, c.old, c.replacement, 1)
		if text == goodLedger {
			t.Fatalf("no %q", c.old)
		}
		_, err := parseLedger("claims.yaml", []byte(text))
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v\nwant %s", c.replacement, err, c.want)
		}
	}
	if _, err := parseLedger("claims.yaml", []byte(goodLedger)); err != nil {
		t.Error(err)
	}
}

func claimTables() tablesOf {
	a := &suite.Table{ID: "a"}
	a.Texts("network")
	a.Numbers("K", "speed", "95%", "memory")
	a.Texts("equal")
	a.Add("small", 2, suite.Ratio(stats.Ratio{Median: 1.5, Lo: 1.4, Hi: 1.6, Known: true}, false), suite.Bytes(3<<29), "yes")
	a.Add("small", 4, suite.Ratio(stats.Ratio{Median: 2.7}, false), suite.Joined("(%v of %v)", suite.Figure("81,505.5"), 7), "yes")
	a.Add("large", 4, suite.Percent(0.405, 1), suite.Interval(suite.Difference(-1, 0), suite.Difference(2.5, 1)), suite.Seconds(0.9), "no")
	return tablesOf{"a": {a, false}, "small": {a, true}}
}

// TestFormatsDoNotMatter: a claim reads the value, however a report prints it.
func TestFormatsDoNotMatter(t *testing.T) {
	third := stats.Ratio{Median: 1. / 3, Lo: 0.3333, Hi: 0.3334, Known: true}
	for _, digits := range []int{0, 2, 9} {
		table := &suite.Table{ID: "a"}
		table.Numbers("K", "speed", "95%", "share")
		table.Add(suite.Fixed(2, digits), suite.Joined("about %v", suite.Fixed(third.Median, digits)), suite.Interval(suite.Fixed(third.Lo, digits), suite.Fixed(third.Hi, digits)), suite.Percent(third.Median, digits))
		e := newEvaluator(context.Background(), tablesOf{"a": {table, false}})
		for text, want := range map[string]float64{
			`cell("a", "speed", "K", 2)`: third.Median, `low("a", "95%", "K", 2)`: third.Lo, `high("a", "95%", "K", 2)`: third.Hi, `cell("a", "share", "K", 2)`: 100 * third.Median,
		} {
			if got, err := e.Number(text); err != nil || got != want {
				t.Errorf("%d digits: %s is %v, %v; want %v", digits, text, got, err, want)
			}
		}
	}
}

func TestExpressions(t *testing.T) {
	for _, c := range []struct {
		text string
		want any
	}{
		{`cell("a", "speed", "K", 2)`, 1.5},
		{`cell("a", "speed", "network", "small", "K", 4) / cell("a", "speed", "K", 2)`, 2.7 / 1.5},
		{`cell("a", "speed", "network", "large")`, 40.5},
		{`cell("a", "memory", "K", 2)`, 1.5 * (1 << 30)},
		{`cell("a", "memory", "network", "small", "K", 4)`, 81505.5},
		{`cell("a", "memory", "network", "large")`, 0.9},
		{`low("a", "95%", "K", 2) + high("a", "95%", "network", "large")`, 3.9},
		{`low("a", "speed", "K", 2) == low("a", "95%", "K", 2)`, true},
		{`nth(1, "a", "memory", "network", "small", "K", 4) * nth(2, "a", "memory", "network", "small", "K", "4")`, 81505.5 * 7},
		{`text("a", "95%", "network", "small", "K", 4) == "-"`, true},
		{`every("a", "equal", "yes")`, false},
		{`every("a", "equal", "yes", "no")`, true},
		{`rising(1, 2, 3) && !rising(1, 1)`, true},
		{`rising(2, 1) || 3 <= 3`, true},
		{`abs(-2) + min(3, 1) * max(1, 4) - 7.0/2`, 2.5},
		{`params("{name: transformer-lm, layers: 1663, dim: 2048, ff: 8192, heads: 32, vocab: 32000, seq: 1024}")`, 83876910336.0},
		{`params("{name: amoebanetd, layers: 18, filters: 208}")`, 81505540.0},
		// (2+1-1)*3 + 2 - ... : M = 1, K = 2: (f+b)*2 + r with f, r, b = 1/2, 1/2, 1.
		{`even(2, 1)`, 3.5},
	} {
		if err := checkExpression(c.text); err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		e := newEvaluator(context.Background(), claimTables())
		if got, err := e.Evaluate(c.text); err != nil || got != c.want {
			t.Errorf("%s is %v, %v; want %v", c.text, got, err, c.want)
		}
	}
	for _, text := range []string{
		`cell("b", "speed")`, `cell("a", "sped", "K", 2)`, `cell("a", "speed", "K", 4)`, `cell("a", "speed", "K", 3)`, `cell("a", "network", "K", 2)`, `low("a", "95%", "network", "small", "K", 4)`, `nth(3, "a", "memory", "network", "small", "K", 4)`,
	} {
		var missing *missingEvidence
		if _, err := newEvaluator(context.Background(), claimTables()).Evaluate(text); !errors.As(err, &missing) {
			t.Errorf("%s: %v, want missing evidence", text, err)
		}
	}
	for _, text := range []string{`1 + "a"`, `!1`, `1 && 2`, `even(1)`, `rising("a", "b")`, `params("{name: none}")`, `cell("a", "speed", "K")`, `nth(0, "a", "speed", "K", 2)`, `nth("a", "speed", "K", 2)`} {
		var missing *missingEvidence
		if v, err := newEvaluator(context.Background(), claimTables()).Evaluate(text); err == nil || errors.As(err, &missing) {
			t.Errorf("%s is %v, %v; want an error", text, v, err)
		}
	}
	for _, text := range []string{`1 +`, `os.Exit(1)`, `func() {}()`, `cell[1]`, `nothing(1)`, ""} {
		if err := checkExpression(text); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
}

func FuzzExpression(f *testing.F) {
	for _, text := range []string{`cell("a", "speed", "K", 2) > 1`, `rising(1, 2)`, `-1/0`, `(("a"))`, `params("{")`, `every("a", "equal", "yes")`, "`a`"} {
		f.Add(text)
	}
	tables := claimTables()
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "params") || strings.Contains(text, "activations") || strings.Contains(text, "even") {
			return // as large as is asked for
		}
		if checkExpression(text) == nil {
			_, _ = newEvaluator(context.Background(), tables).Evaluate(text)
		}
	})
}

func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		claim Claim
		want  Verdict
	}{
		{Claim{Kind: Exact, Paper: "1.5", Values: evidences{{"v", `cell("a", "speed", "K", 2)`}}}, Reproduced},
		{Claim{Kind: Exact, Paper: "1.6", Values: evidences{{"v", `cell("a", "speed", "K", 2)`}}}, Fails},
		{Claim{Kind: Exact, Paper: "1.6", Tolerance: 7, Values: evidences{{"v", `cell("a", "speed", "K", 2)`}}}, Reproduced},
		{Claim{Kind: Exact, Paper: "82M", Values: evidences{{"v", "81505540"}}}, Reproduced},
		{Claim{Kind: Exact, Paper: "82M", Values: evidences{{"v", "81499999"}}}, Fails},
		{Claim{Kind: Exact, Holds: "1 < 2"}, Reproduced},
		{Claim{Kind: Exact, Holds: "2 < 1"}, Fails},
		{Claim{Kind: Exact, Holds: `every("none", "equal", "yes")`}, NoRecord},
		{Claim{Kind: Ratio, Paper: "1.6", Tolerance: 10, Values: evidences{{"v", "1.5"}, {"w", "1.7"}}}, Reproduced},
		{Claim{Kind: Ratio, Paper: "1.6", Tolerance: 10, Values: evidences{{"v", "1.5"}, {"w", "2"}}}, Partly},
		{Claim{Kind: Ratio, Paper: "1.6", Tolerance: 10, Values: evidences{{"v", "1"}, {"w", "2"}}}, Differs},
		{Claim{Kind: Ratio, Paper: "1.6", Tolerance: 10, Values: evidences{{"v", "1.6"}, {"w", `cell("b", "x")`}}}, Reproduced},
		{Claim{Kind: Ratio, Paper: "1.6", Tolerance: 10, Values: evidences{{"w", `cell("b", "x")`}}}, NoRecord},
		{Claim{Kind: Trend, Holds: "1 < 2"}, Holds},
		{Claim{Kind: Trend, Holds: "2 < 1"}, Fails},
		{Claim{Kind: Trend, Holds: `cell("a", "speed", "K", 2) < 1`}, Fails},
		{Claim{Kind: Trend, Holds: `cell("small", "speed", "K", 2) < 1`}, TooSmall},
		{Claim{Kind: Ours, Holds: `every("a", "equal", "yes", "no")`, Noisy: `every("a", "equal", "yes", "noisy")`}, Holds},
		{Claim{Kind: Ours, Holds: `every("a", "equal", "yes")`, Noisy: `every("a", "equal", "yes", "no")`}, Noisy},
		{Claim{Kind: Ours, Holds: `every("a", "equal", "yes")`, Noisy: `every("a", "equal", "yes", "noisy")`}, Fails},
		{Claim{Kind: Ours, Holds: `every("none", "equal", "yes")`, Noisy: `every("none", "equal", "yes")`}, NoRecord},
		{Claim{Kind: Ours, Holds: `cell("small", "speed", "K", 2) < 1`, Noisy: "1 < 2"}, TooSmall},
		{Claim{Kind: Exact, Holds: `every("small", "equal", "yes")`}, Fails},
		{Claim{Kind: Contradiction, Paper: "25", Values: evidences{{"v", "22"}}, Holds: "22 < 25"}, Shown},
		{Claim{Kind: Contradiction, Paper: "25", Holds: "25 < 22"}, Fails},
		{Claim{Kind: NotHere, Reason: "no", Values: evidences{{"v", `text("b", "x")`}}}, NotAttempted},
	} {
		got, err := c.claim.judge(context.Background(), claimTables())
		if err != nil || got.Verdict != c.want {
			t.Errorf("%+v: %s, %v", c.claim, got.Verdict, err)
		}
	}
}

// What is committed as the reference holds what it has records of.
func TestReferenceClaims(t *testing.T) {
	suitetest.RendersReference(t)
	dir := filepath.Join("..", "..", "results", "reference")
	v, err := Verifying{Results: dir}.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range v.Claims {
		if c.Verdict == Fails {
			t.Errorf("%s fails: %s", c.ID, c.here())
		}
	}
	t.Logf("%v", v.Counts)
}
