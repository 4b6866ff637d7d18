package experiments

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// dotPanel is values in groups beside one another: a small circle for each, a
// larger disc for their mean, and the mean's interval.
type dotPanel struct {
	title, y string
	names    []string // of the groups
	groups   [][]float64
	spread   []spread // the means' intervals
	band     *band    // nil: none
}

// band is a range of values across all groups.
type band struct {
	name   string
	lo, hi float64
}

func (p *dotPanel) plot(legend bool) (*plot.Plot, error) {
	out := plot.New()
	out.Title.Text, out.Y.Label.Text = p.title, p.y
	if p.band != nil {
		left, right := -0.5, float64(len(p.names))-0.5
		area, err := plotter.NewPolygon(plotter.XYs{{X: left, Y: p.band.lo}, {X: right, Y: p.band.lo}, {X: right, Y: p.band.hi}, {X: left, Y: p.band.hi}})
		if err != nil {
			return nil, err
		}
		area.Color = color.RGBA{0xdd, 0xee, 0xf8, 0xff}
		area.LineStyle.Width = 0
		out.Add(area)
		out.Legend.Add(p.band.name, area)
	}
	out.Add(plotter.NewGrid())
	var each, means plotter.XYs
	for i, values := range p.groups {
		for _, v := range values {
			each = append(each, plotter.XY{X: float64(i) - 0.12, Y: v})
		}
		mean, _ := meanAndSD(values)
		means = append(means, plotter.XY{X: float64(i), Y: mean})
	}
	for _, s := range []struct {
		name  string
		at    plotter.XYs
		glyph draw.GlyphStyle
	}{
		{"each seed", each, draw.GlyphStyle{Color: palette[5], Radius: vg.Points(2), Shape: draw.RingGlyph{}}},
		{"mean, 95% interval", means, draw.GlyphStyle{Color: palette[0], Radius: vg.Points(3), Shape: draw.CircleGlyph{}}},
	} {
		dots, err := plotter.NewScatter(s.at)
		if err != nil {
			return nil, err
		}
		dots.GlyphStyle = s.glyph
		out.Add(dots)
		if legend {
			out.Legend.Add(s.name, dots)
		}
	}
	if len(p.spread) > 0 {
		out.Add(whiskers{of: p.spread})
	}
	out.Legend.Top, out.Legend.Padding = true, vg.Millimeter
	out.NominalX(p.names...)
	out.X.Min, out.X.Max = -0.5, float64(len(p.names))-0.5
	// Room for the legend above.
	out.Y.Max += 0.35 * (out.Y.Max - out.Y.Min)
	return out, nil
}
