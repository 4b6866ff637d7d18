package lab

import (
	"testing"

	"gpipebench/internal/testkit"
)

// A finding has the figures of its tables; one that a table lacks leaves none, and what is no
// expression is refused.
func TestFilled(t *testing.T) {
	table := &Table{ID: "t"}
	table.Texts("way")
	table.Numbers("K", "time / K = 2")
	table.Add("a", 2, Value{Text: "1.50", Numbers: []float64{1.504}, Interval: []float64{1.2, 1.8}})
	table.Add("b", 8, Fixed(1234.56, 2))
	table.Add("b", 4, Absent)
	for finding, want := range map[string]string{
		`no figures`: "no figures",
		`{text("t", "time / K = 2", "way", "a")} of {cell("t", "time-k-2", "K", 8)}`: "1.50 of 1235",
		`{cell("t", "time-k-2", "K", 2) / 2}, {least("t", "K")} to {most("t", "K")}`: "0.752, 2 to 8",
		`{low("t", "time-k-2", "K", 2)}, {nth(1, "t", "time-k-2", "K", 2)}`:          "1.2, 1.5",
		`{count("t", "way", "b")} of {rows("t")}`:                                    "2 of 3",
		`it {choose(cell("t", "time-k-2", "K", 2) > 1.1, "grows", "shrinks", "?")}`:  "it grows",
		`it {choose(cell("t", "time-k-2", "K", 2) > 1.6, "grows", "shrinks", "?")}`:  "it ?",
		`{cell("t", "time-k-2", "K", 8) * 0.81}, {0.00123456}`:                       "1000, 0.00123",
		`{cell("t", "time-k-2", "K", 4)}`:                                            "",
		`{cell("t", "time-k-2", "way", "b")}`:                                        "",
		`{cell("other", "K")}`:                                                       "",
		`{text("t", "columns", "K", 2)}`:                                             "",
	} {
		testkit.Equal(t, testkit.Must(Filled(finding, table))(t), want, "%s", finding)
	}
	for _, finding := range []string{`{text("t")}`, `{choose(1, "a", "b", "c")}`, `{1 / "a"}`} {
		testkit.Refused(Filled(finding, table))(t)
	}
	for finding, want := range map[string]string{`{cells("t")}`: "cells is no function", `{1 +}`: "expected"} {
		testkit.Fails(t, checkFinding(finding), want)
	}
}
