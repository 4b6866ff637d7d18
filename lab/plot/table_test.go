package plot

import (
	"math"
	"slices"
	"testing"

	"gpipebench/lab"
)

// Bars are as high as values are, however those are printed.
func TestTableBars(t *testing.T) {
	table := &lab.Table{}
	table.Texts("net")
	table.Numbers("K", "paper", "measured", "95%")
	table.Add("A", 2, 1, lab.Joined("%v*", lab.Fixed(1, 2)), "-")
	wide := lab.Fixed(2.5, 0)
	wide.Interval = []float64{2.1, 2.75}
	table.Add("A", 4, "-", wide, "2 to 3")
	table.Add("B", 2, 3, lab.Fixed(0.5, 2), "-")
	panels := TableBars{Panel: "net", Group: "K", Across: "paper", Bars: []string{"modelled", "measured"}}.Panels(table)
	if len(panels) != 2 {
		t.Fatalf("%d panels: want those of A and B", len(panels))
	}
	a := panels[0].(onScale).Axes.(*BarPanel)
	if a.Title != "A" || !slices.Equal(a.Names, []string{"K = 2", "K = 4"}) || len(a.Series) != 2 {
		t.Errorf("%+v", a)
	}
	if a.Series[0].As != Across || a.Series[1].As != Bar {
		t.Errorf("shapes %v, %v: want a line across and bars", a.Series[0].As, a.Series[1].As)
	}
	if v := a.Series[0].Values; v[0] != 1 || !math.IsNaN(v[1]) || !slices.Equal(a.Series[1].Values, []float64{1, 2.5}) {
		t.Errorf("bars %v, %v", a.Series[0].Values, a.Series[1].Values)
	}
	if want := []Spread{{1, 2.1, 2.75}}; !slices.Equal(a.Series[1].Spread, want) {
		t.Errorf("intervals %v, want %v", a.Series[1].Spread, want)
	}
	if b := panels[1].(onScale).Axes.(*BarPanel); b.Title != "B" || b.Series[1].Name != "measured" || b.Series[1].Values[0] != 0.5 {
		t.Errorf("%+v", b)
	}
}
