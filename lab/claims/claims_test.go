package claims

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"gpipebench/experiments"
	"gpipebench/internal/expr"
	"gpipebench/internal/stats"
	"gpipebench/internal/testkit"
	"gpipebench/lab"
	"gpipebench/lab/records"
)

// allClaims are all papers' claims.
func allClaims(t *testing.T) []Claim {
	t.Helper()
	ledgers := testkit.Must(loadLedgers(experiments.Papers))(t)
	return claimsOf(ledgers)
}

func TestLedger(t *testing.T) {
	all := allClaims(t)
	if len(all) < 100 {
		t.Errorf("%d claims", len(all))
	}
	// Every cell of Table 2 that is not 1 by definition, once.
	cells := 0
	for _, c := range all {
		if strings.HasPrefix(c.ID, "table2-amoebanet-K") || strings.HasPrefix(c.ID, "table2-transformer-K") {
			cells++
		}
		if c.Command != "" && !strings.HasPrefix(c.Command, "gpipebench ") && c.Kind != Tested {
			t.Errorf("%s: command %q", c.ID, c.Command)
		}
		if strings.ContainsAny(c.Paper+c.Claim+c.Where+c.Version, "{}") {
			t.Errorf("%s: %s", c.ID, c.Claim)
		}
		if c.Ledger == "" {
			t.Errorf("%s is of no paper", c.ID)
		}
		if c.Ledger == "gpipe" && c.Kind == Extension && c.Version != "here" {
			t.Errorf("%s: an extension, and of version %s, which does not say it", c.ID, c.Version)
		}
	}
	testkit.Equal(t, cells, 2*17, "cells of Table 2, modelled and measured, and K = 8 over K = 2 of AmoebaNet")
}

const goodLedger = `versions: {N: the paper}
tolerances: {near: {percent: 10, because: a reason}}
claims:
  - id: a
    version: N
    where: Table 1
    claim: "what {x} is"
    kind: ratio
    paper: "{x}"
    tolerance: near
    check: {measured: 'cell("t", "v", "k", {x})'}
    each:
      - {x: 2}
`

func TestLedgerErrorsHavePositions(t *testing.T) {
	for _, c := range []struct{ old, replacement, want string }{
		{"kind: ratio", "kind: guess", `claims.yaml:8:11: claims.0.kind: "guess": want count, ratio, trend, stand-in`},
		{"tolerance: near", "tolerence: near", "claims.yaml:10:5: claims.0: unknown field tolerence: want id, version, where, claim, paper, reading, unit, kind, tolerance, design, check"},
		{"tolerance: near", "tolerance: far", `claims.yaml:10:5: claims.0.tolerance: "far": want one of the ledger's tolerances: near`},
		{"tolerance: near", "note: near", "claims.yaml:4:5: claims.0.tolerance: want one of the ledger's tolerances: near"},
		{"percent: 10", "percent: 0.5, more: 1", "claims.yaml:2:35: tolerances.near: unknown field more"},
		{"{near: ", "{other: {because: none}, near: ", "claims.yaml:2:14: tolerances.other: no claim has this tolerance"},
		{"version: N", "version: M", `claims.yaml:5:5: claims.0.version: unknown version "M": want N`},
		{`'cell("t",`, `'cel("t",`, "claims.yaml:11:5: claims.0.check: measured: cel is no function: want abs, cell"},
		{`"k", {x})'`, `"k", {y})'`, "claims.yaml:11:5: claims.0.check: measured:"},
		{"{measured: ", "{guessed: ", `claims.yaml:11:5: claims.0.check: "guessed": want the basis of the evidence: measured, modelled, counted, arithmetic`},
		{"what {x} is", "what {y} is", "claims.yaml:7:5: claims.0.claim"},
		{"- {x: 2}", `- {x: '"one"'}`, "claims.yaml:9:5: claims.0.paper"},
		{"- {x: 2}", "- {x: 2}\n      - {x: 2}", "claims.yaml:14:9: claims.0.each.1: this entry is there already, as entry 0: want each once"},
		{"- {x: 2}", "- {x: 2}\n      - {x: 3}", "claims.yaml:4:5: claims.0.id: a is there twice"},
		{"check: {measured:", "shows: {measured:", "claims.yaml:4:5: claims.0.check: want an expression"},
		{"kind: ratio", "kind: not here", "claims.yaml:11:5: claims.0.check: not here is not judged"},
		{"kind: ratio", "kind: stand-in", "claims.yaml:4:5: claims.0.stand_in: want what stands in"},
		{"tolerance: near\n", "tolerance: near\n    design: some\n", `claims.yaml:11:5: claims.0.design: "some": want EXPERIMENT/PRIMARY`},
		{"tolerance: near\n", "tolerance: near\n    design: some/one\n", "claims.yaml:11:5: claims.0.design: want a stand-in or an extension without check"},
		{"check: {measured: 'cell(\"t\", \"v\", \"k\", {x})'}", "kind: not yet", "claims.yaml:11:5: claims.0"},
		{"- {x: 2}", "- {x: 1.05}", "claims.yaml:10:5: claims.0.tolerance: near: 1, no effect, is within it of 1.05: want one of the gain (each 1)"},
		{"tolerance: near", "tolerance: near\n    unstated: {what: M, range: {modelled: 'span(1, 2)'}}", `claims.yaml:11:5: claims.0.unstated: "modelled": want a basis of the check, of a ratio`},
	} {
		text := strings.Replace(goodLedger, c.old, c.replacement, 1)
		if text == goodLedger {
			t.Fatalf("no %q", c.old)
		}
		_, err := parseLedger("claims.yaml", []byte(text))
		testkit.FailsFirst(t, err, c.want)
	}
	testkit.Must(parseLedger("claims.yaml", []byte(goodLedger)))(t)
}

