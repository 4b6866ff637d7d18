package experiments

import (
	"slices"
	"testing"
)

func TestTableBars(t *testing.T) {
	table := &Table{Columns: []Column{{"net", true}, {"K", false}, {"paper", false}, {"measured", false}, {"95%", false}}}
	table.Add("A", "2", "1", "1.00*", "-")
	table.Add("A", "4", "-", "2.50", "[2.1, 2.75]")
	table.Add("B", "2", "3", "0.50", "-")
	panels := tableBars{panel: "net", group: "K", bars: []columnBars{{"paper", ""}, {"modelled", ""}, {"measured", "95%"}}}.panels(table)
	if len(panels) != 2 {
		t.Fatalf("%d panels: want those of A and B", len(panels))
	}
	a := panels[0].(*barPanel)
	if a.title != "A" || !slices.Equal(a.names, []string{"K = 2", "K = 4"}) || len(a.series) != 2 {
		t.Errorf("%+v", a)
	}
	if !slices.Equal(a.series[0].values, []float64{1, 0}) || !slices.Equal(a.series[1].values, []float64{1, 2.5}) {
		t.Errorf("bars %v, %v", a.series[0].values, a.series[1].values)
	}
	if want := []spread{{1, 2.1, 2.75}}; !slices.Equal(a.series[1].spread, want) {
		t.Errorf("intervals %v, want %v", a.series[1].spread, want)
	}
	if b := panels[1].(*barPanel); b.title != "B" || b.series[1].name != "measured" || b.series[1].values[0] != 0.5 {
		t.Errorf("%+v", b)
	}
}
