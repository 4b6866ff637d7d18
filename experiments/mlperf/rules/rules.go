// Package rules finds what is bfloat16 and what is float32 in a compiled step, beside what
// the paper states.
package rules

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpipebench/gpipe"
	"gpipebench/gpipe/schedule"
	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/records"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
	"gpipebench/nn/trace"
	"gpipebench/train"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = lab.Definition{ID: "bfloat16-rules", Folder: folder, New: lab.New[rules], Untimed: true}

// spec is spec.yaml.
type spec struct {
	lab.Head  `yaml:",inline"`
	Model     train.Model `yaml:"model"`
	Optimizer string      `yaml:"optimizer" want:"optimizer"`
	Batch     int         `yaml:"batch" want:"2..65536"`
	Rules     []rule      `yaml:"rules"`

	Profiles map[string]lab.ExpectedOnly `yaml:"profiles"`
}

type rule struct {
	ID    string `yaml:"id" want:"id,key"`
	What  string `yaml:"what" want:"shown"`
	Paper int    `yaml:"paper" want:"0..64"` // bits; 0: not stated
}

type rules struct {
	lab.Base[spec]
}

func (x *rules) Resolve() *lab.Problem {
	var named []string
	for i, r := range x.Spec.Rules {
		if finders[r.ID] == nil {
			return lab.At(fmt.Errorf("unknown rule %q: want one of %s", r.ID, strings.Join(slices.Sorted(maps.Keys(finders)), ", ")), "rules", fmt.Sprint(i), "id")
		}
		named = append(named, r.ID)
	}
	for _, id := range slices.Sorted(maps.Keys(finders)) {
		if !slices.Contains(named, id) {
			return lab.At(fmt.Errorf("no rule %q: want all of them", id), "rules")
		}
	}
	return nil
}

func (x *rules) Planned(string) []lab.PlannedRun {
	return []lab.PlannedRun{{Path: []string{"model"}, Run: x.training()}}
}

// training is that of two replicas with activations in bfloat16.
func (x *rules) training() train.Training {
	return train.Training{
		Model: x.Spec.Model, Batch: x.Spec.Batch, Steps: 1, Seed: x.Spec.Seed, Optimizer: x.Spec.Optimizer, LR: 1, LRSchedule: "constant",
		Setup: train.Setup{Partitions: 1, MicroBatches: 1, Replicas: 2, DType: graph.BF16, Checkpoint: schedule.Never, Threads: 1},
	}
}

// found is what a rule is found to be. Nothing in it depends on the machine.
type found struct {
	Bits []int `json:"bits"` // all that were found, in ascending order
	Of   int   `json:"of"`   // operands, or elements
}

// step is what rules are found in: a step that is compiled and has run.
type step struct {
	moves   []move
	trained int64 // parameters
	params  int64
	slots   int64 // of the optimiser's state for each
	plan    *gpipe.Plan
	traffic []gpipe.Traffic
}

// move is an operand of an instruction.
type move struct {
	op string
	program.Move
}

// finders find the rules by their ids.
var finders = map[string]func(*step) found{
	"convolution-inputs": func(s *step) found {
		return s.operands(func(m move) bool { return isConvolution(m.op) && m.Activation && !m.Written })
	},
	"convolution-outputs": func(s *step) found {
		return s.operands(func(m move) bool { return isConvolution(m.op) && m.Activation && m.Written })
	},
	"convolution-weights": func(*step) found { return probed(weightProbe) },
	"convolution-sums":    func(*step) found { return probed(sumProbe) },
	"batch-norm-statistics": func(s *step) found {
		return s.operands(func(m move) bool { return isMoments(m.op) && m.Written && m.Space != program.Grads })
	},
	"batch-norm-images": func(s *step) found {
		return s.operands(func(m move) bool { return isBatchNorm(m.op) && m.Activation })
	},
	"other-images": func(s *step) found {
		return s.operands(func(m move) bool {
			return m.Activation && !isConvolution(m.op) && !isBatchNorm(m.op) && !isLoss(m.op) && !isProduct(m.op)
		})
	},
	"loss": func(s *step) found {
		return s.operands(func(m move) bool { return isLoss(m.op) && m.Written && !m.Activation })
	},
	"logits": func(s *step) found {
		return s.operands(func(m move) bool { return isLoss(m.op) && m.Activation && !m.Written })
	},
	"weight-gradients": func(s *step) found {
		return s.operands(func(m move) bool {
			return m.Space == program.Grads && m.Written && (isConvolution(m.op) || isProduct(m.op))
		})
	},
	"summation": func(s *step) found {
		var bytes int64
		for _, t := range s.traffic {
			if t.What == gpipe.Summands {
				bytes += t.Bytes
			}
		}
		return each(bytes, s.trained) // each of two replicas has half of the summands from the other
	},
	"weights":   func(s *step) found { return each(s.plan.Bytes[gpipe.Parameters], s.params) },
	"optimizer": func(s *step) found { return each(s.plan.Bytes[gpipe.OptimizerState], s.slots*s.trained) },
}

