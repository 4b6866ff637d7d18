package mlperf

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gpipebench/gpipe"
	"gpipebench/gpipe/schedule"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/shown"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/philox"
	"gpipebench/nn/program"
	"gpipebench/nn/trace"
	"gpipebench/train"
)

type rulesSpec struct {
	shown.Profiled[lab.ExpectedOnly] `yaml:",inline"`
	Model                            train.Model `yaml:"model"`
	Optimizer                        string      `yaml:"optimizer" want:"optimizer"`
	Batch                            int         `yaml:"batch" want:"2..65536"`
	Rules                            []struct {
		ID    string `yaml:"id" want:"id,key"`
		What  string `yaml:"what" want:"shown"`
		Paper int    `yaml:"paper" want:"0..64"` // bits; 0: not stated
	} `yaml:"rules"`
}

// bfloat16Rules finds what is bfloat16 and what is float32 in a compiled step, beside what the
// paper states. It needs code since a rule is found by what a program's instructions read and
// write.
var bfloat16Rules = cells.Kind[rulesSpec, foundBits]{
	Seeded: true,
	Check: func(s *rulesSpec) *lab.Problem {
		var named []string
		for i, r := range s.Rules {
			if finders[r.ID] == nil {
				return lab.At(fmt.Errorf("unknown rule %q: want one of %s", r.ID, strings.Join(slices.Sorted(maps.Keys(finders)), ", ")), "rules", strconv.Itoa(i), "id")
			}
			named = append(named, r.ID)
		}
		for _, id := range slices.Sorted(maps.Keys(finders)) {
			if !slices.Contains(named, id) {
				return lab.At(fmt.Errorf("no rule %q: want all of them", id), "rules")
			}
		}
		return nil
	},
	Planned: func(s *rulesSpec) []lab.PlannedRun {
		return []lab.PlannedRun{{Path: []string{"model"}, Run: s.training()}}
	},
	Rows: func(s *rulesSpec, _ string) (rows []cells.Row[foundBits], err error) {
		step := cells.Shared(s.step)
		for _, r := range s.Rules {
			paper := lab.Value{Text: "not stated"}
			if r.Paper > 0 {
				paper = lab.Whole(int64(r.Paper), strconv.Itoa(r.Paper))
			}
			rows = append(rows, cells.Row[foundBits]{
				Has: shown.Values{"id": r.ID, "what": r.What, "paper": paper, "stated": r.Paper > 0},
				Reads: []cells.Cell[foundBits]{{
					Sample: r.ID,
					Make: func(ctx context.Context) (f foundBits, err error) {
						ran, err := step(ctx)
						if err != nil {
							return f, err
						}
						return finders[r.ID](ran), nil
					},
					Values: func(f foundBits) shown.Values {
						return shown.Values{"bits": lab.Ints(" and ", f.Bits), "of": f.Of, "same": slices.Equal(f.Bits, []int{r.Paper})}
					},
				}},
			})
		}
		return rows, nil
	},
}

// training returns a training of two replicas with activations in bfloat16.
func (s *rulesSpec) training() train.Training {
	return train.Training{
		Model: s.Model, Batch: s.Batch, Steps: 1, Seed: s.Seed, Optimizer: s.Optimizer, LR: 1, LRSchedule: "constant",
		Setup: train.Setup{Partitions: 1, MicroBatches: 1, Replicas: 2, DType: graph.BF16, Checkpoint: schedule.Never, Threads: 1},
	}
}

// foundBits is what a rule is found to be.
type foundBits struct {
	Bits []int `json:"bits"` // all that were found, in ascending order
	Of   int   `json:"of"`   // operands, or elements
}

// Check refuses that nothing was found.
func (f *foundBits) Check() error {
	if len(f.Bits) == 0 {
		return errors.New("nothing was found")
	}
	return nil
}

// ranStep is what rules are found in: a step that is compiled and has run.
type ranStep struct {
	moves   []operand
	trained int64 // parameters
	params  int64
	slots   int64 // of the optimiser's state for each
	plan    *gpipe.Plan
	traffic []gpipe.Traffic
}

// operand is an instruction's operand.
type operand struct {
	op string
	program.Move
}

// finders find the rules by their ids.
var finders = map[string]func(*ranStep) foundBits{
	"convolution-inputs":    operands(func(m operand) bool { return isConvolution(m.op) && m.Activation && !m.Written }),
	"convolution-outputs":   operands(func(m operand) bool { return isConvolution(m.op) && m.Activation && m.Written }),
	"convolution-weights":   func(*ranStep) foundBits { return probed(weightProbe) },
	"convolution-sums":      func(*ranStep) foundBits { return probed(sumProbe) },
	"batch-norm-statistics": operands(func(m operand) bool { return isMoments(m.op) && m.Written && m.Space != program.Grads }),
	"batch-norm-images":     operands(func(m operand) bool { return isBatchNorm(m.op) && m.Activation }),
	"other-images": operands(func(m operand) bool {
		return m.Activation && !isConvolution(m.op) && !isBatchNorm(m.op) && !isLoss(m.op) && !isProduct(m.op)
	}),
	"loss":   operands(func(m operand) bool { return isLoss(m.op) && m.Written && !m.Activation }),
	"logits": operands(func(m operand) bool { return isLoss(m.op) && m.Activation && !m.Written }),
	"weight-gradients": operands(func(m operand) bool {
		return m.Space == program.Grads && m.Written && (isConvolution(m.op) || isProduct(m.op))
	}),
	"summation": func(s *ranStep) foundBits {
		var bytes int64
		for _, t := range s.traffic {
			if t.What == gpipe.Summands {
				bytes += t.Bytes
			}
		}
		return eachBits(bytes, s.trained) // each of two replicas has half of the summands from the other
	},
	"weights":   func(s *ranStep) foundBits { return eachBits(s.plan.Bytes[gpipe.Parameters], s.params) },
	"optimizer": func(s *ranStep) foundBits { return eachBits(s.plan.Bytes[gpipe.OptimizerState], s.slots*s.trained) },
}

