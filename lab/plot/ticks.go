package plot

import (
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"

	"gpipebench/internal/units"
)

// roundTicks marks round values, some five to an axis.
type roundTicks struct{}

func (roundTicks) Ticks(lo, hi float64) (ticks []plot.Tick) {
	if !(hi > lo) {
		return []plot.Tick{{Value: lo, Label: strconv.FormatFloat(lo, 'g', 4, 64)}}
	}
	step := math.Pow10(int(math.Floor(math.Log10((hi - lo) / 5))))
	for _, f := range []float64{2, 2.5, 2} { // 2, 5, 10 times
		if (hi-lo)/step <= 6 {
			break
		}
		step *= f
	}
	decimals := max(0, -int(math.Floor(math.Log10(step)+1e-9)))
	for i := math.Ceil(lo/step - 1e-9); i*step <= hi+1e-9*step; i++ {
		v := i * step
		ticks = append(ticks, plot.Tick{Value: v, Label: strconv.FormatFloat(v+0, 'f', decimals, 64)})
	}
	return ticks
}

// innerTicks marks round values, but none so near an end that its label would reach
// beyond a panel without a y axis.
type innerTicks struct{}

func (innerTicks) Ticks(lo, hi float64) []plot.Tick {
	edge := 0.05 * (hi - lo)
	return slices.DeleteFunc(roundTicks{}.Ticks(lo, hi), func(t plot.Tick) bool { return t.Value < lo+edge || t.Value > hi-edge })
}

// upTo marks round values, but none above hi, where the axis goes on for the
// names of what is drawn.
type upTo struct{ hi float64 }

func (u upTo) Ticks(lo, _ float64) []plot.Tick { return roundTicks{}.Ticks(lo, u.hi) }

// powers marks powers of ten on a logarithmic axis: at most some eight with a
// label, and 2 to 9 times each on an axis that has few.
type powers struct {
	counts bool // in millions and billions
}

func (p powers) Ticks(lo, hi float64) (ticks []plot.Tick) {
	if !(lo > 0) {
		return nil // no place on the axis
	}
	from, to := int(math.Floor(math.Log10(lo))), int(math.Ceil(math.Log10(hi)))
	every := (to-from)/8 + 1
	for e := from; e <= to; e++ {
		for digit := 1; digit < 10; digit++ {
			v := float64(digit) * math.Pow10(e)
			label := ""
			switch {
			case digit == 1 && e%every == 0, to-from <= 2 && (digit == 2 || digit == 5):
				label = strconv.FormatFloat(v, 'g', -1, 32)
				if p.counts {
					label = units.FormatCount(int64(v))
				}
			case digit > 1 && to-from > 4:
				continue
			}
			if v >= lo && v <= hi {
				ticks = append(ticks, plot.Tick{Value: v, Label: label})
			}
		}
	}
	return ticks
}
