package plot

import (
	"cmp"
	"image/color"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"gpipebench/internal/printable"
	"gpipebench/lab"
)

// BarPanel is groups of values, one of each series in a group: side by side or, if
// stacked, one on top of another.
type BarPanel struct {
	Title, Y string
	Names    []string // of the groups
	Series   []BarSeries
	Stacked  bool
	Printed  bool // stacked bars have their values in them, where there is room
	Levels   []Level
	Band     *Band  // nil: none
	Whiskers string // what the intervals are; "": 95% intervals
}

// BarSeries is the values of one colour, one for each group.
type BarSeries struct {
	Name   string
	As     Shape
	Ink    color.Color    // nil: that of the name
	Values plotter.Values // NaN: none
	Spread []Spread       // of some values
}

// Shape is how a series' values are drawn.
type Shape int

const (
	Bar    Shape = iota // from 0 up
	Mark                // a sign at the value
	Across              // a line across the whole group, for what all others of the group are compared with
	Range               // a grey band over the value's Spread, and a tick at the value
)

// Spread is the interval of a value.
type Spread struct {
	Group  int
	Lo, Hi float64
}

func (s *BarSeries) Add(value float64) { s.Values = append(s.Values, value) }

// AddValue adds a cell's number with its interval, or nothing if it has none.
func (s *BarSeries) AddValue(v lab.Value) {
	if len(v.Interval) > 0 {
		s.Spread = append(s.Spread, Spread{len(s.Values), v.Interval[0], v.Interval[1]})
	}
	s.Add(append(v.Numbers, math.NaN())[0])
}

func (p *BarPanel) groupNames() []string { return p.Names }

func (p *BarPanel) seriesNames() (names []string) {
	for _, s := range p.Series {
		names = append(names, s.Name)
	}
	return append(names, p.intervals())
}

// intervals is their name in the legend.
func (p *BarPanel) intervals() string { return cmp.Or(p.Whiskers, interval95) }

const interval95 = "95% interval"

func (p *BarPanel) plot(inks map[string]color.Color, panel vg.Length) (*plot.Plot, []legendEntry, error) {
	out := newPlot(p.Title, "", p.Y)
	fromZero := p.Stacked
	beside := 0 // series that stand side by side
	for _, s := range p.Series {
		fromZero = fromZero || s.As == Bar
		if s.As != Across && s.any() {
			beside++
		}
	}
	if fromZero {
		out.Y.Min, out.Y.Max = 0, 0
	}
	if p.Band != nil {
		out.Title.Text += p.Band.below()
		out.Add(area{*p.Band, len(p.Names)})
	}
	out.Add(levelGrid())
	room := groupRoom(len(p.Names), panel)
	width := 0.6 * room
	if !p.Stacked {
		width = 0.8 * room / vg.Length(max(beside, 1))
	}
	var keys []legendEntry
	intervals := func(of []Spread, offset vg.Length) {
		if len(of) > 0 {
			out.Add(whiskers{of, offset})
			keys = append(keys, legendEntry{p.intervals(), whiskers{}})
		}
	}
	base := make([]float64, len(p.Names)) // where a stacked bar begins
	var over []plot.Plotter               // what must not be covered
	place := 0
	for i, s := range p.Series {
		if !s.any() {
			continue
		}
		ink := s.Ink
		if ink == nil {
			ink = inks[s.Name]
		}
		offset := width * vg.Length(float64(place)-float64(beside-1)/2)
		if s.As != Across {
			place++
		}
		switch {
		case p.Stacked:
			b := bars{of: s.Values, base: slices.Clone(base), ink: ink, width: width, printed: p.Printed}
			spread := slices.Clone(s.Spread)
			for k := range spread {
				spread[k].Lo += base[spread[k].Group]
				spread[k].Hi += base[spread[k].Group]
			}
			for k, v := range s.Values {
				if v > 0 {
					base[k] += v
				}
			}
			out.Add(b)
			keys = append(keys, legendEntry{s.Name, b})
			// Each beside those of the series below.
			intervals(spread, 0.8*width*vg.Length((float64(i)+0.5)/float64(len(p.Series))-0.5))
		case s.As == Bar:
			b := bars{of: s.Values, base: base, ink: ink, width: width, offset: offset}
			out.Add(b)
			keys = append(keys, legendEntry{s.Name, b})
			intervals(s.Spread, offset)
		case s.As == Mark:
			m := signs{s.Values, 0, offset, mark(draw.GlyphStyle{Color: ink, Radius: vg.Points(3.5), Shape: shapes[i%len(shapes)]})}
			keys = append(keys, legendEntry{s.Name, m})
			intervals(s.Spread, offset)
			out.Add(m)
		case s.As == Range:
			r := ranges{whiskers{s.Spread, offset}, width}
			t := signs{s.Values, width, offset, tick(ink)}
			out.Add(r, t)
			keys = append(keys, legendEntry{s.Name, t}, legendEntry{p.intervals(), r})
		case s.As == Across:
			t := signs{s.Values, 0.92 * room, 0, tick(ink)}
			over = append(over, t)
			keys = append(keys, legendEntry{s.Name, t})
		}
	}
	out.Add(over...)
	nominal(out, p.Names, panel)
	if len(p.Levels) > 0 {
		out.Add(levels{p.Levels, out.X.Max})
	}
	if fromZero {
		out.Y.Max *= 1.05
		if out.Y.Min < 0 {
			out.Y.Min *= 1.05
		}
		return out, keys, nil
	}
	pad := 0.08 * (out.Y.Max - out.Y.Min)
	out.Y.Min, out.Y.Max = out.Y.Min-pad, out.Y.Max+pad
	return out, keys, nil
}