// operands are the bits of those that a rule is of.
func (s *step) operands(of func(move) bool) (f found) {
	for _, m := range s.moves {
		if !of(m) {
			continue
		}
		f.Of++
		if bits := int(8 * m.ElemBytes); !slices.Contains(f.Bits, bits) {
			f.Bits = append(f.Bits, bits)
		}
	}
	slices.Sort(f.Bits)
	return f
}

// each is the bits of so many elements in so many bytes, which may be up to a cache line
// for each tensor more.
func each(bytes, elements int64) found {
	return found{Bits: []int{int(8 * bytes / elements)}, Of: int(elements)}
}

func (x *rules) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	var jobs []lab.Job
	for _, r := range x.Spec.Rules {
		if !log.Has(r.ID) {
			jobs = append(jobs, lab.Job{Sample: r.ID})
		}
	}
	if len(jobs) == 0 {
		return nil
	}
	p.Begin(x.ID(), len(jobs))
	defer p.End()
	s, err := x.step(ctx)
	if err != nil {
		return err
	}
	for _, j := range jobs {
		if err := log.Add(j.Sample, x.Spec.Seed, finders[j.Sample](s)); err != nil {
			return err
		}
		p.Advance(j.Sample)
	}
	return nil
}

// step compiles a step, and runs it once.
func (x *rules) step(ctx context.Context) (*step, error) {
	t := x.training()
	layers, err := t.Model.Build()
	if err != nil {
		return nil, err
	}
	loss, err := t.Model.Loss(0)
	if err != nil {
		return nil, err
	}
	s := &step{params: nn.CountParams(layers)}
	for _, l := range layers {
		for _, p := range l.Params() {
			if !p.Frozen {
				s.trained += int64(p.Shape.Elems())
			}
		}
	}
	in := t.Model.Input(t.Batch / t.Setup.Replicas)
	traced := trace.Layers(layers, 0, loss, gpipe.BatchOf(in.Inputs, in.Examples), gpipe.BatchOf(in.Targets, in.Examples), true)
	compiled := program.CompileStored(traced.Function, nil, false, 1, program.BF16)
	for _, p := range []*program.Program{compiled.Keep, compiled.Backward} {
		for i := range p.Instrs {
			for m := range p.Instrs[i].Moves() {
				s.moves = append(s.moves, move{p.Instrs[i].Op, m})
			}
		}
	}
	optimizer, err := train.ParseOptimizer(t.Optimizer)
	if err != nil {
		return nil, err
	}
	s.slots = int64(len(optimizer.Slots()))
	plans, err := t.Plans()
	if err != nil {
		return nil, err
	}
	s.plan = plans[0]
	l, err := (&train.Timing{}).Open(ctx, t)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	r, err := l.Step(ctx)
	if err != nil {
		return nil, err
	}
	s.traffic = r.Traffic
	return s, nil
}

func (x *rules) Report(log, _ *records.Log) (*lab.Report, error) {
	t := &lab.Table{ID: x.ID(), Title: x.Title(), Caption: []string{
		fmt.Sprintf("Bits of what a step has, as %v with %s and activations in bfloat16 is compiled and run by two replicas here; all that were found, with the number of operands or elements that they are of. Computed is what is stored in 16 bits in float32 as well, and rounded once.", x.Spec.Model, x.Spec.Optimizer),
	}}
	t.Texts("id", "what")
	t.Numbers("paper, bits", "ours, bits", "of")
	t.Texts("same")
	for _, r := range x.Spec.Rules {
		var f found
		if err := log.Get(r.ID, &f); err != nil {
			return nil, err
		}
		if len(f.Bits) == 0 {
			return nil, log.Strange(r.ID, errors.New("nothing was found"))
		}
		paper, same := lab.Value{Text: "not stated"}, "-"
		if r.Paper > 0 {
			paper, same = lab.Whole(int64(r.Paper), fmt.Sprint(r.Paper)), lab.YesOrNo(slices.Equal(f.Bits, []int{r.Paper}))
		}
		t.Add(r.ID, r.What, paper, lab.Ints(" and ", f.Bits), f.Of, same)
	}
	return &lab.Report{Tables: []*lab.Table{t}}, nil
}

func isConvolution(op string) bool { return strings.HasPrefix(op, "conv2d") }
func isProduct(op string) bool     { return strings.HasPrefix(op, "matmul") }
func isMoments(op string) bool     { return op == "batch-norm-moments" || op == "batch-norm-stats" }
func isBatchNorm(op string) bool   { return strings.HasPrefix(op, "batch-norm") }
func isLoss(op string) bool        { return strings.HasPrefix(op, "cross-entropy") }