// A claim on two bases is two claims.
func TestClaimsByBasis(t *testing.T) {
	l := testkit.Must(parseLedger("claims.yaml", []byte(strings.Replace(goodLedger, "check: {", "check: {modelled: 3 / 2, ", 1))))(t)
	if len(l.Claims) != 2 || l.Claims[0].ID != "a-modelled" || l.Claims[1].ID != "a-measured" || l.Claims[0].Basis != Modelled || l.Claims[0].check != "3 / 2" {
		t.Fatalf("%+v", l)
	}
}

// A figure of the paper is read, and ours printed, in its own unit.
func TestPrinted(t *testing.T) {
	for _, c := range []struct {
		text, unit  string
		value, half float64
		ours        string
	}{
		{"82M", "", 82e6, 0.5e6, "164M"}, {"1.05GB", "", 1.05e9, 0.005e9, "2.1GB"}, {"8.8G", "GiB", 8.8 * (1 << 30), 0.05 * (1 << 30), "17.6G"}, {"65.6%", "", 65.6, 0.05, "131.2%"}, {"25", "", 25, 0.5, "50"},
	} {
		p, ok := readPrinted(c.text, c.unit)
		if !ok || math.Abs(p.value/c.value-1) > 1e-12 || math.Abs(p.half/c.half-1) > 1e-12 || p.print(2*p.value) != c.ours {
			t.Errorf("%s %s: %+v, %v, twice it %s", c.text, c.unit, p, ok, p.print(2*p.value))
		}
	}
	if _, ok := readPrinted("some", ""); ok {
		t.Error("a text is a figure")
	}
}

func claimTables() tablesOf {
	a := &lab.Table{ID: "a"}
	a.Texts("network")
	a.Numbers("K", "speed", "95%", "memory")
	a.Texts("equal")
	a.Add("small", 2, lab.Ratio(stats.Ratio{Median: 1.5, Lo: 1.4, Hi: 1.6, Known: true}, false), lab.Bytes(3<<29), "yes")
	a.Add("small", 4, lab.Ratio(stats.Ratio{Median: 2.7}, false), lab.Joined("(%v of %v)", lab.Figure("81,505.5"), 7), "yes")
	a.Add("large", 4, lab.Percent(0.405, 1), lab.Interval(lab.Difference(-1, 0), lab.Difference(2.5, 1)), lab.Seconds(0.9), "no")
	a.Add("noisy", 8, "-", "-", lab.Joined("%v of %v", 1, 3), "noisy")
	return tablesOf{"a": {a, "x", "quick", records.Cost{Seconds: 7, Bytes: 5}}, "small": {a, "y", "smoke", records.Cost{}}}
}

