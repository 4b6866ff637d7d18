package plot

import (
	"cmp"
	"image/color"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"gpipebench/internal/stats"
)

// LinePanel is lines.
type LinePanel struct {
	Title, X, Y string
	Logarithmic bool // the y axis; what is not above 0 is left out
	FromZero    bool // 0 is on the y axis
	Counts      bool // the y axis counts things, in millions and billions
	// Against says that both axes have one quantity, on one logarithmic scale, and draws the diagonal
	// on which they agree.
	Against bool
	// Names name the places 0, 1 ... on the x axis; nil: it has numbers.
	Names  []string
	Series []Series
	Levels []Level
}

// Series is lines of one name and colour.
type Series struct {
	Name     string
	Lines    [][]Point
	Dashed   bool
	Dots     bool   // signs alone, as of things that have no order
	Spans    []Span // a band around a single line, of the same colour
	Whiskers []Span // 95% intervals of points
}

type Point struct{ X, Y float64 }

// Span is from where to where a band reaches at X.
type Span struct{ X, Lo, Hi float64 }

// MedianAndRange makes the lines of several runs one: at each place of the longest the
// median over those that have it, in a band from the lowest to the highest. Lines that
// end earlier have the same places up to there.
func MedianAndRange(name string, lines [][]Point) Series {
	s := Series{Name: name}
	var median []Point
	for i := 0; ; i++ {
		var x float64
		var ys []float64
		for _, line := range lines {
			if i < len(line) {
				x, ys = line[i].X, append(ys, line[i].Y)
			}
		}
		if len(ys) == 0 {
			break
		}
		median = append(median, Point{x, stats.Median(ys)})
		s.Spans = append(s.Spans, Span{x, slices.Min(ys), slices.Max(ys)})
	}
	s.Lines = [][]Point{median}
	return s
}

// medianSign is what legends say of the lines of MedianAndRange and of their bands.
const medianSign = "line: median over seeds, band: their range"

// Curve is how many points of a training's losses are drawn.
const Curve = 100

// Binned returns at most a number of points of a series with a value for each step: means
// of every few steps, each at the last of them.
func Binned(values []float64, points int) (line []Point, every int) {
	every = max(1, (len(values)+points-1)/points)
	for from := 0; from < len(values); from += every {
		to := min(from+every, len(values))
		line = append(line, Point{float64(to), stats.Mean(values[from:to])})
	}
	return line, every
}

// Level is a value that lines are compared with: a dashed line across, with its
// name at the right.
type Level struct {
	Name string
	Y    float64
}

// fewPoints is how many points of a line are also marked, each series by another
// shape.
const fewPoints = 12

var shapes = []draw.GlyphDrawer{
	draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, outline{}, outline{4}, outline{3}, crossing{}, crossing{upright: true},
}

func (p LinePanel) seriesNames() (names []string) {
	for _, s := range p.Series {
		names = append(names, s.Name)
	}
	return append(names, medianSign, interval95)
}

