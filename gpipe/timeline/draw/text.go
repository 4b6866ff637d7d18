package draw

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"gpipebench/gpipe/timeline"
)

// MinTextWidth is the narrowest drawing that WriteText makes.
const MinTextWidth = 20

// WriteText draws the devices' events in the manner of the paper's Figure 2c:
// a row for each device, the last stage on top, time to the right, in width
// ASCII characters. A cell holds the event's label (F0, R12, B3) and blanks, or,
// where it is too narrow for that, its letter; a dot is idle time. A column shows what
// its middle falls on, so events much shorter than a column may not be seen. If
// all events begin and end on multiples of one time and the width allows it,
// that time is drawn a whole number of columns wide. Transfers on links are not
// drawn. A last line gives the step's length and explains the letters.
func WriteText(w io.Writer, tl *timeline.Timeline, width int) error {
	if width < MinTextWidth {
		return fmt.Errorf("draw: a drawing %d characters wide: want %d or more", width, MinTextWidth)
	}
	digits := len(strconv.Itoa(max(0, tl.Devices-1)))
	span := tl.Span()
	columns := columnsFor(tl, width-digits-len(" ||"))

	rows := make([][]byte, tl.Devices)
	for k := range rows {
		rows[k] = []byte(strings.Repeat(".", columns))
	}
	seen := map[timeline.Kind]bool{}
	for e := range tl.OnDevices() {
		if !(e.Start < e.End) {
			continue
		}
		seen[e.Kind] = true
		from := int(math.Round(e.Start / span * float64(columns)))
		to := int(math.Round(e.End / span * float64(columns)))
		copy(rows[tl.Device(e.At)][from:to], cell(e, to-from))
	}

	var out strings.Builder
	for k := tl.Devices - 1; k >= 0; k-- {
		fmt.Fprintf(&out, "%*d |%s|\n", digits, k, rows[k])
	}
	fmt.Fprintf(&out, "%*s  %s\n", digits, "", legend(span, seen))
	_, err := io.WriteString(w, out.String())
	return err
}

// cell is the text of an event n columns wide.
func cell(e timeline.Event, n int) string {
	look := lookOf(e.Kind)
	letter := string(look.cell)
	switch {
	case look.letter == "":
		return strings.Repeat(letter, n)
	case !e.Listed():
		return letter + strings.Repeat(" ", max(0, n-1))
	}
	text := e.Label()
	if len(text) > n {
		text = letter
	}
	return text + strings.Repeat(" ", max(0, n-len(text)))
}

func legend(span float64, seen map[timeline.Kind]bool) string {
	parts := []string{"step " + seconds(span)}
	for _, k := range slices.Sorted(maps.Keys(seen)) {
		look := lookOf(k)
		parts = append(parts, fmt.Sprintf("%c %s", look.cell, look.name))
	}
	return strings.Join(append(parts, ". idle"), "  ")
}

// columnsFor is how many of the columns to draw in: all of them, unless all
// events begin and end on multiples of one time that is then a whole number of
// columns wide.
func columnsFor(tl *timeline.Timeline, columns int) int {
	times, most := []float64{0}, 2*columns*(tl.Devices+1) // of events that are a column or more each
	for e := range tl.OnDevices() {
		if e.Start < e.End {
			times = append(times, e.Start, e.End)
		}
		if len(times) > most {
			return columns
		}
	}
	slices.Sort(times)
	span := times[len(times)-1]
	const tolerance = 1e-9
	unit := span
	for i, t := range times[1:] {
		if gap := t - times[i]; gap > tolerance*span {
			unit = min(unit, gap)
		}
	}
	units := math.Round(span / unit)
	if !(units <= float64(columns)) {
		return columns
	}
	for _, t := range times {
		if n := t / unit; math.Abs(n-math.Round(n)) > tolerance*units {
			return columns
		}
	}
	return columns / int(units) * int(units)
}
