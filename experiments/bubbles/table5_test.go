package bubbles

import (
	"strings"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
)

// What is made of the smallest rows prints the paper's figures where schedules have names,
// and no more where they are searched.
func TestTable5Report(t *testing.T) {
	e := loaded(t, "bubbles-table5", bubblesTable5)
	log := records.New(e.Key("smoke"))
	labtest.CheckLacking(t, e, log)
	labtest.MeasureTwice(t, e, log)
	r := testkit.Must(e.Report(log, nil))(t)
	labtest.CheckPlots(t, r)
	rates := r.Tables[0]
	if len(rates.Rows) != 4 || len(log.Names) != 4 {
		t.Errorf("%d rows, %d samples", len(rates.Rows), len(log.Names))
	}
	for _, row := range rates.Rows {
		at := func(column string) string { return row[rates.Column(column)].Text }
		for _, c := range [][2]string{{"1F1B", "1F1B, paper"}, {"interleaved, formula", "interleaved, paper"}, {"H1", "H1, paper"}, {"H2", "H2, paper"}, {"ZB-1p, search", "ZB-1p, paper"}} {
			testkit.Equal(t, at(c[1]), at(c[0]), "%s, m = %s: %s %s, paper", at("model"), at("m"), c[0], at(c[0]))
		}
		if at("ZB-2p, search") > at("ZB-2p, paper") || at("ZB-2p, search") < at("bound") {
			t.Errorf("%s, m = %s: ZB-2p %s, paper %s, bound %s", at("model"), at("m"), at("ZB-2p, search"), at("ZB-2p, paper"), at("bound"))
		}
	}
	testkit.Equal(t, rates.Printed()[0][6], "0.1090", "interleaved, run")
	if row := strings.Join(r.Tables[1].Printed()[2], " "); !strings.HasPrefix(row, "6.2B 8 24 29.718 29.444 19.927 0.527 0.991 0.671 0.2347 0.0827 0.1323 0.1003 ") {
		t.Errorf("over makespans: %s", row)
	}
}

func TestTable5Spec(t *testing.T) {
	labtest.CheckRefused(t, Paper.Experiment("bubbles-table5"), [][3]string{
		{"layers: 22", "layers: 23", "want multiples"},
		{"m: 24, layers", "m: 25, layers", "want multiples"},
		{"  - {model: 1.5B, m: 32, 1f1b", "  - {model: 1.5B, m: 40, 1f1b", "want the model and m"},
		{"f: 18.522", "f: 0", "above 0"},
		{"sequence: 1024", "sequence: 0", "want a whole number from 1"},
	})
}