// TestFormatsDoNotMatter: a claim reads the value, however a report prints it.
func TestFormatsDoNotMatter(t *testing.T) {
	third := stats.Ratio{Median: 1. / 3, Lo: 0.3333, Hi: 0.3334, Known: true}
	for _, digits := range []int{0, 2, 9} {
		table := &lab.Table{ID: "a"}
		table.Numbers("K", "speed", "95%", "share")
		table.Add(lab.Fixed(2, digits), lab.Joined("about %v", lab.Fixed(third.Median, digits)), lab.Interval(lab.Fixed(third.Lo, digits), lab.Fixed(third.Hi, digits)), lab.Percent(third.Median, digits))
		e := newEvaluator(tablesOf{"a": {table, "x", "quick", records.Cost{}}})
		for text, want := range map[string]float64{
			`cell("a", "speed", "K", 2)`: third.Median, `low("a", "95%", "K", 2)`: third.Lo, `high("a", "95%", "K", 2)`: third.Hi, `cell("a", "share", "K", 2)`: 100 * third.Median,
		} {
			testkit.Equal(t, testkit.Must(e.Number(text))(t).X, want, "%d digits: %s", digits, text)
		}
	}
}

func TestExpressions(t *testing.T) {
	for _, c := range []struct {
		text string
		want any
	}{
		{`cell("a", "speed", "K", 2)`, expr.Number{X: 1.5, Lo: 1.4, Hi: 1.6}},
		{`cell("a", "speed", "network", "small", "K", 4)`, expr.Exact(2.7)},
		{`cell("a", "speed", "network", "large")`, expr.Exact(40.5)},
		{`cell("a", "memory", "K", 2)`, expr.Exact(1.5 * (1 << 30))},
		{`cell("a", "memory", "network", "small", "K", 4)`, expr.Exact(81505.5)},
		{`cell("a", "memory", "network", "large")`, expr.Exact(0.9)},
		{`low("a", "95%", "K", 2) + high("a", "95%", "network", "large")`, expr.Exact(3.9)},
		{`low("a", "speed", "K", 2) == low("a", "95%", "K", 2)`, expr.Yes},
		{`nth(1, "a", "memory", "network", "small", "K", 4) * nth(2, "a", "memory", "network", "small", "K", "4")`, expr.Exact(81505.5 * 7)},
		{`text("a", "95%", "network", "small", "K", 4) == "-"`, expr.Yes},
		{`cell("a", "speed", "K", 2) > 1.3`, expr.Yes},
		{`cell("a", "speed", "K", 2) > 1.5`, expr.Undecided},
		{`cell("a", "speed", "K", 2) > 1.7`, expr.No},
		{`every("a", "equal", "yes")`, expr.No},
		{`every("a", "equal", "yes", "no")`, expr.Undecided},
		{`every("a", "equal", "yes", "no", "noisy")`, expr.Yes},
		{`rising(1, 2, 3) && !rising(1, 1)`, expr.Yes},
		{`abs(-2) + min(3, 1) * max(1, 4) - 7.0/2`, expr.Exact(2.5)},
	} {
		testkit.NoError(t, checkExpression(c.text), "%s", c.text)
		testkit.Equal(t, testkit.Must(newEvaluator(claimTables()).Evaluate(c.text))(t), c.want, "%s", c.text)
	}
	for _, text := range []string{
		`cell("b", "speed")`, `cell("a", "sped", "K", 2)`, `cell("a", "speed", "K", 4)`, `cell("a", "speed", "K", 3)`, `cell("a", "network", "K", 2)`, `low("a", "95%", "network", "small", "K", 4)`, `nth(3, "a", "memory", "network", "small", "K", 4)`,
	} {
		var missing *lab.NoCell
		if _, err := newEvaluator(claimTables()).Evaluate(text); !errors.As(err, &missing) {
			t.Errorf("%s: %v, want missing evidence", text, err)
		}
	}
	for _, text := range []string{`1 + "a"`, `!1`, `1 && 2`, `rising("a", "b")`, `cell("a", "speed", "K")`, `nth(0, "a", "speed", "K", 2)`, `nth("a", "speed", "K", 2)`} {
		var missing *lab.NoCell
		if v, err := newEvaluator(claimTables()).Evaluate(text); err == nil || errors.As(err, &missing) {
			t.Errorf("%s is %v, %v; want an error", text, v, err)
		}
	}
	for _, text := range []string{`1 +`, `os.Exit(1)`, `func() {}()`, `cell[1]`, `nothing(1)`, ""} {
		testkit.Fails(t, checkExpression(text))
	}
}

