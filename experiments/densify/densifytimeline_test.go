package densify

import (
	"strings"
	"testing"

	"gpipebench/internal/progress"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
)

// Both tableWays of the smallest profile run, end with the same weights, and are drawn on one
// page, the gather above; an interrupted experiment goes on.
func TestTimelinesMeasure(t *testing.T) {
	x := labtest.Loaded[*timelines](t, Paper.Experiment("densify-timeline").Load)
	log := records.New(x.Key("smoke"))
	labtest.CheckLacking(t, x, log)
	if err := x.Measure(t.Context(), log, progress.Silent{}); err != nil {
		t.Fatal(err)
	}
	r, err := x.Report(log, nil)
	if err != nil || r.Verdict != nil {
		t.Fatal(err, r.Verdict)
	}
	table := r.Tables[0]
	if got := table.Printed(); len(got) != 2 || got[0][1] != "ALLGATHER" || got[1][1] != "ALLREDUCE" || table.Rows[1][table.Column("equal")].Text != "yes" {
		t.Errorf("%v", got)
	}
	page := r.Files[0].Text
	above, below := strings.Index(page, ">before: the shared table is gathered<"), strings.Index(page, ">after: it is reduced<")
	if above < 0 || below < above {
		t.Error("the gather is not above the reduction")
	}
	for half, names := range map[string][]string{
		page[above:below]: {"NEGOTIATE_ALLGATHER", "MEMCPY_IN_FUSION_BUFFER", "MPI_ALLGATHER", "SUM_ROWS", "MPI_ALLREDUCE"},
		page[below:]:      {"NEGOTIATE_ALLREDUCE", "MPI_ALLREDUCE"},
	} {
		for _, name := range names {
			if !strings.Contains(half, "<title>"+name+",") {
				t.Errorf("no %s", name)
			}
		}
	}
	if strings.Contains(page[below:], "MPI_ALLGATHER") {
		t.Error("a reduced table is gathered")
	}
}

// The drawn training is the one whose table takes the median time, whatever their order.
func TestTimelinesTypical(t *testing.T) {
	var s wayTimes
	for _, end := range []float64{5, 1, 4, 2, 3} {
		s.table = append(s.table, end)
		s.samples = append(s.samples, &tableStep{Seconds: end})
	}
	if got := s.typical().Seconds; got != 3 {
		t.Errorf("of 1 to 5 the one with %g", got)
	}
}

// Other weights of one way are a verdict, and a sample without the table an error.
func TestTimelinesReportRefuses(t *testing.T) {
	x := labtest.Loaded[*timelines](t, Paper.Experiment("densify-timeline").Load)
	lane := tensorLane{"embedding/table", []lanePhase{{"NEGOTIATE_ALLREDUCE", 0, 1, 0}, {"ALLREDUCE", 1, 2, 0}}}
	report := func(other string, lanes ...tensorLane) (verdict, err error) {
		log := records.New(x.Key("smoke"))
		for _, way := range tableWays {
			s := tableStep{SHA256: "ab", Seconds: 3, Lanes: lanes}
			if way == tableWays[1] {
				s.SHA256 = other
			}
			for round := range x.Spec.Profiles["smoke"].Rounds {
				if err := log.Add(timelineSample(way, round), 1, s); err != nil {
					t.Fatal(err)
				}
			}
		}
		r, err := x.Report(log, nil)
		if err != nil {
			return nil, err
		}
		return r.Verdict, nil
	}
	if verdict, err := report("ab", lane); verdict != nil || err != nil {
		t.Error(verdict, err)
	}
	if verdict, _ := report("cd", lane); verdict == nil || !strings.Contains(verdict.Error(), "different weights") {
		t.Errorf("verdict %v", verdict)
	}
	if _, err := report("ab", tensorLane{"bias", lane.Phases}); err == nil || !strings.Contains(err.Error(), "want the shared table") {
		t.Errorf("%v", err)
	}
}
