// Package modelledtest fills logs with modelled cells.
package modelledtest

import (
	"testing"

	"gpipebench/experiments/gpipe/table2/modelled"
	"gpipebench/experiments/paperscale"
	"gpipebench/experiments/paperscale/paperscaletest"
	"gpipebench/experiments/records"
	"gpipebench/experiments/suite"
)

// FillBeside makes every modelled cell what the paper has.
func FillBeside(t *testing.T, log *records.Log, m modelled.Beside) {
	t.Helper()
	n := m.Networks[0]
	paperscaletest.FillScale(t, log, m.Scale, func(c suite.Cell, _ paperscale.CutSpec, _, _ string) float64 {
		return n.Paper.Of(c).Value.Value / float64(c.K)
	})
}
