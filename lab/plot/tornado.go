package plot

import (
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// TornadoPanel shows how far each of several assumptions moves one value: a bar from the
// value to where each end of the assumption's band moves it, and the paper's value as a
// line. The axis is at least a tenth of the value wide, so that what moves it little looks
// little.
type TornadoPanel struct {
	Title, X string
	Value    float64 // with no assumption moved
	Paper    float64
	Swings   []Swing
}

// Swing is where an assumption's two ends move the value; NaN: it has no such end.
type Swing struct {
	Name      string
	Low, High float64
}

// The names of its signs.
const (
	paperLine = "paper"
	asItIs    = "modelled"
	lowEnd    = "at the low end of the band"
	highEnd   = "at the high end, or the other way"
)

func (p *TornadoPanel) seriesNames() []string { return []string{paperLine, asItIs, lowEnd, highEnd} }

func (p *TornadoPanel) plot(inks map[string]color.Color, _ vg.Length) (*plot.Plot, []legendEntry, error) {
	out := newPlot(p.Title, p.X, "")
	t := tornado{p, inks}
	out.Add(t)
	pad := 0.04 * (out.X.Max - out.X.Min)
	out.X.Min, out.X.Max = out.X.Min-pad, out.X.Max+pad
	out.HideY()
	out.X.Tick.Marker = innerTicks{}
	key := func(name string) legendEntry { return legendEntry{name, bars{ink: inks[name]}} }
	line := func(name string) legendEntry { return legendEntry{name, signs{draw: tick(inks[name])}} }
	return out, []legendEntry{line(paperLine), line(asItIs), key(lowEnd), key(highEnd)}, nil
}

// tornado is the bars: swing i is between y = -i-1 and -i, its name in the upper half.
type tornado struct {
	*TornadoPanel
	inks map[string]color.Color
}

func (t tornado) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	letters := p.Y.Tick.Label
	letters.XAlign, letters.YAlign = draw.XLeft, draw.YCenter
	for i, s := range t.Swings {
		top := -float64(i)
		for _, end := range []struct {
			at  float64
			ink color.Color
		}{{s.Low, t.inks[lowEnd]}, {s.High, t.inks[highEnd]}} {
			if !math.IsNaN(end.at) {
				fill(c, end.ink, toX(t.Value), toY(top-0.9), toX(end.at), toY(top-0.5))
			}
		}
		for _, line := range []struct {
			at  float64
			ink color.Color
		}{{t.Paper, t.inks[paperLine]}, {t.Value, t.inks[asItIs]}} {
			c.StrokeLine2(draw.LineStyle{Color: line.ink, Width: vg.Points(2.2)}, toX(line.at), toY(top-0.97), toX(line.at), toY(top-0.43))
		}
		c.FillText(letters, vg.Point{X: c.Min.X + vg.Millimeter, Y: toY(top - 0.25)}, s.Name)
	}
}

// DataRange keeps the bars and both lines within the axes.
func (t tornado) DataRange() (xmin, xmax, ymin, ymax float64) {
	xmin, xmax = min(0.95*t.Value, t.Paper), max(1.05*t.Value, t.Paper)
	for _, s := range t.Swings {
		for _, at := range []float64{s.Low, s.High} {
			if !math.IsNaN(at) {
				xmin, xmax = min(xmin, at), max(xmax, at)
			}
		}
	}
	return xmin, xmax, -float64(len(t.Swings)), 0
}
