package gpipe

import (
	"math"
	"strings"
	"testing"

	"gpipebench/gpipe/accelerator"
	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/cells/cellstest"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
)

// fakePart is a part on a P100 of two cells, 2 and 4 of the paper, of which values are what of
// says for a variation's name.
func fakePart(of map[string][]float64) part {
	return part{
		table: "Table 3", network: "small", accelerator: "p100", goal: "Table 3", reach: 10,
		cells: []partCell{{"K = 4", 2, true}, {"K = 8", 4, true}},
		values: func(_ *records.Log, v accelerator.Variation) (figures []cells.Figure, err error) {
			values, ok := of[v.Name]
			if !ok {
				values = of[""]
			}
			for i, x := range values {
				figures = append(figures, cells.Figure{X: x, Fits: i > 0})
			}
			return figures, nil
		},
	}
}

// The assumption that moves a cell most comes first, and what moves none is not there.
func TestSensitivityTables(t *testing.T) {
	s := labtest.Loaded[*sensitivity](t, Paper.Experiment("sensitivity").Load)
	read := func(of map[string][]float64) []readPart {
		r, err := s.read(nil, fakePart(of))
		if err != nil {
			t.Fatal(err)
		}
		return []readPart{r}
	}
	own := []float64{2, 3} // off by 0 and 25%
	parts := read(map[string][]float64{
		"": own, "link, low": {1, 2.9}, "dense, f32, low": {1.9, 3.7}, "memory, low": own, "transfers beside computation": {2, 4},
	})
	var names []string
	for _, m := range parts[0].widest(1) {
		names = append(names, m.name)
	}
	if got := strings.Join(names, "; "); got != "transfers beside computation; dense, f32; link" {
		t.Errorf("widest: %s", got)
	}
	rows := s.mostTable(parts).Printed()
	if got := strings.Join(rows[1][3:], "|"); got != "4|3.00|-25%|dense, f32|3.70|3.00|dense, f32, low|3.70|-7%|transfers beside computation|4.00" {
		t.Errorf("K = 8: %s", got)
	}
	if got := strings.Join(rows[0][3:], "|"); got != "2|2.00 *|+0%|link|1.00|-|as it is|2.00|+0%|-|-" {
		t.Errorf("K = 4: %s", got)
	}
	goals := s.goalTable(parts)
	if got := len(goals.Rows); got != 4 { // as it is, link, dense, transfers
		t.Errorf("%d rows: %q", got, goals.Printed())
	}
	if got := len(s.tornados(&parts[0])); got != 2 {
		t.Errorf("%d plots", got)
	}
}

// Every table has its networks, without the cells that are 1 by definition, and every
// accelerator its bands.
func TestSensitivityParts(t *testing.T) {
	s := labtest.Loaded[*sensitivity](t, Paper.Experiment("sensitivity").Load)
	counted := map[string]int{}
	for _, p := range s.parts() {
		counted[p.table] += len(p.cells)
		published := 0
		for _, a := range s.assumptions(p.accelerator) {
			if a.published {
				published++
			}
			if a.ends == [2]*accelerator.Variation{} {
				t.Errorf("%s: %s has no end", p.accelerator, a.name)
			}
		}
		if published == 0 {
			t.Errorf("%s has no published band", p.accelerator)
		}
	}
	if counted["Table 2"] != 16 || counted["Table 3"] != 4 || counted["Figure 3"] != 7 {
		t.Errorf("cells %v", counted)
	}
}

// A part measures what it reads, and an end moves it.
func TestSensitivityScalePart(t *testing.T) {
	scale := cellstest.SmallScale(t)
	n := scale.Networks[0]
	n.Accelerator = "p100"
	p := scalePart("Table 3", scale, n)
	if len(p.cells) != 3 || p.cells[0].judged || !p.cells[2].judged {
		t.Fatalf("cells %+v", p.cells)
	}
	var link accelerator.Variation
	for _, b := range lab.Named(accelerator.Named, "p100").Bands() {
		if b.Name == accelerator.Link {
			link = *b.Low
		}
	}
	log := records.New(records.Key{})
	var values [2][]cells.Figure
	for i, v := range []accelerator.Variation{{}, link} {
		if err := lab.MakeMissing(t.Context(), "part", log, progress.Silent{}, p.jobs([]accelerator.Variation{v})); err != nil {
			t.Fatal(err)
		}
		var err error
		if values[i], err = p.values(log, v); err != nil || len(values[i]) != 3 {
			t.Fatal(values[i], err)
		}
	}
	if math.Abs(values[1][2].X/values[0][2].X-1) < 0.01 {
		t.Errorf("K = 3, M = 4: %v over a slow link, %v over a fast one", values[1][2], values[0][2])
	}
}

func TestSensitivitySpecErrors(t *testing.T) {
	labtest.CheckRefused(t, Paper.Experiment("sensitivity"), [][3]string{
		{"transfers beside computation", "luck", `unknown "luck": want activations not`},
		{"bars: 6", "bars: 0", "want a whole number from 1 to 20"},
	})
}
