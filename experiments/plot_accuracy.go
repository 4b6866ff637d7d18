package experiments

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// dotPanel is values in groups beside one another: a small disc for each, a
// larger disc for their mean, and the mean's interval, if there is one.
type dotPanel struct {
	title, y string
	names    []string // of the groups
	groups   [][]float64
	spread   []spread // the means' intervals
	band     *band    // nil: none
	bare     bool     // without the means
	zero     bool     // 0 is among the values shown
}

// band is a range of values across all groups. Its name stands below the title.
type band struct {
	name   string
	lo, hi float64
}

const (
	eachDot  = "each seed"
	meanDot  = "mean"
	meanSpan = "95% interval of the mean"
)

func (p *dotPanel) seriesNames() []string { return []string{eachDot, meanDot, meanSpan} }

func (p *dotPanel) plot(map[string]color.Color) (*plot.Plot, []legendEntry, error) {
	out := newPlot(p.title, "", p.y)
	if p.band != nil {
		out.Title.Text += "\nshaded: " + p.band.name
		left, right := -0.5, float64(len(p.names))-0.5
		area, err := plotter.NewPolygon(plotter.XYs{{X: left, Y: p.band.lo}, {X: right, Y: p.band.lo}, {X: right, Y: p.band.hi}, {X: left, Y: p.band.hi}})
		if err != nil {
			return nil, nil, err
		}
		area.Color = color.RGBA{0xdd, 0xee, 0xf8, 0xff}
		area.LineStyle.Width = 0
		out.Add(area)
	}
	out.Add(levelGrid())
	var each, means plotter.XYs
	for i, values := range p.groups {
		for _, v := range values {
			each = append(each, plotter.XY{X: float64(i) - 0.12, Y: v})
		}
		if len(values) > 0 && !p.bare {
			mean, _ := meanAndSD(values)
			means = append(means, plotter.XY{X: float64(i), Y: mean})
		}
	}
	var keys []legendEntry
	for _, s := range []struct {
		name  string
		at    plotter.XYs
		glyph draw.GlyphStyle
	}{
		{eachDot, each, draw.GlyphStyle{Color: palette[5], Radius: vg.Points(2), Shape: draw.CircleGlyph{}}},
		{meanDot, means, draw.GlyphStyle{Color: palette[0], Radius: vg.Points(3.5), Shape: draw.CircleGlyph{}}},
	} {
		if len(s.at) == 0 {
			continue
		}
		dots, err := plotter.NewScatter(s.at)
		if err != nil {
			return nil, nil, err
		}
		dots.GlyphStyle = s.glyph
		out.Add(dots)
		keys = append(keys, legendEntry{s.name, dots})
	}
	if len(p.spread) > 0 {
		out.Add(whiskers{of: p.spread})
		keys = append(keys, legendEntry{meanSpan, whiskers{}})
	}
	nominal(out, p.names)
	if p.zero {
		out.Y.Min, out.Y.Max = min(0, out.Y.Min), max(0, out.Y.Max)
	}
	// Nothing lies upon the axes.
	pad := 0.05 * (out.Y.Max - out.Y.Min)
	out.Y.Min, out.Y.Max = out.Y.Min-pad, out.Y.Max+pad
	return out, keys, nil
}