// any reports whether a series has a value.
func (s *BarSeries) any() bool {
	return slices.ContainsFunc(s.Values, func(v float64) bool { return !math.IsNaN(v) })
}

// valueRange returns the range of the values that there are, of n groups.
func valueRange(values []float64) (xmin, xmax, ymin, ymax float64) {
	ymin, ymax = math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if !math.IsNaN(v) {
			ymin, ymax = min(ymin, v), max(ymax, v)
		}
	}
	return 0, float64(len(values) - 1), ymin, ymax
}

// bars are values of groups as bars, at an offset from the groups' middle.
type bars struct {
	of, base      []float64 // NaN: none
	ink           color.Color
	width, offset vg.Length
	printed       bool
}

func (b bars) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	letters := p.Y.Tick.Label
	letters.Color = onBars
	letters.XAlign, letters.YAlign = draw.XCenter, draw.YCenter
	for i, v := range b.of {
		if math.IsNaN(v) {
			continue
		}
		x, from, to := toX(float64(i))+b.offset, toY(b.base[i]), toY(b.base[i]+v)
		fill(c, b.ink, x-b.width/2, from, x+b.width/2, to)
		if text := strconv.FormatFloat(v, 'f', 1, 64); b.printed && to-from > letters.FontExtents().Height && letters.Width(text) < b.width {
			c.FillText(letters, vg.Point{X: x, Y: (from + to) / 2}, text)
		}
	}
}

// onBars is the colour of letters on bars, which is the same on a dark page.
var onBars = color.RGBA{0x11, 0x11, 0x11, 0xff}

// DataRange keeps the bars within the axes.
func (b bars) DataRange() (xmin, xmax, ymin, ymax float64) {
	tops := slices.Clone(b.of)
	for i := range tops {
		tops[i] += b.base[i]
	}
	return valueRange(tops)
}

// Thumbnail draws one bar.
func (b bars) Thumbnail(c *draw.Canvas) {
	fill(*c, b.ink, c.Min.X, c.Min.Y, c.Max.X, c.Max.Y)
}

// fill fills a rectangle.
func fill(c draw.Canvas, ink color.Color, x0, y0, x1, y1 vg.Length) {
	c.FillPolygon(ink, []vg.Point{{X: x0, Y: y0}, {X: x1, Y: y0}, {X: x1, Y: y1}, {X: x0, Y: y1}})
}

