package densify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gpipebench/gpipe"
	"gpipebench/gpipe/timeline"
	"gpipebench/gpipe/timeline/draw"
	"gpipebench/internal/progress"
	"gpipebench/internal/stats"
	"gpipebench/lab"
	"gpipebench/lab/records"
	"gpipebench/train"
)

type timelinesSpec struct {
	lab.Head `yaml:",inline"`
	Setup    lab.SetupSpec               `yaml:"setup"`
	Lanes    int                         `yaml:"lanes" want:"1..100,shown"`
	Profiles map[string]timelinesProfile `yaml:"profiles"`
}

type timelinesProfile struct {
	Expected lab.Span         `yaml:"expected" want:"shown"`
	Rounds   int              `yaml:"rounds" want:"1..1000"`
	Training lab.TrainingSpec `yaml:"training"`
}

// timelines draws how each tensor is accumulated over replicas in a step, with the shared table
// gathered and reduced. It has code of its own since what it shows is a step's reductions.
type timelines struct {
	lab.Base[timelinesSpec]
	setup train.Setup
}

func (x *timelines) Resolve() *lab.Problem {
	x.setup = x.Spec.Setup.Setup()
	if x.setup.Replicas < 2 || x.setup.Device != gpipe.Host || x.setup.ShardUpdate {
		return lab.At(errors.New("want two or more replicas on host devices, with updates that are not divided"), "setup")
	}
	for _, name := range lab.Profiles {
		t := x.Spec.Profiles[name].Training
		switch {
		case t.Model.Name != train.LanguageModel || t.Model.Tied == "" || t.Model.Tied == "none":
			return lab.At(fmt.Errorf("want %s with a tied softmax", train.LanguageModel), "profiles", name, "training", "model")
		case t.Steps < 1:
			return lab.At(errors.New("want 1 or more"), "profiles", name, "training", "steps")
		}
	}
	return nil
}

// tableWays are those of the paper's figure, from the top.
var tableWays = []gpipe.TableGradients{gpipe.GatherTied, gpipe.ReduceTied}

// tableStep is a training in one way and what its last step did, as the first replica sees it.
// Seconds are from the end of this replica's gradients.
type tableStep struct {
	SHA256  string       `json:"sha256"`
	Seconds float64      `json:"seconds"` // of the step
	Lanes   []tensorLane `json:"lanes"`
}

// tensorLane is a tensor.
type tensorLane struct {
	Tensor string      `json:"tensor"`
	Phases []lanePhase `json:"phases"` // the operation second, then what is within it
}

// lanePhase is a timeline.Phase.
type lanePhase struct {
	Name  string  `json:"name"`
	Start float64 `json:"start"`
	End   float64 `json:"end"`
	Bytes int64   `json:"bytes,omitempty"`
}

// seconds is the sum of the phases of a name.
func (l *tensorLane) seconds(names ...string) (sum float64) {
	for _, p := range l.Phases {
		if slices.Contains(names, p.Name) {
			sum += p.End - p.Start
		}
	}
	return sum
}

// end is when the tensor is accumulated.
func (l *tensorLane) end() float64 { return l.Phases[1].End }

func (x *timelines) training(p timelinesProfile, way gpipe.TableGradients) train.Training {
	setup := x.setup
	setup.TiedGradients = way
	t := p.Training.Training("synthetic", setup, x.Spec.Seed)
	t.Reductions = true
	return t
}

func timelineSample(way gpipe.TableGradients, round int) string {
	return fmt.Sprintf("%v/round=%d", way, round)
}

// Measure trains what the log lacks, both ways in each round. Which is first alternates.
func (x *timelines) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	profile, err := lab.ProfileOf(x.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return err
	}
	p.Begin(fmt.Sprintf("%s: %d rounds", x.ID(), profile.Rounds), len(tableWays)*profile.Rounds)
	defer p.End()
	for round := range profile.Rounds {
		for i := range tableWays {
			way := tableWays[(i+round)%len(tableWays)]
			name := timelineSample(way, round)
			if !log.Has(name) {
				if err := x.measure(ctx, log, name, x.training(profile, way)); err != nil {
					return fmt.Errorf("%s, %s: %w", x.ID(), name, err)
				}
			}
			p.Advance(name)
		}
	}
	return nil
}

