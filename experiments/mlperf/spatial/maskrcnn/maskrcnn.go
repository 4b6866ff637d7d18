// Package maskrcnn models what Mask-RCNN gains from cores that divide the images of its first
// stage by rows, and have branches of its second.
package maskrcnn

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"

	"gpipebench/gpipe"
	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/reduction"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/train"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = lab.Definition{ID: "mask-rcnn-partitioning", Folder: folder, New: lab.New[maskRCNN], Command: "spatial-partitioning", Untimed: true}

// spec is spec.yaml.
type spec struct {
	lab.Head    `yaml:",inline"`
	Accelerator string `yaml:"accelerator" want:"accelerator"`
	DType       string `yaml:"dtype" want:"dtype"`
	shapes      `yaml:",inline"`
	Examples    []int `yaml:"examples" want:"1..1024"` // of all cores of an image
	Cores       []int `yaml:"cores" want:"1..64"`      // of an image
	Runs        []run `yaml:"runs"`

	Profiles map[string]lab.ExpectedOnly `yaml:"profiles"`
}

// run is what was logged on a number of cores.
type run struct {
	Torus struct { // of cores
		X int `yaml:"x" want:"1..256"`
		Y int `yaml:"y" want:"1..256"`
	} `yaml:"torus"`
	Batch   int          `yaml:"batch" want:"1..16777216"`
	Spatial int          `yaml:"spatial" want:"1..64"` // cores of an image
	Epochs  lab.Verbatim `yaml:"epochs"`
	Steps   int          `yaml:"epoch_steps" want:"1..1000000000"` // of an epoch
	Seconds lab.Verbatim `yaml:"seconds"`
}

func (r run) cores() int { return r.Torus.X * r.Torus.Y }

// examples of all cores of an image.
func (r run) examples() int { return r.Batch * r.Spatial / r.cores() }

// steps of the whole training.
func (r run) steps() float64 { return r.Epochs.Value * float64(r.Steps) }

// maskRCNN models a step for each number of images and of cores.
type maskRCNN struct {
	lab.Base[spec]
}

func (x *maskRCNN) Resolve() *lab.Problem {
	switch s := &x.Spec; {
	case s.Image.Height%32 != 0 || s.Image.Width%32 != 0:
		return lab.At(errors.New("want multiples of 32 pixels, which the backbone's stages halve"), "image")
	case depths[s.Depth] == [levels - 1]int{}:
		return lab.At(errors.New("want 50, 101 or 152, which have bottlenecks"), "depth")
	case len(s.Examples) == 0:
		return lab.At(errors.New("want at least one"), "examples")
	case len(s.Cores) < 2 || s.Cores[0] != 1 || !slices.IsSorted(s.Cores):
		return lab.At(errors.New("want 1 and more, in ascending order"), "cores")
	}
	for i, r := range x.Spec.Runs {
		at := []string{"runs", fmt.Sprint(i)}
		switch {
		case r.cores()%r.Spatial != 0 || r.Batch%(r.cores()/r.Spatial) != 0:
			return lab.At(fmt.Errorf("%d images on %d cores, %d for each: want as many on each group of cores", r.Batch, r.cores(), r.Spatial), at...)
		case !slices.Contains(x.Spec.Examples, r.examples()) || !slices.Contains(x.Spec.Cores, r.Spatial):
			return lab.At(fmt.Errorf("%d images on %d cores: want numbers that are among examples and cores", r.examples(), r.Spatial), at...)
		case !(r.Epochs.Value > 0) || !(r.Seconds.Value > 0):
			return lab.At(errors.New("want epochs and seconds above 0"), at...)
		}
	}
	on, err := accelerator.Named(x.Spec.Accelerator)
	if err == nil && (on.Link.Bandwidth == 0 || on.Bandwidth == 0) {
		err = fmt.Errorf("%s has no links or no memory rate: want both", on.Name)
	}
	return lab.At(err, "accelerator")
}

