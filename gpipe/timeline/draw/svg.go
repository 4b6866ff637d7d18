package draw

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/timeline"
)

// Drawing is one timeline of a picture.
type Drawing struct {
	Caption  string // above it; any text
	Timeline *timeline.Timeline
}

// Measures of a picture, in pixels.
const (
	svgWidth = 1000
	svgLeft  = 78 // of the lanes: room for a device's name
	svgRight = svgWidth - 22
	svgLane  = 32 // the height of a lane, at most
	svgText  = 13 // size of a font
	svgIndex = 9  // that of an index

	maxBoxes = 1 << 14 // of a timeline's events, or else cells
)

// WriteSVG draws timelines under one another, each with its caption, over one
// common axis of time, in the manner of the paper's Figure 2c: a row for each
// device, the last stage on top, time to the right, a box for each F, R and B of
// a (stage, micro-batch), the updates at the end. Colours distinguish kinds,
// the later chunks of a device are paler, hatching is idle time, and a box too narrow for its label has only its letter or
// nothing; its title, which browsers show under the pointer, says what it is.
// Transfers on links are not drawn. Of more than maxBoxes events, each device's time is cut
// into cells, in which every kind has as much of the height as it has of the time.
//
// The picture needs no other file, follows its reader's light or dark colour
// scheme, and is the same bytes for the same events in whatever order.
func WriteSVG(w io.Writer, drawings ...Drawing) error {
	p := &picture{seen: map[timeline.Kind]bool{}}
	var span float64
	var captions []string
	for _, d := range drawings {
		span = max(span, d.Timeline.Span())
		if d.Caption != "" {
			captions = append(captions, d.Caption)
		}
	}
	if !(span < math.Inf(1)) {
		return fmt.Errorf("draw: a step of %v seconds cannot be drawn", span)
	}
	if span > 0 {
		p.scale = (svgRight - svgLeft) / span
	}
	p.y = 10
	for _, d := range drawings {
		p.draw(d)
	}
	axis := p.axis(span)
	p.legend()
	var inks strings.Builder
	for _, look := range looks {
		// Pictures without these kinds stay as they were before there were any.
		later := look.kind == timeline.BackwardInput || look.kind == timeline.BackwardWeights || look.kind == timeline.Rows
		if look.ink != "" && (!later || p.seen[look.kind]) {
			fmt.Fprintf(&inks, ".%s { fill: %s }\n", look.class, look.ink)
		}
	}
	return p.write(w, cmp.Or(strings.Join(captions, "; "), "timeline"), inks.String(), axis)
}

