package densify

import (
	"strings"
	"testing"

	"gpipebench/internal/progress"
	"gpipebench/internal/testkit"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/lab/timed/timedtest"
)

// Both tableWays of the smallest profile run, end with the same weights, and are drawn on one
// page, the gather above; an interrupted experiment goes on.
func TestTimelinesMeasure(t *testing.T) {
	x := labtest.Loaded[*timelines](t, Paper.Experiment("densify-timeline").Load)
	log := records.New(x.Key("smoke"))
	labtest.CheckLacking(t, x, log)
	testkit.NoError(t, x.Measure(t.Context(), log, progress.Silent{}))
	r := labtest.Reported(t, x, log)
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
			testkit.Has(t, half, "<title>"+name+",")
		}
	}
	if strings.Contains(page[below:], "MPI_ALLGATHER") {
		t.Error("a reduced table is gathered")
	}
}

// The drawn training is the one whose table takes the median time, whatever their order.
func TestTimelinesTypical(t *testing.T) {
	var steps []*tableStep
	for _, end := range []float64{5, 1, 4, 2, 3} {
		steps = append(steps, &tableStep{Seconds: end, Lanes: []tensorLane{{"embedding/table", make([]lanePhase, 2)}}})
		steps[len(steps)-1].Lanes[0].Phases[1].End = end
	}
	testkit.Equal(t, typical(steps).Seconds, 3, "of 1 to 5 the one with")
}

// Other weights of one way are a verdict, and a sample without the table is refused.
func TestTimelinesVerdict(t *testing.T) {
	x := labtest.Loaded[*timelines](t, Paper.Experiment("densify-timeline").Load)
	labtest.CheckVerdict(t, x, "reduce/round=1", func(s *tableStep) { s.SHA256 = "cd" }, "different weights")
	timedtest.CheckRecords(t, map[string]*tableStep{"want the shared table": {Lanes: []tensorLane{{"bias", make([]lanePhase, 2)}}}})
}
