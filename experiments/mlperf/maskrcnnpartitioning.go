package mlperf

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"gpipebench/gpipe"
	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/reduction"
	"gpipebench/gpipe/schedule"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/shown"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/train"
)

type maskRCNNSpec struct {
	shown.Profiled[lab.ExpectedOnly] `yaml:",inline"`
	Accelerator                      string `yaml:"accelerator" want:"accelerator"`
	DType                            string `yaml:"dtype" want:"dtype"`
	maskRCNN                         `yaml:",inline"`
	Examples                         []int       `yaml:"examples" want:"1..1024"` // of all cores of an image
	Cores                            []int       `yaml:"cores" want:"1..64,first=1,ascending"`
	Runs                             []loggedRun `yaml:"runs"`
}

// maskRCNNStep is of a number of images on a number of cores, in seconds of F and B.
type maskRCNNStep struct {
	First gpipe.SpatialEstimate `json:"first"`
	// Boxes and Masks are the branches of the second stage, with their crops, each on one core.
	Boxes float64 `json:"boxes"`
	Masks float64 `json:"masks"`
	// Handed is what goes between the stages: the pyramid's rows to the cores of branches, and
	// their gradients back, which are added to the first stage's.
	Handed float64 `json:"handed"`
	// Params counts those that are trained: of all, and of the larger branch.
	Params int64 `json:"params"`
	Branch int64 `json:"branch_params"`
}

const (
	floatBytes = 4
	// updateFloats are read or written for each parameter by an update with momentum: weight
	// and momentum twice, and the gradient.
	updateFloats = 5
)

// values are for an image's cores alone, and with the others of a torus.
func (s maskRCNNStep) values(a *accelerator.Accelerator, cores int, on torus) shown.Values {
	bytes := float64(floatBytes * s.Params)
	update := func(of int) float64 { // of one parameter in of, and clearing all gradients
		return a.Moving(accelerator.Update, updateFloats*bytes/float64(of)) + a.Moving(accelerator.Clear, bytes)
	}
	// One branch after the other on one core, and otherwise beside each other.
	second := s.Boxes + s.Masks
	// Partial gradients of the first stage are added up among the cores of an image, and whole
	// ones of branches are handed to the other cores.
	sums := 0.0
	if cores > 1 {
		second, sums = max(s.Boxes, s.Masks), s.First.Sums+sent(a.Hop(), float64(floatBytes*s.Branch))
	}
	reduce, gather := reduction.Cost(reduction.Torus, on.X, on.Y, bytes, a.Hop())
	return shown.Values{
		"first": s.First.Seconds() - s.First.Sums, "boxes": s.Boxes, "masks": s.Masks, "second": second, "handed": s.Handed, "sums": sums,
		"update": update(1), "divided": update(on.cores()), "reduce": reduce + gather,
	}
}

// sent is the time of a transfer.
func sent(link clock.Link, bytes float64) float64 { return link.Latency + bytes/link.Bandwidth }

// maskRCNNPartitioning models what Mask-RCNN gains from cores that divide the images of its
// first stage by rows, and have branches of its second. It needs code since no training here has
// such a network, whose stages are modelled one by one.
var maskRCNNPartitioning = cells.Kind[maskRCNNSpec, maskRCNNStep]{
	Check: func(s *maskRCNNSpec) *lab.Problem {
		switch {
		case s.Image.Height%32 != 0 || s.Image.Width%32 != 0:
			return lab.At(errors.New("want multiples of 32 pixels, which the backbone's stages halve"), "image")
		case bottlenecks[s.Depth] == [pyramidLevels - 1]int{}:
			return lab.At(errors.New("want 50, 101 or 152, which have bottlenecks"), "depth")
		}
		for i, r := range s.Runs {
			cores := r.Torus.cores()
			switch {
			case cores%r.spatial() != 0 || r.Batch%r.groups() != 0:
				return lab.At(fmt.Errorf("%d images on %d cores, %d for each: want as many on each group of cores", r.Batch, cores, r.spatial()), "runs", strconv.Itoa(i))
			case !slices.Contains(s.Examples, r.examples()) || !slices.Contains(s.Cores, r.spatial()):
				return lab.At(fmt.Errorf("%d images on %d cores: want numbers that are among examples and cores", r.examples(), r.spatial()), "runs", strconv.Itoa(i))
			case r.Steps == 0 || r.Scope != "":
				return lab.At(errors.New("want the steps of an epoch, and no bn_scope: the network has no batch norm"), "runs", strconv.Itoa(i))
			}
		}
		return lab.At(checkLinks(s.Accelerator), "accelerator")
	},
	Planned: func(*maskRCNNSpec) []lab.PlannedRun { return nil },
	Rows: func(s *maskRCNNSpec, _ string) (rows []cells.Row[maskRCNNStep], err error) {
		a, err := accelerator.Named(s.Accelerator)
		if err != nil {
			return nil, err
		}
		for _, examples := range s.Examples {
			for _, cores := range s.Cores {
				rows = append(rows, cells.Row[maskRCNNStep]{
					Has:   shown.Values{"images": examples, "cores": cores},
					Reads: []cells.Cell[maskRCNNStep]{s.cell(a, "one", examples, 1, alone), s.cell(a, "of", examples, cores, alone)},
				})
			}
		}
		base := s.Runs[0]
		for _, r := range s.Runs {
			rows = append(rows, cells.Row[maskRCNNStep]{Of: "logged",
				Has: shown.Values{
					"cores": r.Torus.cores(), "spatial": r.spatial(), "images": r.examples(), "epochs": r.Epochs.Printed(""), "steps": r.steps(0), "logged": r.Seconds.Number(),
					"base_steps": base.steps(0), "base_logged": base.Seconds.Number(),
				},
				Reads: []cells.Cell[maskRCNNStep]{s.cell(a, "base", base.examples(), base.spatial(), base.Torus), s.cell(a, "of", r.examples(), r.spatial(), r.Torus)},
			})
		}
		return rows, nil
	},
}

