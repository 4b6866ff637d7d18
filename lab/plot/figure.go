package plot

import (
	"fmt"
	"html"
	"image/color"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"gpipebench/internal/files"
	"gpipebench/internal/printable"
	"gpipebench/lab"
)

// Axes is one set of axes of a figure.
type Axes interface {
	// seriesNames are the names of the series, in the legend's order. A figure gives every
	// name one colour, and shows it once.
	seriesNames() []string
	// plot draws axes for a panel of a width.
	plot(inks map[string]color.Color, width vg.Length) (*plot.Plot, []legendEntry, error)
}

// legendEntry is a name in a legend and its sign.
type legendEntry struct {
	name  string
	thumb plot.Thumbnailer
}

// A panel is so narrow that its letters are legible on a phone, where a panel is
// as wide as the page, and three panels side by side are on a page of a desk.
const (
	panelWidth  = 9 * vg.Centimeter
	onePanel    = 15 * vg.Centimeter
	widePanel   = 18 * vg.Centimeter
	panelHeight = 7.5 * vg.Centimeter
	panelGap    = 4 * vg.Millimeter
)

// layoutOf is how many panels stand side by side, and how wide they are: three at most, and four
// panels as two by two. One alone has room for names. Panels stand one below the other if one has
// many groups, whose names would stand aslant in less.
func layoutOf(panels []Axes) (columns int, width vg.Length) {
	const many = 7
	wide := false
	for _, p := range panels {
		if of, ok := p.(interface{ groupNames() []string }); ok && len(of.groupNames()) >= many {
			_, narrow := folded(of.groupNames(), panelWidth)
			_, still := folded(of.groupNames(), widePanel)
			wide = wide || narrow && !still
		}
	}
	switch n := len(panels); {
	case n == 1:
		return 1, onePanel
	case wide:
		return 1, widePanel
	case n == 4:
		return 2, panelWidth
	default:
		return min(n, 3), panelWidth
	}
}

// Sizes of letters.
const (
	findingSize = 12
	titleSize   = 11
	labelSize   = 10
	tickSize    = 9.5
)

// newPlot is an empty plot in the figures' style.
func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	for _, s := range []struct {
		of   *text.Style
		size vg.Length
	}{
		{&p.Title.TextStyle, titleSize}, {&p.X.Label.TextStyle, labelSize}, {&p.Y.Label.TextStyle, labelSize},
		{&p.X.Tick.Label, tickSize}, {&p.Y.Tick.Label, tickSize},
	} {
		s.of.Font.Variant, s.of.Font.Size = "Sans", s.size
	}
	p.Title.Padding = 2 * vg.Millimeter
	p.X.Tick.Marker, p.Y.Tick.Marker = roundTicks{}, roundTicks{}
	return p
}

// letters are the letters of plots without axes.
func letters(size vg.Length) text.Style {
	s := newPlot("", "", "").Title.TextStyle
	s.Font.Size = size
	s.XAlign, s.YAlign = text.XLeft, text.YBottom
	return s
}

// Colours are Okabe and Ito's, whose colours the colour-blind can distinguish, and a few between
// them. Black is a dark grey: vgsvg does not write the colour of black areas, and a dark page
// needs another.
var (
	vermilion = color.RGBA{0xd5, 0x5e, 0x00, 0xff}
	orange    = color.RGBA{0xe6, 0x9f, 0x00, 0xff}
	brown     = color.RGBA{0xa6, 0x76, 0x1d, 0xff}
	blue      = color.RGBA{0x00, 0x72, 0xb2, 0xff}
	skyBlue   = color.RGBA{0x56, 0xb4, 0xe9, 0xff}
	navy      = color.RGBA{0x4a, 0x5f, 0xc1, 0xff}
	green     = color.RGBA{0x00, 0x9e, 0x73, 0xff}
	purple    = color.RGBA{0xcc, 0x79, 0xa7, 0xff}
	yellow    = color.RGBA{0xf0, 0xe4, 0x42, 0xff}
	black     = color.RGBA{0x22, 0x22, 0x22, 0xff}
	olive     = color.RGBA{0x8a, 0x8f, 0x3c, 0xff}
	violet    = color.RGBA{0x8e, 0x63, 0xce, 0xff}
	wine      = color.RGBA{0x9a, 0x3b, 0x6e, 0xff}
	lime      = color.RGBA{0xa3, 0xd9, 0x77, 0xff}
	mint      = color.RGBA{0x8f, 0xd3, 0xc8, 0xff}
	tan       = color.RGBA{0xc2, 0xa7, 0x84, 0xff}
	lightGrey = color.RGBA{0x99, 0x99, 0x99, 0xff}
	darkGrey  = color.RGBA{0x55, 0x55, 0x55, 0xff}
)

