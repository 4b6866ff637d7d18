package plot

import (
	"image/color"
	"slices"

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

// below is what a title says of a band.
func (b Band) below() string { return "\nshaded: " + b.Name }

// area is a band across groups of bars.
type area struct {
	Band
	groups int
}

func (a area) Plot(c draw.Canvas, p *plot.Plot) {
	_, toY := p.Transforms(&c)
	fill(c, bandBlue, c.Min.X, max(c.Min.Y, toY(a.Lo)), c.Max.X, min(c.Max.Y, toY(a.Hi)))
}

// bandBlue is the colour of a band across groups; a dark page has another.
var bandBlue = color.RGBA{0xdd, 0xee, 0xf8, 0xff}

// DataRange keeps the band within the axes.
func (a area) DataRange() (xmin, xmax, ymin, ymax float64) {
	return -0.5, float64(a.groups) - 0.5, a.Lo, a.Hi
}

const (
	eachDot  = "each seed"
	meanDot  = "mean"
	MeanSpan = "95% interval of the mean"
)

func (p *DotPanel) groupNames() []string { return p.Names }

func (p *DotPanel) seriesNames() []string {
	return []string{eachDot, meanDot, MeanSpan}
}

func (p *DotPanel) plot(_ map[string]color.Color, panel vg.Length) (*plot.Plot, []legendEntry, error) {
	out := newPlot(p.Title, "", p.Y)
	if p.Band != nil {
		out.Title.Text += p.Band.below()
		out.Add(area{*p.Band, len(p.Names)})
	}
	out.Add(levelGrid())
	var each, means plotter.XYs
	var intervals []Spread
	for i, values := range p.Groups {
		values = slices.DeleteFunc(slices.Clone(values), notFinite)
		for _, v := range values {
			each = append(each, plotter.XY{X: float64(i) - 0.12, Y: v})
		}
		if len(values) > 0 {
			mean := stats.Sampled(values)
			means = append(means, plotter.XY{X: float64(i), Y: mean.Mean})
			if lo, hi, ok := mean.Interval(0.95); ok {
				intervals = append(intervals, Spread{i, lo, hi})
			}
		}
	}
	var keys []legendEntry
	for _, s := range []struct {
		name  string
		at    plotter.XYs
		glyph draw.GlyphStyle
	}{
		{eachDot, each, draw.GlyphStyle{Color: blue, Radius: vg.Points(2), Shape: draw.CircleGlyph{}}},
		{meanDot, means, draw.GlyphStyle{Color: black, Radius: vg.Points(3.5), Shape: draw.CircleGlyph{}}},
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
	nominal(out, p.Names, panel)
	if p.Zero {
		out.Y.Min, out.Y.Max = min(0, out.Y.Min), max(0, out.Y.Max)
	}
	// No disc touches the axes.
	pad := 0.05 * (out.Y.Max - out.Y.Min)
	out.Y.Min, out.Y.Max = out.Y.Min-pad, out.Y.Max+pad
	return out, keys, nil
}
