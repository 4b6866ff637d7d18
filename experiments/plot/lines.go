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
	Doubling    bool // the x axis is logarithmic, too, and marked at powers of two
	FromZero    bool // the y axis
	Series      []Series
	Levels      []Level
}

// Series is lines of one name and colour.
type Series struct {
	Name  string
	Lines [][]Point
}

type Point struct{ X, Y float64 }

// Curve is how many points of a training's losses are drawn.
const Curve = 100

// Binned returns at most so many points of a series with a value for each step: means
// of every so many steps, each at the last of them.
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
	return names
}

func (p LinePanel) plot(inks map[string]color.Color) (*plot.Plot, []legendEntry, error) {
	title, y := p.Title, p.Y
	if p.Logarithmic {
		// gonum/plot keeps room for the axis' name where the middle of a linear
		// axis would be, which is near the end of this one.
		title, y = strings.TrimSpace(title+"\n"+y), ""
	}
	out := newPlot(title, p.X, y)
	out.Add(plotter.NewGrid())
	var keys []legendEntry
	lowest, highest, end, count := math.Inf(1), math.Inf(-1), math.Inf(-1), 0
	for _, s := range p.Series {
		count += len(s.Lines)
	}
	for i, s := range p.Series {
		known := false
		for _, line := range s.Lines {
			var xys plotter.XYs
			for _, at := range line {
				if !p.Logarithmic || at.Y > 0 { // a logarithm has no place for 0
					xys = append(xys, plotter.XY{X: at.X, Y: at.Y})
					lowest, highest, end = min(lowest, at.Y), max(highest, at.Y), max(end, at.X)
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
			dots.GlyphStyle = draw.GlyphStyle{Color: inks[s.Name], Radius: vg.Points(3), Shape: shapes[i%len(shapes)]}
			var thumb plot.Thumbnailer = l
			switch {
			case len(xys) == 1:
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
	if p.FromZero {
		out.Y.Min, out.Y.Max = 0, highest*1.05
	}
	if p.Logarithmic && lowest <= highest {
		if lowest == highest {
			lowest, highest = lowest/2, highest*2
		}
		lowest = max(lowest, highest*1e-9) // what has died away needs no room
		out.Y.Min, out.Y.Max = lowest, highest*1.1
		out.Y.Scale = plot.LogScale{}
		out.Y.Tick.Marker = powers{}
	}
	if p.Doubling {
		out.X.Scale = plot.LogScale{}
		out.X.Tick.Marker = powersOfTwo{}
	}
	if len(p.Levels) > 0 {
		var widest vg.Length
		for _, at := range p.Levels {
			widest = max(widest, out.Y.Tick.Label.Width(at.Name))
		}
		const inside = 0.85 * panelWidth // of the axis, about
		out.X.Tick.Marker = upTo{end}
		out.X.Max = out.X.Min + (end-out.X.Min)*float64(inside/(inside-widest-2*vg.Millimeter))
		out.Add(levels{p.Levels, end})
	}
	return out, keys, nil
}

// both is a thumbnail over another.
type both struct{ below, above plot.Thumbnailer }

func (b both) Thumbnail(c *draw.Canvas) {
	b.below.Thumbnail(c)
	b.above.Thumbnail(c)
}

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
		c.FillText(names, vg.Point{X: toX(l.end) + vg.Millimeter, Y: below}, at.Name)
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
