package experiments

import (
	"image/color"
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// axes is one set of axes. The legend of one is enough.
type axes interface {
	plot(legend bool) (*plot.Plot, error)
}

// panel is lines.
type panel struct {
	title, x    string
	logarithmic bool // the y axis; what is not above 0 is left out
	fromZero    bool // the y axis, with room above for the names
	series      []series
}

// series is lines of one name and colour.
type series struct {
	name  string
	lines [][]point
}

type point struct{ x, y float64 }

// palette is Okabe and Ito's, which the colour-blind can tell apart.
var palette = []color.Color{
	color.RGBA{0xd5, 0x5e, 0x00, 0xff}, color.RGBA{0xe6, 0x9f, 0x00, 0xff}, color.RGBA{0x56, 0xb4, 0xe9, 0xff}, color.RGBA{0x00, 0x9e, 0x73, 0xff},
	color.RGBA{0xcc, 0x79, 0xa7, 0xff}, color.RGBA{0x00, 0x72, 0xb2, 0xff}, color.RGBA{0xf0, 0xe4, 0x42, 0xff}, color.RGBA{0x00, 0x00, 0x00, 0xff},
}

// panelWidth is that of a panel with its axis.
const panelWidth = 14 * vg.Centimeter

// plotFiles draws panels, two to a row, as name.svg and name.png. The title
// stands above the first.
func plotFiles(name, title string, panels []axes) ([]File, error) {
	columns := min(2, len(panels))
	rows := (len(panels) + columns - 1) / columns
	grid := make([][]*plot.Plot, rows)
	for r := range grid {
		grid[r] = make([]*plot.Plot, columns)
	}
	for i, p := range panels {
		drawn, err := p.plot(i == 0)
		if err != nil {
			return nil, err
		}
		grid[i/columns][i%columns] = drawn
	}
	width, height := vg.Length(columns)*panelWidth, vg.Length(rows)*9*vg.Centimeter+vg.Centimeter
	paint := func(c vg.CanvasSizer) {
		whole := draw.New(c)
		heading := plot.New()
		heading.Title.Text = title
		heading.HideAxes()
		top := whole
		top.Min.Y = top.Max.Y - vg.Centimeter
		heading.Draw(top)
		rest := draw.Crop(whole, 0, 0, 0, -vg.Centimeter)
		canvases := plot.Align(grid, draw.Tiles{
			Rows: rows, Cols: columns, PadX: 6 * vg.Millimeter, PadY: 6 * vg.Millimeter,
			PadTop: 2 * vg.Millimeter, PadBottom: 2 * vg.Millimeter, PadLeft: 2 * vg.Millimeter, PadRight: 4 * vg.Millimeter,
		}, rest)
		for r := range grid {
			for k, p := range grid[r] {
				if p != nil {
					p.Draw(canvases[r][k])
				}
			}
		}
	}
	var svg, png strings.Builder
	vector := vgsvg.New(width, height)
	paint(vector)
	if _, err := vector.WriteTo(&svg); err != nil {
		return nil, err
	}
	pixels := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(96), vgimg.UseBackgroundColor(color.White))}
	paint(pixels)
	if _, err := pixels.WriteTo(&png); err != nil {
		return nil, err
	}
	return []File{{name + ".svg", svg.String()}, {name + ".png", png.String()}}, nil
}

func (p panel) plot(legend bool) (*plot.Plot, error) {
	out := plot.New()
	out.Title.Text, out.X.Label.Text = p.title, p.x
	out.Add(plotter.NewGrid())
	lowest, highest := math.Inf(1), math.Inf(-1)
	for i, s := range p.series {
		for k, line := range s.lines {
			var xys plotter.XYs
			for _, at := range line {
				if !p.logarithmic || at.y > 0 { // a logarithm has no place for 0
					xys = append(xys, plotter.XY{X: at.x, Y: at.y})
					lowest, highest = min(lowest, at.y), max(highest, at.y)
				}
			}
			if len(xys) == 0 {
				continue
			}
			l, err := plotter.NewLine(xys)
			if err != nil {
				return nil, err
			}
			l.Color = palette[i%len(palette)]
			l.Width = vg.Points(0.8)
			out.Add(l)
			if legend && k == 0 {
				out.Legend.Add(s.name, l)
			}
		}
	}
	out.Legend.Top, out.Legend.Padding = true, vg.Millimeter
	if p.fromZero {
		out.Y.Min, out.Y.Max = 0, highest*1.3
	}
	if p.logarithmic && lowest <= highest {
		if lowest == highest {
			lowest, highest = lowest/2, highest*2
		}
		lowest = max(lowest, highest*1e-9) // what has died away needs no room
		if legend {
			highest *= 4 // for the names
		}
		out.Y.Min, out.Y.Max = lowest, highest
		out.Y.Scale = plot.LogScale{}
		out.Y.Tick.Marker = powers{}
	}
	return out, nil
}

// powers marks powers of ten on a logarithmic axis: at most some eight with a
// label, and 2 to 9 times each on an axis that has few.
type powers struct{}

func (powers) Ticks(lo, hi float64) (ticks []plot.Tick) {
	from, to := int(math.Floor(math.Log10(lo))), int(math.Ceil(math.Log10(hi)))
	every := (to-from)/8 + 1
	for e := from; e <= to; e++ {
		for digit := 1; digit < 10; digit++ {
			v := float64(digit) * math.Pow10(e)
			label := ""
			switch {
			case digit == 1 && e%every == 0, to-from <= 2 && (digit == 2 || digit == 5):
				label = strconv.FormatFloat(v, 'g', -1, 32)
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
