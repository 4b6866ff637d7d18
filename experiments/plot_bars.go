package experiments

import (
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// barPanel is groups of bars, one bar for each series: beside one another or,
// if stacked, upon one another.
type barPanel struct {
	title, y string
	names    []string // of the groups
	series   []barSeries
	stacked  bool
	bare     bool // without a legend, which a legendPanel has
}

// legendPanel is the legend of bars, by itself.
type legendPanel struct{ of *barPanel }

// barSeries is the bars of one colour, one for each group.
type barSeries struct {
	name   string
	values plotter.Values
	spread []spread // of some bars
}

// spread is the interval of a bar.
type spread struct {
	group  int
	lo, hi float64
}

func (s *barSeries) add(value float64) { s.values = append(s.values, value) }

func (s *barSeries) addRatio(r ratio) {
	if r.known && r.lo < r.hi {
		s.spread = append(s.spread, spread{len(s.values), r.lo, r.hi})
	}
	s.add(r.median)
}

func (p *barPanel) plot(legend bool) (*plot.Plot, error) {
	out := plot.New()
	out.Title.Text, out.Y.Label.Text = p.title, p.y
	out.Y.Min = 0
	out.Add(plotter.NewGrid())
	room := 0.8 * panelWidth / vg.Length(len(p.names)) // for a group
	width := 0.6 * room
	if !p.stacked {
		width = 0.8 * room / vg.Length(len(p.series))
	}
	var below *plotter.BarChart
	for i, s := range p.series {
		bars, err := plotter.NewBarChart(s.values, width)
		if err != nil {
			return nil, err
		}
		bars.Color = palette[i%len(palette)]
		bars.LineStyle.Width = 0
		if p.stacked {
			if below != nil {
				bars.StackOn(below)
			}
			below = bars
		} else {
			bars.Offset = width * vg.Length(float64(i)-float64(len(p.series)-1)/2)
		}
		out.Add(bars)
		if legend && !p.bare {
			out.Legend.Add(s.name, bars)
		}
		if len(s.spread) > 0 {
			out.Add(whiskers{s.spread, bars.Offset})
		}
	}
	out.Legend.Top, out.Legend.Left, out.Legend.Padding = true, true, vg.Millimeter
	out.NominalX(p.names...)
	out.Y.Max *= 1.05
	return out, nil
}

func (l legendPanel) plot(bool) (*plot.Plot, error) {
	out := plot.New()
	out.HideAxes()
	for i := range l.of.series {
		if l.of.stacked {
			i = len(l.of.series) - 1 - i // as they lie upon one another
		}
		bar, err := plotter.NewBarChart(plotter.Values{0}, vg.Centimeter)
		if err != nil {
			return nil, err
		}
		bar.Color = palette[i%len(palette)]
		bar.LineStyle.Width = 0
		out.Legend.Add(l.of.series[i].name, bar)
	}
	out.Legend.Top, out.Legend.Left, out.Legend.Padding = true, true, vg.Millimeter
	return out, nil
}

// whiskers draws intervals over bars that stand beside the middle of their group
// by offset.
type whiskers struct {
	of     []spread
	offset vg.Length
}

func (w whiskers) Plot(c draw.Canvas, p *plot.Plot) {
	style := plotter.DefaultLineStyle
	toX, toY := p.Transforms(&c)
	for _, s := range w.of {
		x, lo, hi := toX(float64(s.group))+w.offset, toY(s.lo), toY(s.hi)
		const half = vg.Length(3)
		c.StrokeLine2(style, x, lo, x, hi)
		c.StrokeLine2(style, x-half, lo, x+half, lo)
		c.StrokeLine2(style, x-half, hi, x+half, hi)
	}
}

// DataRange keeps the ends of the intervals within the axes.
func (w whiskers) DataRange() (xmin, xmax, ymin, ymax float64) {
	xmin, ymin = math.Inf(1), math.Inf(1)
	xmax, ymax = math.Inf(-1), math.Inf(-1)
	for _, s := range w.of {
		x := float64(s.group)
		xmin, xmax, ymin, ymax = min(xmin, x), max(xmax, x), min(ymin, s.lo), max(ymax, s.hi)
	}
	return xmin, xmax, ymin, ymax
}