// Ink reads a colour of the form #rrggbb, as drawings have it.
func Ink(name string) color.Color {
	n, err := strconv.ParseUint(strings.TrimPrefix(name, "#"), 16, 24)
	if err != nil || len(name) != len("#rrggbb") {
		panic(fmt.Sprintf("plot: colour %q: want #rrggbb", name)) // it is part of the program
	}
	return color.RGBA{uint8(n >> 16), uint8(n >> 8), uint8(n), 0xff}
}

// Voices are the colours of the sources of numbers, the same in all figures and in the
// heads of the report's tables; those of the paper, models and measurements are of nothing else. A
// series has the voice with whose prefix its name begins: the first of a figure has the first
// colour, the second the second.
var Voices = []struct {
	Prefix string
	Inks   []color.Color
}{
	{"paper", []color.Color{vermilion}},
	{"torchgpipe", []color.Color{purple}},
	{"theory", []color.Color{lightGrey}},
	{"closed form", []color.Color{darkGrey}},
	{"modelled", []color.Color{orange, brown}},
	{"measured", []color.Color{blue, skyBlue, navy}},
}

// Neutral are the colours of series that are none of these, such as networks or variants.
var Neutral = []color.Color{green, purple, black, yellow, violet, olive, lime, wine, mint, tan}

// inks gives every name its colour: a voice's, or the next neutral one that no voice has in this
// figure. What legends say of intervals and dots needs none.
func inks(names []string) map[string]color.Color {
	signs := []string{eachDot, meanDot, MeanSpan, medianSign, interval95}
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(signs, name) })
	of, taken := map[string]color.Color{}, map[color.Color]bool{}
	for _, v := range Voices {
		n := 0
		for _, name := range names {
			if _, known := of[name]; !known && strings.HasPrefix(name, v.Prefix) {
				of[name] = v.Inks[n%len(v.Inks)]
				taken[of[name]] = true
				n++
			}
		}
	}
	free := slices.DeleteFunc(slices.Clone(Neutral), func(c color.Color) bool { return taken[c] })
	n := 0
	for _, name := range names {
		if _, known := of[name]; !known {
			of[name] = free[n%len(free)]
			n++
		}
	}
	return of
}

// figure is a heading, the legend below it, and the panels.
type figure struct {
	width, height vg.Length
	pieces        []piece
}

// piece is a part of a figure that a page may put elsewhere: a line of the finding or of the
// subject, a sign of the legend, a name beside it, or a panel.
type piece struct {
	class string
	label string       // of a line: the line; of a sign: its name
	at    vg.Rectangle // in the figure, upwards from below
	paint func(draw.Canvas)
}

// Files draws panels as name.svg.
func Files(name string, heading lab.Heading, panels []Axes) ([]lab.File, error) {
	f, err := newFigure(heading, panels)
	if err != nil {
		return nil, err
	}
	svg, err := f.svg()
	return []lab.File{{Name: name + ".svg", Text: svg}}, err
}

// Figure draws panels of an experiment as ID.svg, below the finding over its tables. N says how many
// rounds or seeds they are of; "": it is not said.
func Figure(of Headed, n string, tables []*lab.Table, panels []Axes) ([]lab.File, error) {
	heading, err := of.Heading(n, tables...)
	if err != nil {
		return nil, err
	}
	return Files(of.ID(), heading, panels)
}

// Headed is what has figures: an experiment.
type Headed interface {
	ID() string
	Heading(n string, tables ...*lab.Table) (lab.Heading, error)
}

// Write draws axes into a file.
func Write(name, title string, of Axes) error {
	drawn, err := Files("", lab.Heading{Subject: title}, []Axes{of})
	if err != nil {
		return err
	}
	return files.Write(name, drawn[0].Write)
}