// Evidence is words and numbers with names, one text for each row that is read.
func TestEvidence(t *testing.T) {
	tables := claimTables()
	b := &lab.Table{ID: "b"}
	b.Numbers("K", "modelled, filled")
	b.Add(2, lab.Starred(lab.Fixed(6.37, 2), false))
	tables["b"] = claimTable{b, "z", "quick", records.Cost{}}
	for _, c := range []struct {
		text string
		want []string
	}{
		{`cell("a", "speed", "K", 2) < cell("a", "memory", "K", 2)`, []string{"K = 2: 1.50 speed, 1.50 GiB memory"}},
		{`cell("a", "speed", "network", "small", "K", 2) < cell("a", "speed", "network", "small", "K", 4)`, []string{"small, K = 2: 1.50 speed", "small, K = 4: 2.70 speed"}},
		{`text("a", "equal", "network", "large") == "no"`, []string{"large: equal no"}},
		{`every("a", "equal", "yes")`, []string{"large: equal no"}},
		{`every("a", "equal", "yes", "no", "noisy")`, []string{"all 4 rows: equal yes or no or noisy"}},
		{`cell("a", "speed", "K", 2) < cell("b", "modelled, filled", "K", 2)`, []string{"a, K = 2: 1.50 speed", "b, K = 2: 6.37 * (modelled, filled)"}},
	} {
		e := newEvaluator(tables)
		testkit.Must(e.Evaluate(c.text))(t, "%s", c.text)
		testkit.EqualAll(t, e.reads.texts(), c.want, "%s", c.text)
	}
	// A figure that rests on a step without room is marked.
	c := Claim{Kind: Ratio, Paper: "6.3", check: `cell("b", "modelled, filled", "K", 2)`, tolerance: &Tolerance{Percent: 5}}
	got := testkit.Must(c.judge(newEvaluator(tables)))(t)
	testkit.Equal(t, got.here(), "6.37 * (+1.11%)")
	testkit.Equal(t, got.Verdict, Reproduced)
	got.Within.Name, got.Within.Gain = "gain", true
	v := &Verification{Claims: []Judgement{got}}
	testkit.Equal(t, v.Tables()[1].Rows[0][1].Text, "5% of the difference from 1")
	testkit.Has(t, strings.Join(v.Tables()[0].Notes, " "), "An asterisk:")
}

func FuzzExpression(f *testing.F) {
	for _, text := range []string{`cell("a", "speed", "K", 2) > 1`, `rising(1, 2)`, `-1/0`, `(("a"))`, `every("a", "equal", "yes")`, "`a`"} {
		f.Add(text)
	}
	tables := claimTables()
	f.Fuzz(func(t *testing.T, text string) {
		if checkExpression(text) == nil {
			_, _ = newEvaluator(tables).Evaluate(text)
		}
	})
}