// operands finds the bits of those that a rule is of.
func operands(of func(operand) bool) func(*ranStep) foundBits {
	return func(s *ranStep) (f foundBits) {
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
}

// eachBits returns the bits of each of some elements in bytes, which may be up to a cache line
// for each tensor more.
func eachBits(bytes, elements int64) foundBits {
	return foundBits{Bits: []int{int(8 * bytes / elements)}, Of: int(elements)}
}

// step compiles a step, and runs it once.
func (s *rulesSpec) step(ctx context.Context) (*ranStep, error) {
	t := s.training()
	layers, err := t.Model.Build()
	if err != nil {
		return nil, err
	}
	loss, err := t.Model.Loss(0)
	if err != nil {
		return nil, err
	}
	made := &ranStep{params: nn.CountParams(layers)}
	for _, l := range layers {
		for _, p := range l.Params() {
			if !p.Frozen {
				made.trained += int64(p.Shape.Elems())
			}
		}
	}
	in := t.Model.Input(t.Batch / t.Setup.Replicas)
	traced := trace.Layers(layers, 0, loss, gpipe.BatchOf(in.Inputs, in.Examples), gpipe.BatchOf(in.Targets, in.Examples), true)
	compiled := program.Compile(traced.Function, nil, false, 1, program.BF16)
	for _, p := range []*program.Program{compiled.Keep, compiled.Backward} {
		for i := range p.Instrs {
			for m := range p.Instrs[i].Moves() {
				made.moves = append(made.moves, operand{p.Instrs[i].Op, m})
			}
		}
	}
	optimizer, err := train.ParseOptimizer(t.Optimizer)
	if err != nil {
		return nil, err
	}
	made.slots = int64(len(optimizer.Slots()))
	plans, err := t.Plans()
	if err != nil {
		return nil, err
	}
	made.plan = plans[0]
	l, err := (&train.Timing{}).Open(ctx, t)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	r, err := l.Step(ctx)
	if err != nil {
		return nil, err
	}
	made.traffic = r.Traffic
	return made, nil
}

func isConvolution(op string) bool { return strings.HasPrefix(op, "conv2d") }
func isProduct(op string) bool     { return strings.HasPrefix(op, "matmul") }
func isMoments(op string) bool     { return op == "batch-norm-moments" || op == "batch-norm-stats" }
func isBatchNorm(op string) bool   { return strings.HasPrefix(op, "batch-norm") }
func isLoss(op string) bool        { return strings.HasPrefix(op, "cross-entropy") }

// Probes of a convolution of one pixel with activations in bfloat16: what it computes shows
// how it reads its weights, and how it adds. Neither is a tensor in memory.

// A probe is a dot product that is exact in bfloat16, with the result expected for each width of
// operands and of the accumulator.
type probe struct {
	weights, inputs []float32
	comes           map[float32]int // bits, by the result
}

const probes = 128

var ones = slices.Repeat([]float32{1}, probes)

// weightProbe is 128 times 1 + 2^-9 less 128: 1/4, or nothing if weights are rounded to
// bfloat16, whose numbers next to 1 are 2^-7 apart.
var weightProbe = probe{
	weights: append(slices.Repeat([]float32{1 + 0x1p-9}, probes), ones...),
	inputs:  append(slices.Clone(ones), slices.Repeat([]float32{-1}, probes)...),
	comes:   map[float32]int{0: 16, 0.25: 32},
}

// sumProbe adds 1 to 256 and takes 256 away again, 128 times over the channels: a sum that
// was kept in bfloat16 would lose the ones, as its numbers above 256 are 2 apart.
var sumProbe = probe{
	weights: slices.Repeat([]float32{1}, probes+2),
	inputs:  slices.Concat([]float32{256}, ones, []float32{-256}),
	comes:   map[float32]int{0: 16, probes: 32},
}

// probed is what a probe shows. One that comes to something else shows no bits.
func probed(p probe) foundBits {
	got, err := p.run()
	if bits, ok := p.comes[got]; ok && err == nil {
		return foundBits{Bits: []int{bits}, Of: len(p.inputs)}
	}
	return foundBits{}
}

// run runs the probe on a device of this machine.
func (p probe) run() (float32, error) {
	n := len(p.inputs)
	conv := nn.NewConv2D("probe", nn.Conv2DConfig{
		In: n, Out: 1, Kernel: [2]int{1, 1}, Init: func(_ *philox.Stream, _ graph.Shape, values []float32) { copy(values, p.weights) },
	})
	in := gpipe.Input{Examples: 1, Inputs: []graph.Type{{Shape: graph.Shape{1, 1, n}, DType: graph.F32}}}
	pipeline := gpipe.Pipeline{Layers: []nn.Layer{conv}, Loss: nn.CrossEntropy{}, Partitions: 1, MicroBatches: 1, Numerics: gpipe.Numerics{DType: graph.BF16}, Predicting: in}
	t, err := pipeline.Open(gpipe.Input{})
	if err != nil {
		return 0, err
	}
	defer t.Close()
	out, err := t.Predict(context.Background(), nn.Tensor{Shape: []int{1, 1, 1, n}, F32: p.inputs})
	if err != nil {
		return 0, err
	}
	if len(out) != 1 || len(out[0].F32) != 1 {
		return 0, fmt.Errorf("a probe with %d outputs", len(out))
	}
	return out[0].F32[0], nil
}