// sample is of a number of images on a number of cores, in seconds of F and B. Nothing in it
// depends on the machine.
type sample struct {
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

// second is the second stage on so many cores: one branch after the other on one core, and
// otherwise beside each other.
func (s sample) second(cores int) float64 {
	if cores == 1 {
		return s.Boxes + s.Masks
	}
	return max(s.Boxes, s.Masks)
}

// pass is F and B without sums of gradients.
func (s sample) pass(cores int) float64 {
	return s.First.Seconds() - s.First.Sums + s.second(cores) + s.Handed
}

const (
	floatBytes = 4
	// updateFloats are read or written for each parameter by an update with momentum: weight
	// and momentum twice, and the gradient.
	updateFloats = 5
)

// update is the update of every so many-th parameter, and clearing all gradients.
func (s sample) update(a *accelerator.Accelerator, of int) float64 {
	bytes := float64(floatBytes * s.Params)
	return a.Moving(accelerator.Update, updateFloats*bytes/float64(of)) + a.Moving(accelerator.Clear, bytes)
}

// sums is adding up gradients among the cores of an image alone: partial ones of the first
// stage, and whole ones of branches, which are handed to the other cores.
func (s sample) sums(a *accelerator.Accelerator, cores int) float64 {
	if cores == 1 {
		return 0
	}
	return s.First.Sums + sent(a.Hop(), float64(floatBytes*s.Branch))
}

// sent is the time of a transfer.
func sent(link timeline.Link, bytes float64) float64 { return link.Latency + bytes/link.Bandwidth }

func (x *maskRCNN) name(examples, cores int) string {
	return lab.AtRates(fmt.Sprintf("examples=%d/cores=%d", examples, cores), x.Spec.Accelerator, nil)
}

func (x *maskRCNN) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	var jobs []lab.Job
	for _, examples := range x.Spec.Examples {
		for _, cores := range x.Spec.Cores {
			name := x.name(examples, cores)
			jobs = append(jobs, lab.Job{Sample: name, Make: func(context.Context) (any, string, error) {
				made, err := x.model(examples, cores)
				if err != nil {
					err = fmt.Errorf("%s, %s: %w", x.ID(), name, err)
				}
				return made, name, err
			}})
		}
	}
	return lab.MakeMissing(ctx, x.ID(), log, p, jobs)
}

// model models so many images on so many cores.
func (x *maskRCNN) model(examples, cores int) (*sample, error) {
	a, err := accelerator.Named(x.Spec.Accelerator)
	if err != nil {
		return nil, err
	}
	how := gpipe.Modelling{DType: lab.Named(train.ParseDType, x.Spec.DType), Accounting: gpipe.FullAccounting}
	first := x.Spec.first()
	made := &sample{Params: nn.CountParams([]nn.Layer{first})}
	p, in := on(a, examples, graph.Type{Shape: graph.Shape{x.Spec.Image.Height, x.Spec.Image.Width, 3}, DType: graph.F32}, first)
	if made.First, err = p.ModelSpatial(in, cores, how); err != nil {
		return nil, err
	}
	for _, of := range []struct {
		branch
		seconds *float64
	}{{x.Spec.boxes(), &made.Boxes}, {x.Spec.masks(), &made.Masks}} {
		params := nn.CountParams([]nn.Layer{of.layer})
		made.Params, made.Branch = made.Params+params, max(made.Branch, params)
		if *of.seconds, err = x.branch(a, examples, of.branch, how); err != nil {
			return nil, err
		}
	}
	// Zeros to which the crops' gradients are added, and the sum with the first stage's
	// gradients, which reads both and writes it, of the rows that each core has.
	pyramid := float64(examples*x.Spec.pixels()*x.Spec.Pyramid) * float64(how.DType.Bytes())
	made.Handed = a.Moving("", pyramid) + a.Moving("", 3*pyramid/float64(cores))
	if cores > 1 {
		made.Handed += 2 * sent(a.Hop(), pyramid/float64(cores))
	}
	return made, nil
}

// on is a pipeline of some layers on one accelerator, and what comes in.
func on(a *accelerator.Accelerator, examples int, in graph.Type, layers ...nn.Layer) (gpipe.Pipeline, gpipe.Input) {
	return gpipe.Pipeline{
		Layers: layers, Loss: squares{}, Partitions: 1, MicroBatches: 1, Schedule: schedule.GPipe, Checkpoint: schedule.Never,
		Devices: []gpipe.Device{gpipe.DeviceOf(a)},
	}, gpipe.Input{Examples: examples, Inputs: []graph.Type{in}}
}

// branch models F and B of a branch on one core, with its crops.
func (x *maskRCNN) branch(a *accelerator.Accelerator, examples int, b branch, how gpipe.Modelling) (seconds float64, err error) {
	// The crops have gradients, as a layer before makes them, which is not counted: what
	// makes crops is, in their place.
	channels := b.input.Shape.Last()
	bias := &nn.Param{Name: "bias", Shape: graph.Shape{channels}, Init: nn.Zeros()}
	crops := nn.Func("crops", func(t *nn.Trace, in ...*graph.Node) []*graph.Node {
		return []*graph.Node{t.AddBias(in[0], t.Param(bias))}
	}, bias)
	p, in := on(a, examples, b.input, crops, b.layer)
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
	points := float64(examples*b.crops*4*b.size*b.size*x.Spec.Pyramid) * float64(how.DType.Bytes())
	return seconds + a.Moving("", 3.25*points) + a.Moving("", 4.25*points), nil
}

// steps are what runs and tables have of samples.
func (x *maskRCNN) sample(log *records.Log, examples, cores int) (s sample, err error) {
	err = log.Get(x.name(examples, cores), &s)
	return s, err
}