// cell models examples on cores of a torus.
func (s *maskRCNNSpec) cell(a *accelerator.Accelerator, as string, examples, cores int, on torus) cells.Cell[maskRCNNStep] {
	return cells.Cell[maskRCNNStep]{
		As: as, Sample: lab.AtRates(fmt.Sprintf("examples=%d/cores=%d", examples, cores), s.Accelerator, nil),
		Make:   func(context.Context) (maskRCNNStep, error) { return s.model(a, examples, cores) },
		Values: func(m maskRCNNStep) shown.Values { return m.values(a, cores, on) },
	}
}

// model models examples on cores.
func (s *maskRCNNSpec) model(a *accelerator.Accelerator, examples, cores int) (made maskRCNNStep, err error) {
	how := gpipe.Modelling{DType: lab.Named(train.ParseDType, s.DType), Accounting: gpipe.FullAccounting}
	first := s.first()
	made.Params = nn.CountParams([]nn.Layer{first})
	p, in := pipelineOn(a, examples, graph.Type{Shape: graph.Shape{s.Image.Height, s.Image.Width, 3}, DType: graph.F32}, first)
	if made.First, err = p.ModelSpatial(in, cores, how); err != nil {
		return made, err
	}
	for _, of := range []struct {
		headBranch
		seconds *float64
	}{{s.boxes(), &made.Boxes}, {s.masks(), &made.Masks}} {
		params := nn.CountParams([]nn.Layer{of.layer})
		made.Params, made.Branch = made.Params+params, max(made.Branch, params)
		if *of.seconds, err = s.branch(a, examples, of.headBranch, how); err != nil {
			return made, err
		}
	}
	// Zeros to which the crops' gradients are added, and the sum with the first stage's
	// gradients, which reads both and writes it, of the rows that each core has.
	pyramid := float64(examples*s.pixels()*s.Pyramid) * float64(how.DType.Bytes())
	made.Handed = a.Moving("", pyramid) + a.Moving("", 3*pyramid/float64(cores))
	if cores > 1 {
		made.Handed += 2 * sent(a.Hop(), pyramid/float64(cores))
	}
	return made, nil
}

// pipelineOn is a pipeline of some layers on one accelerator, and what comes in.
func pipelineOn(a *accelerator.Accelerator, examples int, in graph.Type, layers ...nn.Layer) (gpipe.Pipeline, gpipe.Input) {
	return gpipe.Pipeline{
		Layers: layers, Loss: squares{}, Partitions: 1, MicroBatches: 1, Schedule: schedule.GPipe, Checkpoint: schedule.Never,
		Devices: []gpipe.Device{gpipe.DeviceOf(a)},
	}, gpipe.Input{Examples: examples, Inputs: []graph.Type{in}}
}

// branch models F and B of a branch on one core, with its crops.
func (s *maskRCNNSpec) branch(a *accelerator.Accelerator, examples int, b headBranch, how gpipe.Modelling) (seconds float64, err error) {
	// The crops have gradients, as a layer before makes them, which is not counted: what
	// makes crops is, in their place.
	channels := b.input.Shape.Last()
	bias := &nn.Param{Name: "bias", Shape: graph.Shape{channels}, Init: nn.Zeros()}
	crops := nn.Func("crops", func(t *nn.Trace, in ...*graph.Node) []*graph.Node {
		return []*graph.Node{t.AddBias(in[0], t.Param(bias))}
	}, bias)
	p, in := pipelineOn(a, examples, b.input, crops, b.layer)
	layers, err := p.ModelLayers(in, how)
	if err != nil {
		return 0, err
	}
	for _, l := range layers[1:] {
		seconds += l.Forward + l.Backward
	}
	// Forward the points are read where they lie, written, and read; a quarter as many means
	// are written. Backward these are read, and the points written and read; the pixels to
	// which they are added are read and written.
	points := float64(examples*b.crops*4*b.size*b.size*s.Pyramid) * float64(how.DType.Bytes())
	return seconds + a.Moving("", 3.25*points) + a.Moving("", 4.25*points), nil
}
