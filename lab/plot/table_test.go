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

// Where a table has no row of a group and a series there is no bar, and the others stay in their places.
func TestTableGroups(t *testing.T) {
	table := &lab.Table{}
	table.Texts("net", "update")
	table.Numbers("R", "share")
	table.Add("A", "whole", 1, lab.Fixed(5, 0))
	table.Add("A", "whole", 2, lab.Fixed(6, 0))
	table.Add("A", "divided", 2, lab.Fixed(3, 0))
	table.Add("B", "whole", 4, lab.Fixed(7, 0))
	panels := TableGroups{Panel: "net", Group: "R", By: "update", Column: "share", Title: "R = %s", Name: "measured, %s", PanelTitle: "network %s"}.Panels(table)
	if len(panels) != 2 {
		t.Fatalf("%d panels: want those of A and B", len(panels))
	}
	a, b := panels[0].(*BarPanel), panels[1].(*BarPanel)
	if a.Title != "network A" || !slices.Equal(a.Names, []string{"R = 1", "R = 2"}) || !slices.Equal(b.Names, []string{"R = 4"}) {
		t.Errorf("%+v, %+v", a, b)
	}
	if whole := a.Series[0]; whole.Name != "measured, whole" || !slices.Equal(whole.Values, []float64{5, 6}) {
		t.Errorf("%+v", whole)
	}
	if divided := a.Series[1].Values; !math.IsNaN(divided[0]) || divided[1] != 3 || !math.IsNaN(b.Series[1].Values[0]) {
		t.Errorf("%v, %v", divided, b.Series[1].Values)
	}
}
