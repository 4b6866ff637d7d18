package trials

import (
	"fmt"
	"testing"

	"gpipebench/experiments/progress"
	"gpipebench/experiments/records"
	"gpipebench/experiments/workload"
	"gpipebench/experiments/workload/workloadtest"
	"gpipebench/internal/units"
)

// beginning keeps how work was announced.
type beginning struct {
	progress.Silent
	what []string
}

func (b *beginning) Begin(what string, _ int) { b.what = append(b.what, what) }

// Before the first training it is said how many are left and how much they compute.
func TestTrialsAnnounceTheirWork(t *testing.T) {
	tiny := func(steps int) Arm {
		return Arm{fmt.Sprintf("%d steps", steps), func(seed uint64) workload.Training {
			tr := workloadtest.TinyTraining()
			tr.Steps, tr.Seed = steps, seed
			return tr
		}}
	}
	one, err := tiny(1).Training(1).FLOPs()
	if err != nil {
		t.Fatal(err)
	}
	log, said := records.New(records.Key{Experiment: "e", Profile: "smoke"}), &beginning{}
	for _, c := range []struct {
		arms  []Arm
		seeds []uint64
		want  string
	}{
		{[]Arm{tiny(1)}, []uint64{3}, "e: 1 trainings, " + units.FormatFLOPs(one)},
		{[]Arm{tiny(1), tiny(5)}, []uint64{3, 4}, "e: 3 trainings, " + units.FormatFLOPs((1+5+5)*one)}, // less the one that is there
	} {
		if err := Run(t.Context(), "e", c.arms, c.seeds, log, said); err != nil {
			t.Fatal(err)
		}
		if got := said.what[len(said.what)-1]; got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	if err := Run(t.Context(), "e", []Arm{tiny(0)}, []uint64{9}, log, said); err == nil {
		t.Error("no error of a training without steps")
	}
}