// signs are values of groups, at an offset from the groups' middle, each drawn within a width.
type signs struct {
	of            []float64 // NaN: none
	width, offset vg.Length
	draw          func(c draw.Canvas, at vg.Point, width vg.Length)
}

// mark draws a sign at a value.
func mark(style draw.GlyphStyle) func(draw.Canvas, vg.Point, vg.Length) {
	return func(c draw.Canvas, at vg.Point, _ vg.Length) { c.DrawGlyph(style, at) }
}

// tick draws a thick line at a value.
func tick(ink color.Color) func(draw.Canvas, vg.Point, vg.Length) {
	return func(c draw.Canvas, at vg.Point, width vg.Length) {
		c.StrokeLine2(draw.LineStyle{Color: ink, Width: vg.Points(2.2)}, at.X-width/2, at.Y, at.X+width/2, at.Y)
	}
}

func (s signs) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	for i, v := range s.of {
		if !math.IsNaN(v) {
			s.draw(c, vg.Point{X: toX(float64(i)) + s.offset, Y: toY(v)}, s.width)
		}
	}
}

// DataRange keeps the values within the axes.
func (s signs) DataRange() (xmin, xmax, ymin, ymax float64) { return valueRange(s.of) }

// Thumbnail draws one sign.
func (s signs) Thumbnail(c *draw.Canvas) { s.draw(*c, c.Center(), c.Max.X-c.Min.X) }

// ranges are intervals of groups as grey bands.
type ranges struct {
	whiskers
	width vg.Length
}

// bandGrey is the colour of bands between bars.
var bandGrey = color.RGBA{0xcc, 0xcc, 0xcc, 0xff}

func (r ranges) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	for _, s := range r.of {
		x := toX(float64(s.Group)) + r.offset
		fill(c, bandGrey, x-r.width/2, toY(s.Lo), x+r.width/2, toY(s.Hi))
	}
}

// Thumbnail draws one band.
func (r ranges) Thumbnail(c *draw.Canvas) { bars{ink: bandGrey}.Thumbnail(c) }

// levelGrid is a grid of horizontal lines.
func levelGrid() *plotter.Grid {
	g := plotter.NewGrid()
	g.Vertical.Color = nil
	return g
}

// groupRoom is the approximate width of one of n groups in a panel of a width.
func groupRoom(n int, panel vg.Length) vg.Length { return 0.82 * panel / vg.Length(n) }

// folded are names of groups in lines that their groups have room for in a panel of a width, and
// whether a word of them is too long for that.
func folded(groups []string, panel vg.Length) (all []string, aslant bool) {
	label, room := letters(tickSize), groupRoom(len(groups), panel)
	fits := func(text string) bool { return label.Width(text) <= 0.95*room }
	for _, name := range groups {
		var lines []string
		for line := range strings.SplitSeq(name, "\n") {
			lines = append(lines, printable.Fold(line, fits)...)
		}
		aslant = aslant || slices.ContainsFunc(lines, func(line string) bool { return !fits(line) })
		all = append(all, strings.Join(lines, "\n"))
	}
	return all, aslant
}

// nominal names groups on the x axis: in several lines where a name is wider than its
// group, and at a slant where a single word is.
func nominal(p *plot.Plot, groups []string, panel vg.Length) {
	room := groupRoom(len(groups), panel)
	folded, aslant := folded(groups, panel)
	if !aslant {
		groups = folded
	}
	ticks := make(plot.ConstantTicks, len(groups))
	for i, name := range groups {
		ticks[i] = plot.Tick{Value: float64(i), Label: name}
		if aslant {
			ticks[i].Label = strings.ReplaceAll(name, "\n", " ")
		}
	}
	if aslant {
		// As steep as it must be for the first names not to reach beyond the panel.
		angle := math.Pi / 5
		for i, tick := range ticks {
			left := 0.1*panel + room*(vg.Length(i)+0.5)
			angle = max(angle, math.Acos(min(1, float64(left/p.X.Tick.Label.Width(tick.Label)))))
		}
		p.X.Tick.Label.Rotation, p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = angle, text.XRight, text.YCenter
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
