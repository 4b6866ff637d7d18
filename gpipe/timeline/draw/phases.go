package draw

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strings"

	"gpipebench/gpipe/timeline"
)

// PhaseDrawing is a picture of phases, with its caption: a lane for each tensor.
type PhaseDrawing struct {
	Caption string
	Lanes   []PhaseLane
}

// PhaseLane are the phases of one tensor. Where two are at the same time the later one is
// drawn over the other.
type PhaseLane struct {
	Name   string
	Phases []timeline.Phase
}

// phaseInks are the colours of Okabe and Ito again, by Horovod's names.
var phaseInks = []struct{ name, class, ink string }{
	{"NEGOTIATE_ALLREDUCE", "negotiate", "#d0d0d0"}, {"NEGOTIATE_ALLGATHER", "negotiate", "#d0d0d0"},
	{"QUEUE", "queue", "#f0e442"}, {"WAIT_FOR_DATA", "wait", "#e69f00"}, {"MEMCPY_IN_FUSION_BUFFER", "pack", "#d98cb3"},
	{"MPI_ALLREDUCE", "carry", "#56b4e9"}, {"MPI_ALLGATHER", "carry", "#56b4e9"}, {"SUM_ROWS", "sum", "#2bb58a"},
	{"ALLREDUCE", "whole", "#9bb8cc"}, {"ALLGATHER", "whole", "#9bb8cc"},
}

// WritePhases draws phases under one another, over one axis of time from 0, in the manner of
// Horovod's timelines. Colours go by the names, which the boxes' titles say.
func WritePhases(w io.Writer, drawings ...PhaseDrawing) error {
	const lane, line = 14.0, 17.0 // the height of a lane, and of the name above it
	p := &picture{y: 10}
	var span float64
	var captions []string
	for _, d := range drawings {
		captions = append(captions, d.Caption)
		for _, l := range d.Lanes {
			for _, ph := range l.Phases {
				if !(ph.Start >= 0 && ph.End >= ph.Start) || math.IsInf(ph.End, 0) {
					return fmt.Errorf("draw: %s of %s from %v to %v s: want 0 <= start <= end", ph.Name, l.Name, ph.Start, ph.End)
				}
				span = max(span, ph.End)
			}
		}
	}
	if span > 0 {
		p.scale = (svgRight - svgLeft) / span
	}
	seen := map[string]bool{}
	for _, d := range drawings {
		p.y += 18
		p.text("caption", 8, p.y, d.Caption)
		p.y += 6
		for _, l := range d.Lanes {
			p.y += line
			p.text("name", svgLeft, p.y-4, l.Name)
			fmt.Fprintf(&p.body, `<rect class="lane" x="%d" y="%s" width="%d" height="%s"/>`+"\n", svgLeft, pixels(p.y), svgRight-svgLeft, pixels(lane))
			for _, ph := range l.Phases {
				for _, look := range phaseInks {
					if ph.Name == look.name {
						seen[look.class] = true
						what := fmt.Sprintf("%s, %s to %s", ph.Name, seconds(ph.Start), seconds(ph.End))
						if ph.Bytes > 0 {
							what += fmt.Sprintf(", %d bytes", ph.Bytes)
						}
						fmt.Fprintf(&p.body, `<rect class="%s" x="%s" y="%s" width="%s" height="%s"><title>%s</title></rect>`+"\n",
							look.class, pixels(p.x(ph.Start)), pixels(p.y), pixels((ph.End-ph.Start)*p.scale), pixels(lane), escaped(what))
					}
				}
			}
			p.y += lane
		}
		p.y += 8
	}
	axis := p.axis(span)
	p.y += 14
	x := float64(svgLeft)
	for _, e := range []struct{ class, name string }{
		{"negotiate", "NEGOTIATE"}, {"queue", "QUEUE"}, {"wait", "WAIT_FOR_DATA"}, {"pack", "MEMCPY_IN"}, {"carry", "MPI"}, {"sum", "SUM_ROWS"}, {"whole", "the rest"},
	} {
		if seen[e.class] {
			fmt.Fprintf(&p.body, `<rect class="%s" x="%s" y="%s" width="14" height="14"/>`+"\n", e.class, pixels(x), pixels(p.y))
			p.text("name", x+19, p.y+11.5, e.name)
			x += 19 + 0.7*svgText*float64(len(e.name)) + 16
		}
	}
	p.y += 28
	var inks strings.Builder
	drawn := map[string]bool{}
	for _, look := range phaseInks {
		if !drawn[look.class] {
			fmt.Fprintf(&inks, ".%s { fill: %s }\n", look.class, look.ink)
		}
		drawn[look.class] = true
	}
	return p.write(w, cmp.Or(strings.Join(captions, "; "), "phases"), inks.String(), axis)
}