// write writes what has been drawn, over its axis, with the colours of classes.
func (p *picture) write(w io.Writer, title, inks, axis string) error {
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%s" viewBox="0 0 %[1]d %[2]s" role="img">
<title>%s</title>
`+svgHead+`%s%s</svg>
`, svgWidth, pixels(p.y), escaped(title), inks, axis, p.body.String())
	return err
}

// svgHead is the style of a picture, less the colours of kinds.
const svgHead = `<style>
text { font-family: Helvetica, Arial, sans-serif; font-size: 13px; fill: #1a1a1a }
.ground { fill: #ffffff }
.caption { font-size: 15px; font-weight: bold }
.device, .end { text-anchor: end }
.tick, .middle, .label, .bubble { text-anchor: middle }
.label, .label tspan { fill: #111111; pointer-events: none }
.index { font-size: 9px }
.bubble { font-style: italic; pointer-events: none }
.caption, .end, .bubble { stroke: #ffffff; stroke-width: 5px; paint-order: stroke }
.grid { stroke: #d0d0d0; stroke-width: 1 }
.lane { fill: #f4f4f4 }
.hatch { stroke: #cccccc; stroke-width: 1.5 }
.barrier { fill: none; pointer-events: all }
%s@media (prefers-color-scheme: dark) {
text { fill: #e6e6e6 }
.ground { fill: #16181c }
.caption, .end, .bubble { stroke: #16181c }
.grid { stroke: #3a3d42 }
.lane { fill: #202328 }
.hatch { stroke: #44484e }
}
</style>
<defs><pattern id="idle" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="lane" width="6" height="6"/><line class="hatch" x1="0" y1="0" x2="0" y2="6"/></pattern></defs>
<rect class="ground" width="100%%" height="100%%"/>
`

// picture is a picture while it is drawn.
type picture struct {
	body  strings.Builder
	y     float64 // where the next thing goes
	scale float64 // pixels a second
	seen  map[timeline.Kind]bool
	paler bool // chunks after the first of a device are drawn
	dense bool // too many events are
}

func (p *picture) x(t float64) float64 { return svgLeft + t*p.scale }

func (p *picture) text(class string, x, y float64, text string) {
	fmt.Fprintf(&p.body, `<text class="%s" x="%s" y="%s">%s</text>`+"\n", class, pixels(x), pixels(y), escaped(text))
}

// draw draws one timeline below what is there.
func (p *picture) draw(d Drawing) {
	tl := d.Timeline
	span := tl.Span()
	p.y += 18
	if d.Caption != "" {
		p.text("caption", 8, p.y, d.Caption)
	}
	p.text("end", svgRight, p.y, "step "+seconds(span))
	p.y += 8

	// Lanes of many devices are lower, and not all have a name.
	lane := min(svgLane, max(6, 8*svgLane/float64(max(tl.Devices, 1))))
	gap := lane / 8
	every := int(math.Ceil((svgText + 1) / (lane + gap)))
	top := p.y
	at := func(device int) float64 { return top + float64(tl.Devices-1-device)*(lane+gap) }
	for k := tl.Devices - 1; k >= 0; k-- {
		if k%every == 0 {
			p.text("device", svgLeft-8, at(k)+lane/2+4.5, "device "+strconv.Itoa(k))
		}
		if span > 0 {
			fmt.Fprintf(&p.body, `<rect fill="url(#idle)" x="%d" y="%s" width="%s" height="%s"/>`+"\n", svgLeft, pixels(at(k)), pixels(span*p.scale), pixels(lane))
		}
	}
	p.y = top + float64(tl.Devices)*(lane+gap) + 6
	boxes := 0
	for e := range tl.OnDevices() {
		if e.Start < e.End {
			boxes++
		}
	}
	if boxes > maxBoxes {
		p.density(tl, span, at, lane)
		return
	}
	events := slices.Collect(tl.OnDevices())
	slices.SortFunc(events, func(a, b timeline.Event) int {
		return cmp.Or(-cmp.Compare(tl.Device(a.At), tl.Device(b.At)), cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Micro, b.Micro))
	})
	var idle timeline.Event // the longest
	busy := make([]float64, tl.Devices)
	wait := func(device int, until float64) {
		if e := (timeline.Event{At: place.Place{Replica: device / tl.Stages(), Stage: device % tl.Stages()}, Start: busy[device], End: until}); e.Seconds() > idle.Seconds() {
			idle = e
		}
	}
	for _, e := range events {
		if e.Start < e.End {
			p.seen[e.Kind] = true
			p.box(e, at(tl.Device(e.At)), lane)
			if e.Kind == timeline.Barrier {
				continue // idle as well
			}
			wait(tl.Device(e.At), e.Start)
			busy[tl.Device(e.At)] = max(busy[tl.Device(e.At)], e.End)
		}
	}
	for k := tl.Devices - 1; k >= 0; k-- {
		wait(k, span)
	}
	if lane >= svgText && idle.Seconds()*p.scale >= 56 {
		p.text("bubble", p.x((idle.Start+idle.End)/2), at(tl.Device(idle.At))+lane/2+4.5, "bubble")
	}
}

// density draws what kinds' shares of the time are, in cells of each device's lane. Neighbouring
// cells with the same shares are one.
func (p *picture) density(tl *timeline.Timeline, span float64, at func(device int) float64, lane float64) {
	const levels = 8 // of shares
	p.dense = true
	cells := max(1, min(svgRight-svgLeft, maxBoxes/tl.Devices))
	width := span / float64(cells)
	shares := make([][len(looks)]float64, tl.Devices*cells)
	for e := range tl.OnDevices() {
		if e.Kind == timeline.Barrier || e.Kind == timeline.Meet || !(e.Start < e.End) { // idle, or within a task
			continue
		}
		p.seen[e.Kind] = true
		look := slices.IndexFunc(looks[:], func(l look) bool { return l.kind == e.Kind })
		for cell := min(cells-1, int(e.Start/width)); cell < cells && float64(cell)*width < e.End; cell++ {
			shares[tl.Device(e.At)*cells+cell][look] += max(0, min(e.End, float64(cell+1)*width)-max(e.Start, float64(cell)*width)) / width
		}
	}
	for d := range tl.Devices {
		own := shares[d*cells : (d+1)*cells]
		tops := func(cell int) (tops [len(looks)]int) { // of the kinds' boxes, over one another
			sum := 0.0
			for i, share := range own[cell] {
				sum += share
				tops[i] = min(levels, int(math.Round(levels*sum)))
			}
			return tops
		}
		for cell := 0; cell < cells; {
			same, from := tops(cell), cell
			for cell < cells && tops(cell) == same {
				cell++
			}
			if same[len(looks)-1] == 0 {
				continue
			}
			start, end := float64(from)*width, float64(cell)*width
			fmt.Fprintf(&p.body, "<g><title>device %d, %s to %s</title>", d%tl.Stages(), seconds(start), seconds(end))
			below := 0
			for i, top := range same {
				if top > below {
					fmt.Fprintf(&p.body, `<rect class="%s" x="%s" y="%s" width="%s" height="%s"/>`, looks[i].class, pixels(p.x(start)),
						pixels(at(d)+lane*float64(levels-top)/levels), pixels((end-start)*p.scale), pixels(lane*float64(top-below)/levels))
				}
				below = top
			}
			p.body.WriteString("</g>\n")
		}
	}
}

// box draws one event as a box, with as much of its label as it can hold.
func (p *picture) box(e timeline.Event, y, height float64) {
	look := lookOf(e.Kind)
	x, width := p.x(e.Start), e.Seconds()*p.scale
	seam := min(1, width/5) // between neighbours
	what := look.name
	if e.Micro >= 0 {
		what += fmt.Sprintf(" of micro-batch %d", e.Micro)
	}
	paler := ""
	if e.At.Chunk > 0 {
		p.paler = true
		what += fmt.Sprintf(" in chunk %d", e.At.Chunk)
		paler = fmt.Sprintf(` fill-opacity="%s"`, pixels(max(0.25, math.Pow(0.6, float64(e.At.Chunk)))))
	}
	fmt.Fprintf(&p.body, `<rect class="%s"%s x="%s" y="%s" width="%s" height="%s"><title>device %d: %s, %s to %s</title></rect>`+"\n",
		look.class, paler, pixels(x), pixels(y), pixels(width-seam), pixels(height), e.At.Stage, what, seconds(e.Start), seconds(e.End))

	if look.letter == "" || height < svgText {
		return
	}
	middle, base := x+(width-seam)/2, y+height/2
	index := ""
	if e.Listed() {
		index = fmt.Sprintf("%d,%d", e.At.Stage, e.Micro)
	}
	// A sans-serif font's capitals are about 0.7 of its size wide, its digits 0.56.
	letterWide, indexWide := 0.7*svgText, 0.56*svgIndex*(float64(len(index))-0.5)
	switch {
	case index == "" && width >= 0.6*svgText*float64(len(look.name)):
		p.text("label", middle, base+4.5, look.name)
	case index != "" && width >= letterWide+indexWide+3:
		fmt.Fprintf(&p.body, `<text class="label" x="%s" y="%s">%s<tspan class="index" dy="3.5">%s</tspan></text>`+"\n", pixels(middle), pixels(base+3.5), look.letter, index)
	case index != "" && width >= max(letterWide, indexWide)+1 && height >= svgText+svgIndex+4:
		// The index under its letter.
		p.text("label", middle, base, look.letter)
		p.text("label index", middle, base+10.5, index)
	case width >= letterWide+1:
		p.text("label", middle, base+4.5, look.letter)
	}
}

// axis draws the axis of time below the timelines, and returns the grid, which
// belongs under them.
func (p *picture) axis(span float64) (grid string) {
	var lines strings.Builder
	unit := timeUnits[len(timeUnits)-1]
	for _, u := range slices.Backward(timeUnits) {
		if span >= u.size {
			unit = u
		}
	}
	step := niceStep(span / unit.size / 10)
	p.y += svgText
	for i := 0; ; i++ {
		t := float64(i) * step
		if t*unit.size > span*(1+1e-9) {
			break
		}
		x := p.x(t * unit.size)
		fmt.Fprintf(&lines, `<line class="grid" x1="%s" y1="10" x2="%[1]s" y2="%s"/>`+"\n", pixels(x), pixels(p.y-svgText))
		p.text("tick", x, p.y, strconv.FormatFloat(t, 'g', 6, 64)+" "+unit.name)
		if step == 0 {
			break
		}
	}
	return lines.String()
}

// niceStep is the smallest of 1, 2 and 5 times a power of ten that is not below
// least; 0 if that is not above 0.
func niceStep(least float64) float64 {
	if !(least > 0) {
		return 0
	}
	power := math.Pow(10, math.Floor(math.Log10(least)))
	for _, f := range []float64{1, 2, 5} {
		if f*power >= least*(1-1e-9) {
			return f * power
		}
	}
	return 10 * power
}

// legend explains the colours that occur.
func (p *picture) legend() {
	p.y += 14
	x := float64(svgLeft)
	entry := func(fill, name string) {
		fmt.Fprintf(&p.body, `<rect %s x="%s" y="%s" width="14" height="14"/>`+"\n", fill, pixels(x), pixels(p.y))
		p.text("name", x+19, p.y+11.5, name)
		x += 19 + 0.58*svgText*float64(len(name)) + 20
	}
	for _, l := range looks {
		if p.seen[l.kind] && l.kind != timeline.Barrier {
			entry(fmt.Sprintf(`class="%s"`, l.class), l.name)
		}
	}
	entry(`fill="url(#idle)"`, "idle")
	p.y += 32
	text := "F k,m is the forward of micro-batch m on device k; R and B likewise"
	if p.paler {
		text += "; paler: its later chunks"
	}
	if p.dense {
		text = "too many tasks to tell apart: a colour's height is its share of the time"
	}
	p.text("name", svgLeft, p.y, text)
	p.y += 12
}
