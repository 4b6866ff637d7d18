// Package timedtest fills logs of rounds without measuring.
package timedtest

import (
	"testing"

	"gpipebench/gpipe/schedule"
	"gpipebench/internal/machine"
	"gpipebench/internal/testkit"
	"gpipebench/lab"
	"gpipebench/lab/records"
	"gpipebench/lab/timed"
)

// Timed is an experiment that embeds timed.Timed.
type Timed[P any] interface {
	lab.Experiment
	Rounds(profile string) (*timed.Rounds, P, error)
}

// Start returns an experiment's rounds and an empty log, in the smoke profile. A
// report of that log must say that it has no samples.
func Start[P any](t *testing.T, e Timed[P]) (*timed.Rounds, *records.Log) {
	t.Helper()
	r, _, err := e.Rounds("smoke")
	testkit.NoError(t, err)
	log := records.New(e.Key("smoke"))
	testkit.Refused(e.Report(log, nil))(t, "no sample")
	return r, log
}

// FillRounds gives every run's samples to a log, as devices would leave them on
// which a task of stage k takes of(run, k) per forward unit and twice as much
// backward. A forward unit is one part in K M of the network, M counted over all groups.
// Setup, update and adding up groups take ends nanoseconds.
func FillRounds(t *testing.T, log *records.Log, r *timed.Rounds, ends int64, of func(run *timed.Run, stage int) float64) {
	t.Helper()
	for i := range r.Runs {
		run := &r.Runs[i]
		setup := run.Training.Setup
		micro, replicas := len(run.Sizes()), max(setup.Replicas, 1)
		groups := max(setup.Groups, replicas)
		lists := testkit.Must(schedule.Build(setup.Schedule, setup.Partitions, micro, setup.Checkpoint, setup.LateRecompute))(t)
		s := &timed.Sample{}
		for at := range replicas * setup.Partitions {
			k := at % setup.Partitions
			unit := int64(float64(1<<24) / float64(setup.Partitions*micro*replicas) * of(run, k))
			f, rec, b := make([]int64, micro), make([]int64, micro), make([]int64, micro)
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
			s.Peak, s.HighWater = append(s.Peak, 1<<20), append(s.HighWater, 1<<20)
			if at < setup.Partitions {
				s.Partition = append(s.Partition, 1)
			}
			if groups > 1 {
				s.Reduce, s.Gather = append(s.Reduce, ends), append(s.Gather, 0)
			}
			if each := groups / replicas; each > 1 {
				sums := make([]int64, micro)
				for g := 1; g < each; g++ {
					sums[g*setup.MicroBatches-1] = ends
				}
				s.Groups = append(s.Groups, sums)
			}
		}
		layers := testkit.Must(run.Training.Model.Build())(t)
		s.Partition[0] += len(layers) - setup.Partitions
		times := testkit.Must(s.Times(run))(t)
		tl := testkit.Must(times.Replay())(t)
		s.Seconds = tl.Span()
		for round := range r.Count {
			for step := range run.Steps {
				testkit.NoError(t, log.Add(run.Sample(round, step), 1, s))
			}
		}
	}
	log.Session = records.Provenance{Time: "then", Machine: machine.Machine{CPU: "a machine", Cores: 2, GOMAXPROCS: 2}}
}

func Even(*timed.Run, int) float64 { return 1 }
