// Package modelledtest fills logs with modelled cells.
package modelledtest

import (
	"testing"

	"gpipebench/experiments/gpipe/table2/modelled"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/cells/cellstest"
	"gpipebench/lab/records"
)

// FillBeside makes every modelled cell what the paper has.
func FillBeside(t *testing.T, log *records.Log, m modelled.Beside) {
	t.Helper()
	n := m.Networks[0]
	cellstest.FillScale(t, log, m.Scale, func(c lab.Cell, _ cells.CutSpec, _, _ string) float64 {
		return n.Paper.Of(c).Value.Value / float64(c.K)
	})
}