func newFigure(over lab.Heading, panels []Axes) (*figure, error) {
	var names []string
	for _, p := range panels {
		names = append(names, p.seriesNames()...)
	}
	colors := inks(names)
	columns, width := layoutOf(panels)
	rows := (len(panels) + columns - 1) / columns
	var plots []*plot.Plot
	legend := map[string]legendEntry{}
	for _, p := range panels {
		drawn, keys, err := p.plot(colors, width)
		if err != nil {
			return nil, err
		}
		plots = append(plots, drawn)
		for _, k := range keys {
			if _, ok := legend[k.name]; !ok {
				legend[k.name] = k
			}
		}
	}
	const gap = panelGap
	f := &figure{width: vg.Length(columns)*(width+gap) + gap}
	// y runs downwards from 0; at the end all pieces are moved up.
	y := -vg.Length(gap)
	below := func(height vg.Length) { y -= height }
	for _, h := range []struct {
		class, text string
		size        vg.Length
	}{{"finding", over.Finding, findingSize}, {"subject", over.Subject, labelSize}} {
		if h.text == "" {
			continue
		}
		style := letters(h.size)
		for _, line := range printable.Fold(h.text, func(line string) bool { return style.Width(line) <= f.width-2*gap }) {
			height := style.Height(line)
			below(height)
			f.pieces = append(f.pieces, piece{h.class, line, vg.Rectangle{Min: vg.Point{X: gap, Y: y}, Max: vg.Point{X: f.width - gap, Y: y + height}}, func(c draw.Canvas) {
				c.FillText(style, c.Min, line)
			}})
			below(vg.Millimeter)
		}
	}
	below(2 * vg.Millimeter)
	entry := letters(labelSize)
	entry.YAlign = text.YCenter
	const thumb, space = 5 * vg.Millimeter, 1.5 * vg.Millimeter
	height := entry.FontExtents().Height
	x := vg.Length(gap)
	first := true
	for _, name := range names {
		k, ok := legend[name]
		if !ok {
			continue
		}
		delete(legend, name) // once
		width := thumb + space + entry.Width(name) + vg.Millimeter
		if first || x+width > f.width-gap {
			below(height)
			if !first {
				below(vg.Millimeter)
			}
			x, first = gap, false
		}
		f.pieces = append(f.pieces, piece{"sign", name, vg.Rectangle{Min: vg.Point{X: x, Y: y}, Max: vg.Point{X: x + thumb, Y: y + height}}, func(c draw.Canvas) {
			c.Min.Y, c.Max.Y = c.Min.Y+0.15*height, c.Max.Y-0.15*height
			k.thumb.Thumbnail(&c)
		}}, piece{"name", "", vg.Rectangle{Min: vg.Point{X: x + thumb + space, Y: y}, Max: vg.Point{X: x + width, Y: y + height}}, func(c draw.Canvas) {
			c.FillText(entry, vg.Point{X: c.Min.X, Y: c.Center().Y}, name)
		}})
		x += width + 3*vg.Millimeter
	}
	below(gap)
	for i, p := range plots {
		at := vg.Point{X: gap + vg.Length(i%columns)*(width+gap), Y: y - panelHeight - vg.Length(i/columns)*(panelHeight+gap)}
		f.pieces = append(f.pieces, piece{"panel", "", vg.Rectangle{Min: at, Max: at.Add(vg.Point{X: width, Y: panelHeight})}, p.Draw})
	}
	f.height = vg.Length(rows)*(panelHeight+gap) - y
	for i := range f.pieces {
		f.pieces[i].at.Min.Y += f.height
		f.pieces[i].at.Max.Y += f.height
	}
	return f, nil
}

var (
	// svgHead is what begins an SVG of vgsvg.
	svgHead = regexp.MustCompile(`(?s)^.*?<svg[^>]*>`)
	// svgLetters is a text of vgsvg: its place, size, colour and letters.
	svgLetters = regexp.MustCompile(`<text ([^\n]*)\n\tstyle="font-family:[^"]*;font-size:([0-9.]+)px([^"]*)">([^<]*)</text>`)
)

// measured gives the texts of an SVG of vgsvg the widths that they have in the font that
// the figure was laid out with. A reader may have another font: its letters are drawn
// narrower or wider, so that nothing lies upon anything else in any font.
func measured(svg string) string {
	return svgLetters.ReplaceAllStringFunc(svg, func(whole string) string {
		m := svgLetters.FindStringSubmatch(whole)
		size, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			panic(err) // the expression has found it
		}
		wide := letters(vg.Points(size))
		return fmt.Sprintf(`<text %s textLength="%.5g" lengthAdjust="spacingAndGlyphs" style="font-family:'Liberation Sans',Arial,Helvetica,sans-serif;font-size:%spx%s">%s</text>`,
			m[1], wide.Width(html.UnescapeString(m[4])).Points(), m[2], m[3], m[4])
	})
}

// svg writes every piece as an element of its own, so that a page can lay them out
// differently.
func (f *figure) svg() (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, `<?xml version="1.0"?>
<svg xmlns="http://www.w3.org/2000/svg" width="%.5gpt" height="%.5gpt" viewBox="0 0 %.5[1]g %.5[2]g">
<rect class="ground" width="100%%" height="100%%" style="fill:#FFFFFF"/>
`, f.width.Points(), f.height.Points())
	for _, p := range f.pieces {
		size := p.at.Size()
		canvas := vgsvg.New(size.X, size.Y)
		p.paint(draw.New(canvas))
		var own strings.Builder
		if _, err := canvas.WriteTo(&own); err != nil {
			return "", err
		}
		label := ""
		if p.label != "" {
			label = fmt.Sprintf(` aria-label="%s"`, html.EscapeString(p.label))
		}
		b.WriteString(fmt.Sprintf(`<svg class="%s"%s x="%.5g" y="%.5g" width="%.5g" height="%.5g" viewBox="0 0 %.5[5]g %.5[6]g" overflow="visible">`,
			p.class, label, p.at.Min.X.Points(), (f.height - p.at.Max.Y).Points(), size.X.Points(), size.Y.Points()))
		b.WriteString(measured(svgHead.ReplaceAllString(own.String(), "")))
	}
	b.WriteString("</svg>\n")
	return b.String(), nil
}