func (x *maskRCNN) Report(log, _ *records.Log) (*lab.Report, error) {
	a, err := accelerator.Named(x.Spec.Accelerator)
	if err != nil {
		return nil, err
	}
	groups, points, err := x.groups(a, log)
	if err != nil {
		return nil, err
	}
	logged, err := x.logged(a, log)
	if err != nil {
		return nil, err
	}
	r := &lab.Report{Tables: []*lab.Table{groups, logged}}
	panel := &plot.LinePanel{Title: "Mask-RCNN", X: "cores of an image", Y: "speedup", FromZero: true}
	for _, cores := range x.Spec.Cores {
		panel.Names = append(panel.Names, fmt.Sprint(cores))
	}
	for i, examples := range x.Spec.Examples {
		panel.Series = append(panel.Series, plot.Series{Name: fmt.Sprintf("%d images", examples), Lines: [][]plot.Point{points[i]}})
	}
	r.Files, err = plot.Files(x.ID(), x.Title(), []plot.Axes{panel})
	return r, err
}

// groups is the table of cores that have images together, and the speedups of each number of
// images.
func (x *maskRCNN) groups(a *accelerator.Accelerator, log *records.Log) (*lab.Table, [][]plot.Point, error) {
	s := &x.Spec
	t := &lab.Table{ID: x.ID(), Title: x.Title(), Caption: []string{
		fmt.Sprintf("A step of images of %d x %d on cores (%s) that divide each image's first stage by its rows, and of whose second stage one core has the boxes and one the masks; %s activations, momentum, nothing recomputed.", s.Image.Height, s.Image.Width, s.Accelerator, s.DType),
		"Handed on: the pyramid's rows and their gradients, between the stages. Sums of gradients: the cores' partial sums of the first stage, and branches' gradients to the cores that do not have them. Update: all cores do it alike. Selecting proposals and targets takes no time here.",
	}}
	t.Numbers("images", "cores", "step", "speedup", "first stage", "speedup, first stage", "boxes", "masks", "second stage", "speedup, second stage", "handed on", "sums of gradients", "update")
	points := make([][]plot.Point, len(s.Examples))
	for e, examples := range s.Examples {
		var alone sample
		for i, cores := range s.Cores {
			of, err := x.sample(log, examples, cores)
			if err != nil {
				return nil, nil, err
			}
			if i == 0 {
				alone = of
			}
			step := func(s sample, cores int) float64 { return s.pass(cores) + s.sums(a, cores) + s.update(a, 1) }
			first := of.First.Seconds() - of.First.Sums
			speedup := step(alone, 1) / step(of, cores)
			t.Add(examples, cores, lab.Seconds(step(of, cores)), lab.Fixed(speedup, 2),
				lab.Seconds(first), lab.Fixed(alone.First.Seconds()/first, 2), lab.Seconds(of.Boxes), lab.Seconds(of.Masks),
				lab.Seconds(of.second(cores)), lab.Fixed(alone.second(1)/of.second(cores), 2),
				lab.Seconds(of.Handed), lab.Seconds(of.sums(a, cores)), lab.Seconds(of.update(a, 1)))
			points[e] = append(points[e], plot.Point{X: float64(i), Y: speedup})
		}
	}
	return t, points, nil
}

// logged is the table of trainings, beside those that were logged.
func (x *maskRCNN) logged(a *accelerator.Accelerator, log *records.Log) (*lab.Table, error) {
	t := &lab.Table{ID: x.ID() + "-logged", Title: "Mask-RCNN: benchmark seconds on TPU pods, modelled", Caption: []string{
		"The steps of the logged epochs, with gradients added up over all cores and divided updates. Modelled: the steps alone, without selecting proposals and targets. Logged: the whole benchmark, with evaluations. Left: what the log has more of a step. Speedup: over the first row.",
	}}
	t.Numbers("cores", "cores an image", "images a group", "epochs", "steps", "step", "all-reduce", "modelled s", "logged s", "modelled / logged", "logged s a step", "left", "speedup", "logged speedup")
	var base, baseLogged float64
	for i, r := range x.Spec.Runs {
		s, err := x.sample(log, r.examples(), r.Spatial)
		if err != nil {
			return nil, err
		}
		reduce, gather := reduction.Cost(reduction.Torus, r.Torus.X, r.Torus.Y, float64(floatBytes*s.Params), a.Hop())
		step := s.pass(r.Spatial) + reduce + gather + s.update(a, r.cores())
		if i == 0 {
			base, baseLogged = step*r.steps(), r.Seconds.Value
		}
		each := r.Seconds.Value / r.steps()
		t.Add(r.cores(), r.Spatial, r.examples(), lab.Value{Text: r.Epochs.Text, Numbers: []float64{r.Epochs.Value}}, lab.Number("%.0f", r.steps()),
			lab.Seconds(step), lab.Percent((reduce+gather)/step, 1), lab.Fixed(step*r.steps(), 1), lab.Fixed(r.Seconds.Value, 1), lab.Fixed(step/each, 3),
			lab.Seconds(each), lab.Seconds(each-step), lab.Fixed(base/(step*r.steps()), 2), lab.Fixed(baseLogged/r.Seconds.Value, 2))
	}
	return t, nil
}