func (x *timelines) measure(ctx context.Context, log *records.Log, name string, t train.Training) error {
	r, err := t.Run(ctx, func(train.TrainStep) {})
	if err != nil {
		return err
	}
	s, err := tableStepOf(r)
	if err != nil {
		return err
	}
	return log.Add(name, x.Spec.Seed, s)
}

// tableStepOf takes what the first replica saw of the last step.
func tableStepOf(r *train.Result) (*tableStep, error) {
	tl := r.LastStep
	s := &tableStep{SHA256: r.WeightsSHA256, Seconds: tl.Span()}
	for i := range tl.Reductions {
		of := &tl.Reductions[i]
		if of.At.Replica > 0 {
			continue
		}
		l := tensorLane{Tensor: of.Tensor}
		negotiate, operation, all := of.Phases(tl.Ready(of.At.Stage))
		for _, ph := range slices.Concat([]timeline.Phase{negotiate, operation}, all) {
			l.Phases = append(l.Phases, lanePhase{ph.Name, ph.Start - of.Ready, ph.End - of.Ready, ph.Bytes})
		}
		s.Lanes = append(s.Lanes, l)
	}
	if len(s.Lanes) == 0 {
		return nil, errors.New("a step of replicas has no reductions")
	}
	return s, nil
}

// wayTimes are a way's samples by round, and what the report has of each.
type wayTimes struct {
	samples []*tableStep
	tensor  string // the shared table
	how     string // the operation that accumulates it

	waiting, packing, transfer, rows []float64 // of the table
	table, all, step                 []float64 // ends of the table's accumulation, of all tensors', and the step
}

// read reads a way's samples.
func (x *timelines) read(log *records.Log, way gpipe.TableGradients, rounds int) (*wayTimes, error) {
	of := &wayTimes{}
	for round := range rounds {
		s := &tableStep{}
		if err := log.Get(timelineSample(way, round), s); err != nil {
			return nil, err
		}
		i := slices.IndexFunc(s.Lanes, func(l tensorLane) bool { return strings.HasSuffix(l.Tensor, "embedding/table") })
		if i < 0 || slices.ContainsFunc(s.Lanes, func(l tensorLane) bool { return len(l.Phases) < 2 }) {
			return nil, fmt.Errorf("%s: %v: want the shared table, and two phases or more of each tensor", x.ID(), way)
		}
		table, all := &s.Lanes[i], 0.0
		for i := range s.Lanes {
			all = max(all, s.Lanes[i].end())
		}
		of.samples, of.tensor, of.how = append(of.samples, s), table.Tensor, table.Phases[1].Name
		of.waiting = append(of.waiting, table.seconds("NEGOTIATE_ALLGATHER", "NEGOTIATE_ALLREDUCE", "WAIT_FOR_DATA"))
		of.packing = append(of.packing, table.seconds("MEMCPY_IN_FUSION_BUFFER"))
		of.transfer = append(of.transfer, table.seconds("MPI_ALLGATHER", "MPI_ALLREDUCE"))
		of.rows = append(of.rows, table.seconds("SUM_ROWS"))
		of.table, of.all, of.step = append(of.table, table.end()), append(of.all, all), append(of.step, s.Seconds)
	}
	return of, nil
}

// typical is the sample whose table's accumulation takes the median time, or next to it.
func (s *wayTimes) typical() *tableStep {
	rounds := make([]int, len(s.table))
	for i := range rounds {
		rounds[i] = i
	}
	slices.SortStableFunc(rounds, func(a, b int) int { return cmp.Compare(s.table[a], s.table[b]) })
	return s.samples[rounds[(len(rounds)-1)/2]]
}

