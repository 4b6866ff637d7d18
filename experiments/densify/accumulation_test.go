package densify

import (
	"strings"
	"testing"

	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/cells/cellstest"
	"gpipebench/lab/labtest"
)

func loaded[S, V any](t *testing.T, id string, _ cells.Kind[S, V]) *cells.Experiment[S, V] {
	return labtest.Loaded[*cells.Experiment[S, V]](t, Paper.Experiment(id).Load)
}

// The paper's row and its limits, as the report prints them.
func TestAccumulationReport(t *testing.T) {
	e := loaded(t, "accumulation", accumulation)
	all := cellstest.Measured(t, e)
	if len(all) != len(e.Spec.Ranks) {
		t.Errorf("%d samples", len(all))
	}
	r := cellstest.Report(t, e, func(_, sample string) accumulated { return all[sample] })
	labtest.CheckPlots(t, r)
	row := func(table int, first string) string {
		for _, row := range r.Tables[table].Printed() {
			if row[0] == first {
				return strings.Join(row, " | ")
			}
		}
		return ""
	}
	for _, c := range []struct {
		table       int
		first, want string
	}{
		{0, "1", "1 | 0.18 GB | 138.07 MB | 1.30 | 0.17 MB | - | - | -"},
		{0, "64", "64 | 11.46 GB | 138.07 MB | 82.99 | 11.19 MB | 11.4 GB | 139 MB | 82.0"},
		{1, "1", "1 | 0 s | 0 s | - | - | - | - | - | -"},
		{1, "64", "64 | 902.3 ms | 21.75 ms | 41.5 | 4.32 s | 169 ms | 25.6 | 4.79 | 7.77"},
		{2, "values counted in 32 bits", "values counted in 32 bits | 2^31 - 1, in units of bytes: 4 | 47 | 32 | yes"},
		{2, "bytes counted in 32 bits", "bytes counted in 32 bits | 2^31 - 1, in units of bytes: 1 | 11 | 8 | no"},
		{2, "memory of a node", "memory of a node | 192 GiB a node, 4 ranks of 2 copies | 143 | 64 | no"},
	} {
		if got := row(c.table, c.first); got != c.want {
			t.Errorf("%s: %s\nwant %s", r.Tables[c.table].ID, got, c.want)
		}
	}
	cell := r.Tables[0].Rows[5][r.Tables[0].Column("gathered")]
	if cell.Numbers[0] != 11_457_789_952 {
		t.Errorf("64 ranks gather %v bytes", cell.Numbers)
	}
}

func TestAccumulationSpec(t *testing.T) {
	labtest.CheckRefused(t, Paper.Experiment("accumulation"), [][3]string{
		{"ranks: [1, 4, 8,", "ranks: [4, 1, 8,", "want 1 first"},
		{"{ranks: 64, gathered", "{ranks: 63, gathered", "want one of ranks"},
		{"unit: 4", "unit: 4, copies: 1", "want either a unit, or ranks and copies"},
		{"unit: 4", "ranks: 4", "want either a unit, or ranks and copies"},
		{"first: values", "first: no values", "want the name of one of limits"},
		{"accelerator: zenith", "accelerator: abacus", "unknown accelerator"},
		{"dim: 1024", "dim: 1048577", "want a whole number from 1"},
	})
	a := loaded(t, "accumulation", accumulation)
	labtest.CheckKey(t, func(file string) lab.Experiment {
		a.Spec.Accelerator = file
		return a
	})
}
