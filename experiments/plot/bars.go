package plot

import (
	"cmp"
	"image/color"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"gpipebench/experiments/suite"
	"gpipebench/internal/stats"
)

// BarPanel is groups of bars, one bar for each series: side by side or, if stacked, one
// on top of another.
type BarPanel struct {
	Title, Y string
	Names    []string // of the groups
	Series   []BarSeries
	Stacked  bool
	near     float64 // not 0: values are marks around a line here instead of bars from 0
	Whiskers string  // what the intervals are; "": 95% intervals
}

// BarSeries is the bars of one colour, one for each group.
type BarSeries struct {
	Name   string
	Values plotter.Values
	Spread []Spread // of some bars
}

// Spread is the interval of a bar.
type Spread struct {
	Group  int
	Lo, Hi float64
}

// addInterval adds the 95% interval of a group's mean, if there is one.
func addInterval(to []Spread, group int, of stats.Paired) []Spread {
	if lo, hi, ok := of.Interval(0.95); ok {
		to = append(to, Spread{group, lo, hi})
	}
	return to
}

func (s *BarSeries) Add(value float64) { s.Values = append(s.Values, value) }

// AddMean adds the mean of values with its interval, if there is one.
func (s *BarSeries) AddMean(values []float64) {
	mean := stats.Sampled(values)
	s.Spread = addInterval(s.Spread, len(s.Values), mean)
	s.Add(mean.Mean)
}

// AddValue adds a cell's number with its interval, or no bar if it has none.
func (s *BarSeries) AddValue(v suite.Value) {
	if len(v.Interval) > 0 {
		s.Spread = append(s.Spread, Spread{len(s.Values), v.Interval[0], v.Interval[1]})
	}
	s.Add(append(v.Numbers, 0)[0])
}

func (p *BarPanel) seriesNames() (names []string) {
	for _, s := range p.Series {
		names = append(names, s.Name)
	}
	return append(names, p.intervals())
}

// intervals is their name in the legend.
func (p *BarPanel) intervals() string { return cmp.Or(p.Whiskers, "95% interval") }

func (p *BarPanel) plot(inks map[string]color.Color) (*plot.Plot, []legendEntry, error) {
	out := newPlot(p.Title, "", p.Y)
	out.Y.Min, out.Y.Max = p.near, p.near
	out.Add(levelGrid())
	room := groupRoom(len(p.Names))
	width := 0.6 * room
	if !p.Stacked {
		width = 0.8 * room / vg.Length(len(p.Series))
	}
	var keys []legendEntry
	intervals := func(of []Spread, offset vg.Length) {
		if len(of) > 0 {
			out.Add(whiskers{of, offset})
			keys = append(keys, legendEntry{p.intervals(), whiskers{}})
		}
	}
	stacks := make([]float64, len(p.Names)) // what lies below a series
	var below *plotter.BarChart
	for i, s := range p.Series {
		beside := width * vg.Length(float64(i)-float64(len(p.Series)-1)/2)
		if p.near != 0 {
			m := marks{s.Values, draw.GlyphStyle{Color: inks[s.Name], Radius: vg.Points(3.5), Shape: shapes[i%len(shapes)]}, beside}
			keys = append(keys, legendEntry{s.Name, m})
			intervals(s.Spread, beside)
			out.Add(m)
			continue
		}
		bars, err := plotter.NewBarChart(s.Values, width)
		if err != nil {
			return nil, nil, err
		}
		bars.Color = inks[s.Name]
		bars.LineStyle.Width = 0
		over, offset := slices.Clone(s.Spread), beside
		if p.Stacked {
			beside = 0
			if below != nil {
				bars.StackOn(below)
			}
			below = bars
			for k := range over { // each beside those of the series below
				over[k].Lo += stacks[over[k].Group]
				over[k].Hi += stacks[over[k].Group]
			}
			offset = 0.8 * width * vg.Length((float64(i)+0.5)/float64(len(p.Series))-0.5)
			for k, v := range s.Values {
				stacks[k] += v
			}
		}
		bars.Offset = beside
		out.Add(bars)
		keys = append(keys, legendEntry{s.Name, bars})
		intervals(over, offset)
	}
	nominal(out, p.Names)
	if p.near == 0 {
		out.Y.Max *= 1.05
		return out, keys, nil
	}
	pad := 0.08 * (out.Y.Max - out.Y.Min)
	out.Y.Min, out.Y.Max = out.Y.Min-pad, out.Y.Max+pad
	out.Add(levels{[]Level{{"", p.near}}, out.X.Max})
	return out, keys, nil
}

