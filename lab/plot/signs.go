package plot

import (
	"math"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// outline is a hollow sign with a number of corners; 0: a circle. Its line is thick: gonum's
// hollow signs are too thin to tell their colours apart.
type outline struct{ corners int }

func (o outline) DrawGlyph(c *draw.Canvas, s draw.GlyphStyle, at vg.Point) {
	c.SetLineStyle(draw.LineStyle{Color: s.Color, Width: signLine(s)})
	radius := s.Radius - signLine(s)/2
	var p vg.Path
	if o.corners == 0 {
		p.Move(vg.Point{X: at.X + radius, Y: at.Y})
		p.Arc(at, radius, 0, 2*math.Pi)
	}
	for i := range o.corners {
		angle := math.Pi/2 + math.Pi*float64(2*i-(o.corners+1)%2)/float64(o.corners)
		corner := vg.Point{X: at.X + radius*vg.Length(math.Cos(angle)), Y: at.Y + radius*vg.Length(math.Sin(angle))}
		if i == 0 {
			p.Move(corner)
		} else {
			p.Line(corner)
		}
	}
	p.Close()
	c.Stroke(p)
}

// signLine is how thick a sign's lines are.
func signLine(s draw.GlyphStyle) vg.Length { return 0.5 * s.Radius }

// crossing is two thick lines that cross.
type crossing struct{ upright bool }

func (x crossing) DrawGlyph(c *draw.Canvas, s draw.GlyphStyle, at vg.Point) {
	line := draw.LineStyle{Color: s.Color, Width: signLine(s)}
	turn := math.Pi / 4
	if x.upright {
		turn = 0
	}
	for _, angle := range []float64{turn, turn + math.Pi/2} {
		dx, dy := s.Radius*vg.Length(math.Cos(angle)), s.Radius*vg.Length(math.Sin(angle))
		c.StrokeLine2(line, at.X-dx, at.Y-dy, at.X+dx, at.Y+dy)
	}
}
