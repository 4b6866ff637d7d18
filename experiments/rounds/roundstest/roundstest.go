// Package roundstest fills logs of rounds without measuring.
package roundstest

import (
	"testing"

	"gpipebench/experiments/gpipe/figure3"
	"gpipebench/experiments/machine"
	"gpipebench/experiments/records"
	"gpipebench/experiments/rounds"
	"gpipebench/gpipe/schedule"
)

// FillRounds gives every run's samples to a log, as devices would leave them on
// which a task of stage k takes of(run, k) per forward unit and twice as much
// backward. A forward unit is one part in K M of the network. Setup and update
// take ends nanoseconds.
func FillRounds(t *testing.T, log *records.Log, r *rounds.Rounds, ends int64, of func(run *rounds.Run, stage int) float64) {
	t.Helper()
	for i := range r.Runs {
		run := &r.Runs[i]
		setup := run.Training.Setup
		lists, err := schedule.Build(setup.Schedule, setup.Partitions, setup.MicroBatches, setup.Checkpoint, setup.LateRecompute)
		if err != nil {
			t.Fatal(err)
		}
		s := &rounds.Sample{}
		for k := range setup.Partitions {
			unit := int64(float64(1<<24) / float64(setup.Partitions*setup.MicroBatches) * of(run, k))
			f, rec, b := make([]int64, setup.MicroBatches), make([]int64, setup.MicroBatches), make([]int64, setup.MicroBatches)
			for _, task := range lists[k] {
				switch task.Kind {
				case schedule.Forward:
					f[task.Micro] = unit
				case schedule.Recompute:
					rec[task.Micro] = unit
				case schedule.Backward:
					b[task.Micro] = 2 * unit
				}
			}
			s.F, s.R, s.B = append(s.F, f), append(s.R, rec), append(s.B, b)
			s.Setup, s.Update = append(s.Setup, ends), append(s.Update, ends)
			s.Partition, s.Peak, s.HighWater = append(s.Partition, 1), append(s.Peak, 1<<20), append(s.HighWater, 1<<20)
		}
		layers, err := run.Training.Model.Build()
		if err != nil {
			t.Fatal(err)
		}
		s.Partition[0] += len(layers) - setup.Partitions
		tl, err := s.Times(lists).Replay()
		if err != nil {
			t.Fatal(err)
		}
		s.Seconds = tl.Span()
		for round := range r.Count {
			for step := range run.Steps {
				if err := log.Add(run.Sample(round, step), 1, s); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for i := range r.Runs {
		if err := log.Add(figure3.ModelledName(r.Runs[i].Name), 0, figure3.ModelledSample{Batch: 32, Seconds: 2, Filled: 64, FilledSeconds: 2}); err != nil {
			t.Fatal(err)
		}
	}
	log.Session = records.Provenance{Time: "then", Machine: machine.Machine{CPU: "a machine", Cores: 2, GOMAXPROCS: 2}}
}

func Even(*rounds.Run, int) float64 { return 1 }