func (p LinePanel) plot(inks map[string]color.Color, panel vg.Length) (*plot.Plot, []legendEntry, error) {
	p.Logarithmic = p.Logarithmic || p.Against
	title, y := axisTitles(p.Title, p.Y, p.Logarithmic)
	out := newPlot(title, p.X, y)
	grid := &endingGrid{plotter.NewGrid(), math.Inf(1)}
	out.Add(grid)
	var keys []legendEntry
	lowest, highest, end, below, count := math.Inf(1), math.Inf(-1), math.Inf(-1), 0.0, 0
	banded := false
	for _, s := range p.Series {
		count += len(s.Lines)
		if len(s.Spans) > 0 {
			out.Add(p.band(s, inks[s.Name]))
			banded = true
		}
		for _, at := range slices.Concat(s.Spans, s.Whiskers) {
			highest = max(highest, at.Hi)
			if !p.Logarithmic || at.Lo > 0 {
				lowest = min(lowest, at.Lo)
			}
		}
	}
	for i, s := range p.Series {
		known := false
		for _, line := range s.Lines {
			var xys plotter.XYs
			for _, at := range line {
				if !notFinite(at.Y) && (!p.Logarithmic || at.Y > 0) { // a logarithm has no place for 0
					xys = append(xys, plotter.XY{X: at.X, Y: at.Y})
					lowest, highest, end = min(lowest, at.Y), max(highest, at.Y), max(end, at.X)
					below = min(below, at.Y)
				}
			}
			if len(xys) == 0 {
				continue
			}
			l, dots, err := plotter.NewLinePoints(xys)
			if err != nil {
				return nil, nil, err
			}
			l.Color, l.Width = inks[s.Name], vg.Points(1.3)
			if count > 8 {
				l.Width = vg.Points(0.8)
			}
			if s.Dashed {
				l.Dashes = []vg.Length{vg.Points(3), vg.Points(2)}
			}
			dots.GlyphStyle = draw.GlyphStyle{Color: inks[s.Name], Radius: vg.Points(3), Shape: shapes[i%len(shapes)]}
			if p.Against {
				dots.Radius = vg.Points(2)
				lowest, highest = min(lowest, least(xys)), max(highest, end)
			}
			var thumb plot.Thumbnailer = l
			switch {
			case len(xys) == 1 || s.Dots:
				out.Add(dots)
				thumb = dots
			case len(xys) <= fewPoints:
				out.Add(l, dots)
				thumb = both{l, dots}
			default:
				out.Add(l)
			}
			if !known {
				keys, known = append(keys, legendEntry{s.Name, thumb}), true
			}
		}
	}
	for _, s := range p.Series {
		if len(s.Whiskers) > 0 {
			out.Add(spanWhiskers(s.Whiskers))
			keys = append(keys, legendEntry{interval95, whiskers{}})
		}
	}
	if banded {
		keys = append(keys, legendEntry{medianSign, span{ink: color.Gray{0x80}}})
	}
	if p.FromZero {
		out.Y.Min, out.Y.Max = below*1.05, max(0, highest*1.05)
	}
	if p.Logarithmic && lowest <= highest {
		if lowest == highest {
			lowest, highest = lowest/2, highest*2
		}
		lowest = max(lowest, highest*1e-9) // what has died away needs no room
		out.Y.Min, out.Y.Max = lowest/1.15, highest*1.15
		out.Y.Scale = plot.LogScale{}
		out.Y.Tick.Marker = powers{counts: p.Counts}
	}
	if p.Against {
		out.X.Min, out.X.Max, out.X.Scale, out.X.Tick.Marker = out.Y.Min, out.Y.Max, out.Y.Scale, out.Y.Tick.Marker
		diagonal := &plotter.Line{XYs: plotter.XYs{{X: out.X.Min, Y: out.Y.Min}, {X: out.X.Max, Y: out.Y.Max}}, LineStyle: plotter.DefaultLineStyle}
		out.Add(diagonal)
	}
	if p.Names != nil {
		nominal(out, p.Names, panel)
	}
	if len(p.Levels) > 0 {
		var widest vg.Length
		for _, at := range p.Levels {
			widest = max(widest, out.Y.Tick.Label.Width(at.Name))
		}
		inside := 0.85 * panel // of the axis, about
		out.X.Tick.Marker = upTo{end}
		out.X.Max = out.X.Min + (end-out.X.Min)*float64(inside/(inside-widest-besideEnd-vg.Millimeter))
		grid.end = end
		out.Add(levels{p.Levels, end})
	}
	return out, keys, nil
}

// notFinite reports whether a value has no place in a plot.
func notFinite(y float64) bool { return math.IsNaN(y) || math.IsInf(y, 0) }

// least is the smallest X of points.
func least(xys plotter.XYs) float64 {
	x, _, _, _ := plotter.XYRange(xys)
	return x
}

// axisTitles returns a panel's title and the name of its y axis. gonum/plot keeps room for
// the name where the middle of a linear axis would be, which is near the end of a
// logarithmic one: there the name stands below the title.
func axisTitles(title, y string, logarithmic bool) (string, string) {
	if logarithmic {
		return strings.TrimSpace(title + "\n" + y), ""
	}
	return title, y
}