func TestVerdicts(t *testing.T) {
	ratio := func(paper string, percent float64, check string) Claim {
		return Claim{Kind: Ratio, Paper: paper, check: check, tolerance: &Tolerance{Percent: percent}}
	}
	count := func(paper, check string) Claim {
		return Claim{Kind: Count, Paper: paper, check: check, tolerance: &Tolerance{}}
	}
	of := func(k Kind, check string) Claim { return Claim{Kind: k, check: check} }
	const speed = `cell("a", "speed", "K", 2)` // 1.5 [1.4, 1.6]
	open := func(paper, over string) Claim {
		c := ratio(paper, 5, speed)
		c.over, c.Unstated = over, &Open{What: "M"}
		return c
	}
	gain := func(paper string, percent float64, check string) Claim {
		c := ratio(paper, percent, check)
		c.tolerance.Gain = true
		return c
	}
	for _, c := range []struct {
		claim Claim
		want  Verdict
	}{
		{count("82M", "81505540"), Reproduced},
		{count("82M", "81499999"), Fails},
		{count("1.5", speed), NotDecided},
		{of(Count, "1 < 2"), Reproduced},
		{of(Count, "2 < 1"), Fails},
		{of(Count, `every("none", "equal", "yes")`), NoRecord},
		{of(Count, `every("small", "equal", "yes")`), Fails},
		{ratio("1.6", 13, speed), Reproduced},
		{ratio("1.6", 12, speed), NotDecided},
		{ratio("1.6", 0.1, speed), NotDecided},
		{ratio("1.7", 5, speed), Differs},
		{ratio("1.3", 5, speed), Differs},
		{ratio("1.6", 10, "1.75"), Reproduced},
		{ratio("1.6", 10, "1.77"), Differs},
		{ratio("-1", 10, "-1.05"), Reproduced},
		{ratio("1.6", 10, `cell("b", "x")`), NoRecord},
		{open("1.3", "span(1.2, 1.4)"), Unstated},
		{open("1.3", "span(1.36, 1.4)"), Differs},
		{open("1.3", "span(1.1, 1.2)"), Differs},
		{open("1.5", "span(2, 3)"), NotDecided},
		{open("1.5", "span(1.4, 1.6)"), Unstated},
		{Claim{Kind: Ratio, Paper: "1.5", check: "1.5", tolerance: &Tolerance{Percent: 5}, over: "span(1, 2)", Unstated: &Open{What: "M"}}, Reproduced},
		{open("1.3", `span(cell("b", "x"), 2)`), NoRecord},
		{gain("1.1", 50, "1.14"), Reproduced},
		{gain("1.1", 50, "1.04"), Differs},
		{gain("0.8", 50, "0.71"), Reproduced},
		{gain("0.8", 50, "0.95"), Differs},
		{of(Trend, speed+" > 1"), Holds},
		{of(Trend, speed+" > 1.5"), NotDecided},
		{of(Trend, speed+" < 1"), Fails},
		{of(Trend, `cell("small", "speed", "K", 2) < 1`), TooSmall},
		{of(Trend, `cell("small", "speed", "K", 2) > 1`), Holds},
		{of(StandIn, speed+" > 1"), Agrees},
		{of(StandIn, speed+" > 1.5"), Inconclusive},
		{of(StandIn, speed+" < 1"), Disagrees},
		{of(StandIn, `cell("small", "speed", "K", 2) < 1`), TooSmall},
		{Claim{Kind: Ratio, Basis: Measured, Paper: "1.5", check: `cell("small", "speed", "K", 2)`, tolerance: &Tolerance{Percent: 50}}, TooSmall},
		{Claim{Kind: Ratio, Basis: Modelled, Paper: "1.5", check: `cell("small", "speed", "K", 2)`, tolerance: &Tolerance{Percent: 50}}, Reproduced},
		{of(Ours, `every("a", "equal", "yes", "no", "noisy")`), Holds},
		{of(Ours, `every("a", "equal", "yes", "no")`), NotDecided},
		{of(Ours, `every("a", "equal", "yes", "noisy")`), Fails},
		{of(Contradiction, "22 < 25"), Contradicted},
		{of(Contradiction, "25 < 22"), Fails},
		{of(Derived, "22 < 25"), Follows},
		{of(Derived, "25 < 22"), Fails},
		{of(Derived, `cell("small", "speed", "K", 2) < 1`), TooSmall},
		{of(Extension, speed+" > 1"), Holds},
		{of(Extension, speed+" > 1.5"), NotDecided},
		{of(Extension, speed+" < 1"), DoesNotHold},
		{Claim{Kind: Tested}, ByTest},
		{Claim{Kind: NotHere, Shows: evidences{{"v", `text("b", "x")`}}}, NotAttempted},
	} {
		got := testkit.Must(c.claim.judge(newEvaluator(claimTables())))(t, "%+v", c.claim)
		testkit.Equal(t, got.Verdict, c.want, "%+v", c.claim)
	}
	for over, want := range map[string]string{"span(1, 2)": "", "span(1.5, 1.54)": "by the tolerance alone: the paper's figure is not among ours over what it does not state"} {
		c := open("1.45", over)
		c.check = "1.5"
		testkit.Equal(t, testkit.Must(c.judge(newEvaluator(claimTables())))(t).Why, want, "over %s", over)
	}
	got := testkit.Must(ratio("1.6", 13, speed).judge(newEvaluator(claimTables())))(t)
	if got.here() != "1.5 [1.4, 1.6] (-6.25%)" || got.Profile != "quick" || got.Seconds != 7 || got.Bytes != 5 || !slices.Equal(got.Records, []string{"x"}) {
		t.Errorf("%+v", got)
	}
}