func (x *timelines) Report(log, _ *records.Log) (*lab.Report, error) {
	p, err := lab.ProfileOf(x.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	t := &lab.Table{ID: x.ID(), Title: x.Title(), Caption: []string{
		fmt.Sprintf("Of %d replicas on one machine, in the last step of each of %d trainings with each way, in turns, as the first replica sees it, from the end of its own gradients; medians, in brackets the 95%% interval of order statistics. Waiting: for the slowest replica, then for data. Accumulated: when the shared table's gradient is, and that of all tensors. There may be fewer cores than replicas. Drawn: the training in which the table took the median time.", x.setup.Replicas, p.Rounds),
	}}
	t.Texts("way", "operation")
	t.Numbers("waiting", "packing", "transfer", "adding up rows", "table accumulated", "95%, table", "all accumulated", "step", "gather / reduce", "95%, gather / reduce")
	t.Texts("SHA-256 of the weights", "equal")
	read := map[gpipe.TableGradients]*wayTimes{}
	for _, way := range tableWays {
		if read[way], err = x.read(log, way, p.Rounds); err != nil {
			return nil, err
		}
	}
	var drawings []draw.PhaseDrawing
	first := read[tableWays[0]].samples[0].SHA256
	r := &lab.Report{Tables: []*lab.Table{t}}
	for _, way := range tableWays {
		of := read[way]
		typical := of.typical()
		equal := !slices.ContainsFunc(of.samples, func(s *tableStep) bool { return s.SHA256 != first })
		slower := []lab.Value{lab.Absent, lab.Absent}
		if way == gpipe.GatherTied {
			slower = lab.Ratio(stats.RatioOf(of.table, read[gpipe.ReduceTied].table), false)
		}
		seconds := func(xs []float64) lab.Value { return lab.Seconds(stats.Median(xs)) }
		t.Add(way.String(), of.how, seconds(of.waiting), seconds(of.packing), seconds(of.transfer), seconds(of.rows),
			lab.Median(of.table, lab.Seconds), seconds(of.all), seconds(of.step), slower, typical.SHA256, lab.YesOrNo(equal))
		drawings = append(drawings, x.drawing(way, typical, of.tensor))
		if !equal {
			r.Verdict = fmt.Errorf("%s: gathered and reduced gradients end with different weights", x.ID())
		}
	}
	t.Notes = lab.FewRoundsNote(p.Rounds)
	var page strings.Builder
	if err := draw.WritePhases(&page, drawings...); err != nil {
		return nil, err
	}
	r.Files = []lab.File{{Name: x.ID() + ".svg", Text: page.String()}}
	return r, nil
}

// drawing has the lanes of the tensors whose accumulation takes longest, the table first.
func (x *timelines) drawing(way gpipe.TableGradients, s *tableStep, table string) draw.PhaseDrawing {
	d := draw.PhaseDrawing{Caption: map[gpipe.TableGradients]string{
		gpipe.GatherTied: "before: the shared table is gathered", gpipe.ReduceTied: "after: it is reduced",
	}[way]}
	lanes := slices.Clone(s.Lanes)
	length := func(l *tensorLane) float64 {
		if l.Tensor == table {
			return l.end() + s.Seconds // first
		}
		return l.Phases[1].End - l.Phases[1].Start
	}
	slices.SortStableFunc(lanes, func(a, b tensorLane) int { return cmp.Compare(length(&b), length(&a)) })
	for _, l := range lanes[:min(len(lanes), x.Spec.Lanes)] {
		lane := draw.PhaseLane{Name: l.Tensor}
		for _, p := range l.Phases {
			lane.Phases = append(lane.Phases, timeline.Phase{Name: p.Name, Start: p.Start, End: p.End, Peer: -1, Bytes: p.Bytes})
		}
		d.Lanes = append(d.Lanes, lane)
	}
	return d
}

// Planned are the trainings of both ways.
func (x *timelines) Planned(profile string) (list []lab.PlannedRun) {
	for _, way := range tableWays {
		list = append(list, lab.PlannedRun{Path: []string{"profiles", profile}, Run: x.training(x.Spec.Profiles[profile], way)})
	}
	return list
}