// band is the band around a series' line. On a logarithmic axis it ends where there is
// nothing above 0.
func (p LinePanel) band(s Series, ink color.Color) plot.Plotter {
	var upper, lower plotter.XYs
	for _, at := range s.Spans {
		if p.Logarithmic && at.Lo <= 0 {
			continue
		}
		upper, lower = append(upper, plotter.XY{X: at.X, Y: at.Hi}), append(lower, plotter.XY{X: at.X, Y: at.Lo})
	}
	slices.Reverse(lower)
	return span{append(upper, lower...), ink}
}

// span is an area that one can see through.
type span struct {
	plotter.XYs
	ink color.Color
}

func (s span) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	var corners []vg.Point
	for _, at := range s.XYs {
		corners = append(corners, vg.Point{X: toX(at.X), Y: max(c.Min.Y, toY(at.Y))})
	}
	r, g, b, _ := s.ink.RGBA()
	c.FillPolygon(color.NRGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), 0x38}, corners)
}

// Thumbnail draws a band and the line in it.
func (s span) Thumbnail(c *draw.Canvas) {
	bars{ink: bandGrey}.Thumbnail(c)
	c.StrokeLine2(draw.LineStyle{Color: s.ink, Width: vg.Points(1.3)}, c.Min.X, c.Center().Y, c.Max.X, c.Center().Y)
}

// DataRange keeps the area within the axes.
func (s span) DataRange() (xmin, xmax, ymin, ymax float64) { return plotter.XYRange(s.XYs) }

// spanWhiskers are intervals of points.
type spanWhiskers []Span

func (w spanWhiskers) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	for _, at := range w {
		whisker(c, toX(at.X), max(c.Min.Y, toY(max(at.Lo, p.Y.Min))), toY(at.Hi))
	}
}

// DataRange keeps the intervals within the axes.
func (w spanWhiskers) DataRange() (xmin, xmax, ymin, ymax float64) {
	var ends plotter.XYs
	for _, at := range w {
		ends = append(ends, plotter.XY{X: at.X, Y: at.Lo}, plotter.XY{X: at.X, Y: at.Hi})
	}
	return plotter.XYRange(ends)
}

// endingGrid is a grid whose lines end where names of levels begin.
type endingGrid struct {
	*plotter.Grid
	end float64
}

func (g *endingGrid) Plot(c draw.Canvas, p *plot.Plot) {
	toX, _ := p.Transforms(&c)
	inside := *p
	if x := toX(g.end); x < c.Max.X {
		c.Max.X = x
		inside.X.Max = g.end
	}
	g.Grid.Plot(c, &inside)
}

// both is a thumbnail over another.
type both struct{ below, above plot.Thumbnailer }

func (b both) Thumbnail(c *draw.Canvas) {
	b.below.Thumbnail(c)
	b.above.Thumbnail(c)
}

// besideEnd is the room from where lines end, which may have a sign there, to the names
// of levels.
const besideEnd = 2 * vg.Millimeter

// levels draws lines up to end, and their names to the right of it.
type levels struct {
	of  []Level
	end float64
}

func (l levels) Plot(c draw.Canvas, p *plot.Plot) {
	line := plotter.DefaultLineStyle
	line.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
	names := p.Y.Tick.Label
	names.XAlign, names.YAlign = draw.XLeft, draw.YCenter
	toX, toY := p.Transforms(&c)
	below := c.Min.Y - names.FontExtents().Height
	for _, at := range slices.SortedFunc(slices.Values(l.of), func(a, b Level) int { return cmp.Compare(a.Y, b.Y) }) {
		y := toY(at.Y)
		c.StrokeLine2(line, c.Min.X, y, toX(l.end), y)
		below = max(y, below+names.FontExtents().Height) // names do not lie upon one another
		c.FillText(names, vg.Point{X: toX(l.end) + besideEnd, Y: below}, at.Name)
	}
}

// DataRange keeps the lines within the axes.
func (l levels) DataRange() (xmin, xmax, ymin, ymax float64) {
	xmin, xmax, ymin, ymax = l.end, l.end, math.Inf(1), math.Inf(-1)
	for _, at := range l.of {
		ymin, ymax = min(ymin, at.Y), max(ymax, at.Y)
	}
	return xmin, xmax, ymin, ymax
}
