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
	"gpipebench/lab"
	"gpipebench/lab/shown"
	"gpipebench/lab/timed"
	"gpipebench/train"
)

type timelinesSpec struct {
	timed.Profiled[timelinesProfile] `yaml:",inline"`
	Setup                            lab.SetupSpec `yaml:"setup"`
	Lanes                            int           `yaml:"lanes" want:"1..100,shown"`
}

type timelinesProfile struct {
	timed.Size `yaml:",inline"`
	Training   lab.TrainingSpec `yaml:"training"`
}

type timelinesRuns = timed.Comparison[timelinesProfile, gpipe.TableGradients, tableStep]

// timelines draws how each tensor is accumulated over replicas in a step, with the shared table
// gathered and reduced. It needs code since what it shows is a step's reductions.
type timelines = timed.Compared[timelinesSpec, timelinesProfile, gpipe.TableGradients, tableStep]

func newTimelines() (lab.Experiment, error) {
	x := &timelines{}
	s := &x.Spec
	x.Check, x.Training = s.check, s.training
	x.Runs = func(timelinesProfile) []gpipe.TableGradients { return tableWays }
	x.Name = gpipe.TableGradients.String
	x.Make = func(ctx context.Context, p timelinesProfile, way gpipe.TableGradients) (*tableStep, error) {
		r, err := s.training(p, way).Run(ctx, func(train.TrainStep) {})
		if err != nil {
			return nil, err
		}
		return tableStepOf(r)
	}
	x.Show = s.show
	return x, nil
}

func (s *timelinesSpec) check() *lab.Problem {
	if setup := s.Setup.Setup(); setup.Replicas < 2 || setup.Device != gpipe.Host || setup.ShardUpdate {
		return lab.At(errors.New("want two or more replicas on host devices, with updates that are not divided"), "setup")
	}
	for _, name := range lab.Profiles {
		t := s.Profiles[name].Training
		switch {
		case t.Model.Name != train.LanguageModel || t.Model.Tied == "" || t.Model.Tied == "none":
			return lab.At(fmt.Errorf("want %s with a tied softmax", train.LanguageModel), "profiles", name, "training", "model")
		case t.Steps < 1:
			return lab.At(errors.New("want 1 or more"), "profiles", name, "training", "steps")
		}
	}
	return nil
}

func (s *timelinesSpec) training(p timelinesProfile, way gpipe.TableGradients) train.Training {
	setup := s.Setup.Setup()
	setup.TiedGradients = way
	t := p.Training.Training("synthetic", setup, s.Seed)
	t.Reductions = true
	return t
}

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
	return s, s.Check()
}

// Check requires the shared table among the tensors.
func (s *tableStep) Check() error {
	if s.table() == nil || slices.ContainsFunc(s.Lanes, func(l tensorLane) bool { return len(l.Phases) < 2 }) {
		return errors.New("want the shared table, and two phases or more of each tensor")
	}
	return nil
}

// table is the shared table; nil if there is none.
func (s *tableStep) table() *tensorLane {
	for i := range s.Lanes {
		if strings.HasSuffix(s.Lanes[i].Tensor, "embedding/table") {
			return &s.Lanes[i]
		}
	}
	return nil
}

// accumulated is when the table is.
func (s *tableStep) accumulated() float64 { return s.table().end() }

// end is when the tensor is accumulated.
func (l *tensorLane) end() float64 { return l.Phases[1].End }

// typical is the step whose table's accumulation takes the median time, or next to it.
func typical(steps []*tableStep) *tableStep {
	sorted := slices.SortedStableFunc(slices.Values(steps), func(a, b *tableStep) int { return cmp.Compare(a.accumulated(), b.accumulated()) })
	return sorted[(len(sorted)-1)/2]
}

func (s *timelinesSpec) show(c *timelinesRuns) (shown.Rows, error) {
	first := c.Of[tableWays[0]][0].SHA256
	var rows []shown.Values
	for _, way := range tableWays {
		steps := c.Of[way]
		equal := !slices.ContainsFunc(steps, func(step *tableStep) bool { return step.SHA256 != first })
		if !equal {
			c.Verdict = errors.New("gathered and reduced gradients end with different weights")
		}
		row := shown.Values{
			"way": way.String(), "operation": steps[0].table().Phases[1].Name, "accumulated": c.Each(way, (*tableStep).accumulated),
			"reduced": []float64(nil), "hash": typical(steps).SHA256, "equal": equal,
		}
		if way == gpipe.GatherTied {
			row["reduced"] = c.Each(gpipe.ReduceTied, (*tableStep).accumulated)
		}
		rows = append(rows, row)
	}
	var page strings.Builder
	err := draw.WritePhases(&page, s.drawing("before: the shared table is gathered", c.Of[gpipe.GatherTied]), s.drawing("after: it is reduced", c.Of[gpipe.ReduceTied]))
	c.Files = []lab.File{{Name: s.Experiment + ".svg", Text: page.String()}}
	c.Before = nil // no time of another machine is shown
	return shown.Rows{"": rows}, err
}

// drawing has the lanes of the tensors whose accumulation takes longest, the table first.
func (s *timelinesSpec) drawing(caption string, steps []*tableStep) draw.PhaseDrawing {
	d, step := draw.PhaseDrawing{Caption: caption}, typical(steps)
	lanes, table := slices.Clone(step.Lanes), step.table().Tensor
	length := func(l *tensorLane) float64 {
		if l.Tensor == table {
			return l.end() + step.Seconds // first
		}
		return l.Phases[1].End - l.Phases[1].Start
	}
	slices.SortStableFunc(lanes, func(a, b tensorLane) int { return cmp.Compare(length(&b), length(&a)) })
	for _, l := range lanes[:min(len(lanes), s.Lanes)] {
		lane := draw.PhaseLane{Name: l.Tensor}
		for _, p := range l.Phases {
			lane.Phases = append(lane.Phases, timeline.Phase{Name: p.Name, Start: p.Start, End: p.End, Peer: -1, Bytes: p.Bytes})
		}
		d.Lanes = append(d.Lanes, lane)
	}
	return d
}
