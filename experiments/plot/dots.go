package plot

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"gpipebench/internal/stats"
)

// DotPanel is groups of values, side by side: a small disc for each value, a larger one
// for the group's mean, and the mean's 95% interval, if there is one.
type DotPanel struct {
	Title, Y string
	Names    []string // of the groups
	Groups   [][]float64
	Band     *Band // nil: none
	Bare     bool  // without the means
	Zero     bool  // 0 is among the values shown
}

func (p *DotPanel) Add(name string, values []float64) {
	p.Names, p.Groups = append(p.Names, name), append(p.Groups, values)
}

// Band is a range of values across all groups. Its name stands below the title.
type Band struct {
	Name   string
	Lo, Hi float64
}

const (
	eachDot  = "each seed"
	meanDot  = "mean"
	MeanSpan = "95% interval of the mean"
)

func (p *DotPanel) seriesNames() []string { return []string{eachDot, meanDot, MeanSpan} }

func (p *DotPanel) plot(map[string]color.Color) (*plot.Plot, []legendEntry, error) {
	out := newPlot(p.Title, "", p.Y)
	if p.Band != nil {
		out.Title.Text += "\nshaded: " + p.Band.Name
		left, right := -0.5, float64(len(p.Names))-0.5
		area, err := plotter.NewPolygon(plotter.XYs{{X: left, Y: p.Band.Lo}, {X: right, Y: p.Band.Lo}, {X: right, Y: p.Band.Hi}, {X: left, Y: p.Band.Hi}})
		if err != nil {
			return nil, nil, err
		}
		area.Color = color.RGBA{0xdd, 0xee, 0xf8, 0xff}
		area.LineStyle.Width = 0
		out.Add(area)
	}
	out.Add(levelGrid())
	var each, means plotter.XYs
	var intervals []Spread
	for i, values := range p.Groups {
		for _, v := range values {
			each = append(each, plotter.XY{X: float64(i) - 0.12, Y: v})
		}
		if len(values) > 0 && !p.Bare {
			mean := stats.Sampled(values)
			means = append(means, plotter.XY{X: float64(i), Y: mean.Mean})
			intervals = addInterval(intervals, i, mean)
		}
	}
	var keys []legendEntry
	for _, s := range []struct {
		name  string
		at    plotter.XYs
		glyph draw.GlyphStyle
	}{
		{eachDot, each, draw.GlyphStyle{Color: Palette[5], Radius: vg.Points(2), Shape: draw.CircleGlyph{}}},
		{meanDot, means, draw.GlyphStyle{Color: Palette[0], Radius: vg.Points(3.5), Shape: draw.CircleGlyph{}}},
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
	if len(intervals) > 0 {
		out.Add(whiskers{of: intervals})
		keys = append(keys, legendEntry{MeanSpan, whiskers{}})
	}
	nominal(out, p.Names)
	if p.Zero {
		out.Y.Min, out.Y.Max = min(0, out.Y.Min), max(0, out.Y.Max)
	}
	// No disc touches the axes.
	pad := 0.05 * (out.Y.Max - out.Y.Min)
	out.Y.Min, out.Y.Max = out.Y.Min-pad, out.Y.Max+pad
	return out, keys, nil
}