// marks are values of groups, at an offset from the groups' middle.
type marks struct {
	of     plotter.Values
	style  draw.GlyphStyle
	offset vg.Length
}

func (m marks) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	for i, v := range m.of {
		c.DrawGlyph(m.style, vg.Point{X: toX(float64(i)) + m.offset, Y: toY(v)})
	}
}

// DataRange keeps the values within the axes.
func (m marks) DataRange() (xmin, xmax, ymin, ymax float64) {
	return 0, float64(len(m.of) - 1), slices.Min(m.of), slices.Max(m.of)
}

// Thumbnail draws one mark.
func (m marks) Thumbnail(c *draw.Canvas) { c.DrawGlyph(m.style, c.Center()) }

// levelGrid is a grid of horizontal lines.
func levelGrid() *plotter.Grid {
	g := plotter.NewGrid()
	g.Vertical.Color = nil
	return g
}

// groupRoom is the approximate width of one of n groups.
func groupRoom(n int) vg.Length { return 0.82 * panelWidth / vg.Length(n) }

// nominal names groups on the x axis, at a slant where there is too little room.
func nominal(p *plot.Plot, groups []string) {
	aslant := false
	for _, name := range groups {
		aslant = aslant || p.X.Tick.Label.Width(name) > 0.95*groupRoom(len(groups))
	}
	ticks := make(plot.ConstantTicks, len(groups))
	for i, name := range groups {
		ticks[i] = plot.Tick{Value: float64(i), Label: name}
		if aslant {
			ticks[i].Label = strings.ReplaceAll(name, "\n", " ")
		}
	}
	if aslant {
		p.X.Tick.Label.Rotation, p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = math.Pi/5, text.XRight, text.YCenter
	}
	p.X.Tick.Length, p.X.Width = 0, 0
	p.X.Tick.Marker = ticks
	p.X.Min, p.X.Max = -0.5, float64(len(groups))-0.5
}

// whiskers draws intervals over bars at an offset from the middle of their group.
type whiskers struct {
	of     []Spread
	offset vg.Length
}

func (w whiskers) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	for _, s := range w.of {
		whisker(c, toX(float64(s.Group))+w.offset, toY(s.Lo), toY(s.Hi))
	}
}

func whisker(c draw.Canvas, x, lo, hi vg.Length) {
	const half = vg.Length(3)
	style := plotter.DefaultLineStyle
	c.StrokeLine2(style, x, lo, x, hi)
	c.StrokeLine2(style, x-half, lo, x+half, lo)
	c.StrokeLine2(style, x-half, hi, x+half, hi)
}

// Thumbnail draws one interval.
func (w whiskers) Thumbnail(c *draw.Canvas) {
	whisker(*c, (c.Min.X+c.Max.X)/2, c.Min.Y, c.Max.Y)
}

// DataRange keeps the ends of the intervals within the axes.
func (w whiskers) DataRange() (xmin, xmax, ymin, ymax float64) {
	xmin, ymin = math.Inf(1), math.Inf(1)
	xmax, ymax = math.Inf(-1), math.Inf(-1)
	for _, s := range w.of {
		x := float64(s.Group)
		xmin, xmax, ymin, ymax = min(xmin, x), max(xmax, x), min(ymin, s.Lo), max(ymax, s.Hi)
	}
	return xmin, xmax, ymin, ymax
}
