// Package timelines draws how each tensor is accumulated over replicas in a step, with the
// shared table gathered and reduced.
package timelines

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gpipebench/experiments/progress"
	"gpipebench/experiments/records"
	"gpipebench/experiments/suite"
	"gpipebench/experiments/workload"
	"gpipebench/gpipe"
	"gpipebench/gpipe/timeline"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = suite.Definition{ID: "densify-timeline", Folder: folder, New: suite.New[timelines]}

// spec is spec.yaml.
type spec struct {
	suite.Head `yaml:",inline"`
	Setup      suite.SetupSpec    `yaml:"setup"`
	Lanes      int                `yaml:"lanes" want:"1..100,shown"`
	Profiles   map[string]profile `yaml:"profiles"`
}

type profile struct {
	Expected suite.Span         `yaml:"expected" want:"shown"`
	Training suite.TrainingSpec `yaml:"training"`
}

// timelines trains with both ways.
type timelines struct {
	suite.Base[spec]
	setup workload.Setup
}

func (x *timelines) Resolve() *suite.Problem {
	x.setup = x.Spec.Setup.Setup()
	if x.setup.Replicas < 2 || x.setup.Device != gpipe.Host || x.setup.ShardUpdate {
		return suite.At(errors.New("want two or more replicas on host devices, with updates that are not divided"), "setup")
	}
	for _, name := range suite.Profiles {
		t := x.Spec.Profiles[name].Training
		switch {
		case t.Model.Name != workload.LanguageModel || t.Model.Tied == "" || t.Model.Tied == "none":
			return suite.At(fmt.Errorf("want %s with a tied softmax", workload.LanguageModel), "profiles", name, "training", "model")
		case t.Steps < 1:
			return suite.At(errors.New("want 1 or more"), "profiles", name, "training", "steps")
		}
	}
	return nil
}

// ways are those of the paper's figure, from the top.
var ways = []gpipe.TableGradients{gpipe.GatherTied, gpipe.ReduceTied}

// Sample is a training in one way and what its last step did, as the first replica sees it.
// Seconds are from the end of this replica's gradients.
type Sample struct {
	SHA256  string  `json:"sha256"`
	Seconds float64 `json:"seconds"` // of the step
	Lanes   []Lane  `json:"lanes"`
}

// Lane is a tensor.
type Lane struct {
	Tensor string  `json:"tensor"`
	Phases []Phase `json:"phases"` // the operation second, then what is within it
}

// Phase is a timeline.Phase.
type Phase struct {
	Name  string  `json:"name"`
	Start float64 `json:"start"`
	End   float64 `json:"end"`
	Bytes int64   `json:"bytes,omitempty"`
}

// seconds is the sum of the phases of a name.
func (l *Lane) seconds(names ...string) (sum float64) {
	for _, p := range l.Phases {
		if slices.Contains(names, p.Name) {
			sum += p.End - p.Start
		}
	}
	return sum
}

// end is when the tensor is accumulated.
func (l *Lane) end() float64 { return l.Phases[1].End }

func (x *timelines) training(p profile, way gpipe.TableGradients) workload.Training {
	setup := x.setup
	setup.TiedGradients = way
	t := p.Training.Training("synthetic", setup, x.Spec.Seed)
	t.Reductions = true
	return t
}

func (x *timelines) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	profile := x.Spec.Profiles[log.Key.Profile]
	p.Begin(x.ID(), len(ways))
	defer p.End()
	for _, way := range ways {
		if log.Has(way.String()) {
			continue
		}
		t := x.training(profile, way)
		r, err := t.Run(ctx, func(workload.TrainStep) {})
		if err != nil {
			return err
		}
		s, err := sampleOf(r)
		if err != nil {
			return err
		}
		if err := log.Add(way.String(), x.Spec.Seed, s); err != nil {
			return err
		}
		p.Advance(way.String())
	}
	return nil
}

// sampleOf takes what the first replica saw of the last step.
func sampleOf(r *workload.TrainResult) (*Sample, error) {
	tl := r.LastStep
	s := &Sample{SHA256: r.WeightsSHA256, Seconds: tl.Span()}
	for i := range tl.Reductions {
		of := &tl.Reductions[i]
		if of.At.Replica > 0 {
			continue
		}
		l := Lane{Tensor: of.Tensor}
		negotiate, operation, all := of.Phases(tl.Ready(of.At.Stage))
		for _, ph := range slices.Concat([]timeline.Phase{negotiate, operation}, all) {
			l.Phases = append(l.Phases, Phase{ph.Name, ph.Start - of.Ready, ph.End - of.Ready, ph.Bytes})
		}
		s.Lanes = append(s.Lanes, l)
	}
	if len(s.Lanes) == 0 {
		return nil, errors.New("a step of replicas has no reductions")
	}
	return s, nil
}

func (x *timelines) Report(log, _ *records.Log) (*suite.Report, error) {
	t := &suite.Table{ID: x.ID(), Title: x.Title(), Caption: []string{
		fmt.Sprintf("Of %d replicas on one machine, in the last step, as the first replica sees it, from the end of its own gradients. Waiting: for the slowest replica, then for data. Accumulated: when the shared table's gradient is, and that of all tensors. One recorded step of one training, and on fewer cores than replicas: times differ from run to run.", x.setup.Replicas),
	}}
	t.Texts("way", "operation")
	t.Numbers("waiting", "packing", "transfer", "adding up rows", "table accumulated", "all accumulated", "step")
	t.Texts("SHA-256 of the weights", "equal")
	var drawings []timeline.PhaseDrawing
	first := ""
	for _, way := range ways {
		var s Sample
		if err := log.Get(way.String(), &s); err != nil {
			return nil, err
		}
		first = cmp.Or(first, s.SHA256)
		i := slices.IndexFunc(s.Lanes, func(l Lane) bool { return strings.HasSuffix(l.Tensor, "embedding/table") })
		if i < 0 || slices.ContainsFunc(s.Lanes, func(l Lane) bool { return len(l.Phases) < 2 }) {
			return nil, fmt.Errorf("%s: %v: want the shared table, and two phases or more of each tensor", x.ID(), way)
		}
		table, all := &s.Lanes[i], 0.0
		for i := range s.Lanes {
			all = max(all, s.Lanes[i].end())
		}
		t.Add(way.String(), table.Phases[1].Name,
			suite.Seconds(table.seconds("NEGOTIATE_ALLGATHER", "NEGOTIATE_ALLREDUCE", "WAIT_FOR_DATA")), suite.Seconds(table.seconds("MEMCPY_IN_FUSION_BUFFER")),
			suite.Seconds(table.seconds("MPI_ALLGATHER", "MPI_ALLREDUCE")), suite.Seconds(table.seconds("SUM_ROWS")),
			suite.Seconds(table.end()), suite.Seconds(all), suite.Seconds(s.Seconds), s.SHA256, suite.YesOrNo(s.SHA256 == first))
		drawings = append(drawings, x.drawing(way, &s, table.Tensor))
	}
	var page strings.Builder
	if err := timeline.WritePhases(&page, drawings...); err != nil {
		return nil, err
	}
	r := &suite.Report{Tables: []*suite.Table{t}, Files: []suite.File{{Name: x.ID() + ".svg", Text: page.String()}}}
	if last := t.Rows[len(t.Rows)-1]; last[t.Column("equal")].Text != "yes" {
		r.Verdict = fmt.Errorf("%s: gathered and reduced gradients end with different weights", x.ID())
	}
	return r, nil
}

// drawing has the lanes of the tensors whose accumulation takes longest, the table first.
func (x *timelines) drawing(way gpipe.TableGradients, s *Sample, table string) timeline.PhaseDrawing {
	d := timeline.PhaseDrawing{Caption: map[gpipe.TableGradients]string{
		gpipe.GatherTied: "before: the shared table is gathered", gpipe.ReduceTied: "after: it is reduced",
	}[way]}
	lanes := slices.Clone(s.Lanes)
	length := func(l *Lane) float64 {
		if l.Tensor == table {
			return l.end() + s.Seconds // first
		}
		return l.Phases[1].End - l.Phases[1].Start
	}
	slices.SortStableFunc(lanes, func(a, b Lane) int { return cmp.Compare(length(&b), length(&a)) })
	for _, l := range lanes[:min(len(lanes), x.Spec.Lanes)] {
		lane := timeline.PhaseLane{Name: l.Tensor}
		for _, p := range l.Phases {
			lane.Phases = append(lane.Phases, timeline.Phase{Name: p.Name, Start: p.Start, End: p.End, Peer: -1, Bytes: p.Bytes})
		}
		d.Lanes = append(d.Lanes, lane)
	}
	return d
}

// Planned are the trainings of both ways.
func (x *timelines) Planned(profile string) (list []suite.PlannedRun) {
	for _, way := range ways {
		list = append(list, suite.PlannedRun{Path: []string{"profiles", profile}, Run: x.training(x.Spec.Profiles[profile], way)})
	}
	return list
}
