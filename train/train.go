package train

import (
	"fmt"
	"time"

	"gpipebench/datasets"
	"gpipebench/gpipe"
	"gpipebench/gpipe/timeline"
	"gpipebench/internal/units"
)

// Training is a network, what it learns from, and how.
type Training struct {
	Model Model  // Vocab, Image and Classes 0: the source's
	Data  string // as datasets.Open reads it
	// Config says how Data is read. Its Seed, lengths, vocabularies, size of images
	// and classes are the training's and the model's.
	Config datasets.Config
	Setup  Setup

	Batch  int // examples of a mini-batch
	Steps  int // mini-batches to train on; 0: Epochs, and if these are 0 none: Load and Save are for that, too
	Epochs int // passes over the source

	Seed           uint64
	Optimizer      string
	LR             float64
	LRSchedule     string // as nn.LRUnits.Parse reads it; "": inverse-sqrt with a warm-up that suits the steps, see WarmUp; of epochs of tokens, the network's preset's
	ClipNorm       float64
	L2             float64
	LabelSmoothing float64
	// EMA is the decay of an average of the weights (see nn.EMA), with which the
	// network is evaluated; 0: none.
	EMA float64

	// RecomputeStatistics is how many training examples, of the first epoch as it is trained on,
	// batch norm's statistics are recomputed over for each evaluation, with the weights that are
	// evaluated: see gpipe.Trainer.Recomputed. What is saved and hashed, and training itself, have
	// the moving averages. 0: evaluations have these, too.
	RecomputeStatistics int

	// Keep says which weights a training ends with, which are hashed, saved and evaluated. The best
	// are chosen among the evaluations' by a half of what is held out; the final evaluation is of the
	// other half. A training that fails before its end leaves those so far: in Save, or best.safetensors
	// in the directory of snapshots.
	Keep Keep

	// Patience ends a training, as if it had no more steps, at an evaluation that many after the best
	// one. It wants the best weights to be kept; 0: all steps are made.
	Patience int

	EvalEvery int // steps between evaluations; 0: at the end only, of images after each epoch

	EmptySource bool // a translator gets no source sentences

	Load, Save string // files of weights to begin with and to end with; "": none
	LoadPart   string // a file in place of Load; what fits of it is loaded; "": none
	NewLast    bool   // LoadPart leaves the last layer as it is, for classes of another meaning
	SaveEMA    bool   // Save the average instead of the weights that were trained
	Generate   int    // tokens of text to generate at the end, of a language model; 0: none
	// Translations is a file of comma-separated values for a translator's translations of what is
	// held out; "": none.
	Translations string
	// Log is a file of comma-separated values for the losses, a line for each step and evaluation; "": none.
	// Lines that cannot be written are tried again with each later one; Run has an error if any are left.
	Log       string
	HashAfter int // a step to take a hash after; 0: none

	Snapshots Snapshots // of the training's state, to go on from after an interrupt

	// Announce is called before the first step with the number of steps that are left and the
	// time that they will take, about. Nil: that is not estimated, which takes about half a step.
	Announce func(steps int, expected time.Duration)
	// Closing is called with what begins after the last step and may take long, if
	// it is not nil.
	Closing func(what string)
	// Notice, if it is not nil, is called with a line about what was found in files of
	// data, settings that have less effect than they seem to have, what Load's file does
	// not say and is therefore not checked, and what it replaces in the data.
	Notice func(what string)

	// Reductions: timelines have how each tensor is added up over replicas, on host devices.
	Reductions bool `json:"-"`
	// Processes are those that run the training together. Nil: this one runs it alone.
	Processes *Processes

	data       string      // digest of what is read, to be compared by processes
	input      gpipe.Input // of a Shaped source: its largest mini-batch
	predicting gpipe.Input // the largest that a translator's search or a language model's Generate predicts
	epochSteps int         // mini-batches of an epoch; 0: there are no epochs
	planned    int         // steps of the whole training
}

// TrainStep is one step as it is reported while a training runs.
type TrainStep struct {
	Step, Steps int
	*gpipe.Result
	ClosedForm float64     // seconds
	Examples   int         // of this step's mini-batch
	Eval       *Evaluation // if one was due after this step
}

// ExamplesPerSecond is the step's throughput on its devices' clock.
func (s TrainStep) ExamplesPerSecond() float64 { return float64(s.Examples) / s.Seconds }

func (s TrainStep) String() string {
	text := fmt.Sprintf("step %d/%d  loss %.4f  lr %.3g  step time %s (closed form %s)  %.4g examples/s",
		s.Step, s.Steps, s.Loss, s.LR, units.FormatSeconds(s.Seconds), units.FormatSeconds(s.ClosedForm), s.ExamplesPerSecond())
	if s.Eval != nil {
		text += "  " + s.Eval.String()
	}
	return text
}

// Result is the outcome. Other programs rely on the first five keys.
type Result struct {
	WeightsSHA256     string      `json:"weights_sha256"`
	Losses            []float64   `json:"losses"` // of the steps: what is trained, smoothing and auxiliary head included
	Eval              *Evaluation `json:"eval"`
	PeakBytes         []int64     `json:"peak_bytes"` // planned, by device
	ExamplesPerSecond float64     `json:"examples_per_second"`

	InitialSHA256 string `json:"initial_sha256"`         // of the weights before the first step
	HashAfter     string `json:"sha256_after,omitempty"` // what Training.HashAfter asks for
	EMASHA256     string `json:"ema_sha256,omitempty"`   // of the weights' average
	// Untrained is the share of their initial values that batch norm's moving averages,
	// with which Eval is made, still have; 0 where that is unknown or there are none.
	Untrained      float64              `json:"untrained_statistics,omitempty"`
	Generated      *Generated           `json:"generated,omitempty"`
	Yardsticks     []datasets.Yardstick `json:"yardsticks"`
	Baselines      []datasets.Baseline  `json:"baselines,omitempty"` // of translations
	Best           *Best                `json:"best,omitempty"`      // the evaluation whose weights were kept; none: those after the last step
	Evals          []Evaluation         `json:"evals,omitempty"`     // those on the way
	HighWaterBytes []int64              `json:"high_water_bytes"`
	Parts          *PartBytes           `json:"parts,omitempty"` // with images divided over parts
	Params         int64                `json:"params"`
	Partition      []int                `json:"partition"`           // layers of each partition, or piece of the network
	Placement      []int                `json:"placement,omitempty"` // the device of each, where devices have several
	Note           string               `json:"partition_note,omitempty"`
	Device         string               `json:"device"`
	Replicas       int                  `json:"replicas,omitempty"` // records from before there were any lack both
	Groups         int                  `json:"groups,omitempty"`
	BatchNormScope string               `json:"bn_scope,omitempty"`   // none: each replica's own
	DType          string               `json:"dtype,omitempty"`      // of activations; none: f32
	ResumedAt      int                  `json:"resumed_at,omitempty"` // the step after which a snapshot let it go on; 0: it was not stopped
	StepSeconds    float64              `json:"step_seconds"`
	ClosedForm     float64              `json:"closed_form_seconds"` // of the same step, stages even
	KernelProfile  string               `json:"kernel_profile"`
	Devices        []DeviceTime         `json:"devices,omitempty"` // where each one's time goes in a step; none: no step was made

	// Processes are those that ran the training together; none: one.
	Processes []Process `json:"processes,omitempty"`
	// Traffic is what the processes sent each other in a step.
	Traffic []Travelled `json:"traffic,omitempty"`

	LastStep *timeline.Timeline `json:"-"` // nil: this process made none
	Earlier  float64            `json:"-"` // seconds that the training had taken before it was stopped
}

// Plans plans the memory of the training's devices for steps alone, without its data: those
// of all stages of a replica after those of the one before.
func (t Training) Plans() ([]*gpipe.Plan, error) {
	p, in, err := t.pipeline()
	if err != nil {
		return nil, err
	}
	planned, err := p.Plans(in)
	if err != nil {
		return nil, err
	}
	return planned.Plans, nil
}

// Check reports why a training cannot begin, as far as shapes and settings show: not
// whether its memory suffices. Models in known are not traced again.
func (t Training) Check(known map[Model]int) error {
	if t.Data != "" {
		if pairs := &t.Config.Multilingual.Pairs; *pairs > 1000 { // which are made at once
			if err := (datasets.Config{Multilingual: t.Config.Multilingual}).Validate(); err != nil {
				return err
			}
			*pairs = 1000
		}
		s, err := t.Source()
		if err != nil {
			return err
		}
		if _, err := t.steps(s); err != nil {
			return err
		}
	} else if _, err := t.Model.Random(t.Batch, t.Seed); err != nil {
		return err
	}
	p, in, err := t.pipeline()
	if err != nil {
		return err
	}
	if _, ok := known[t.Model]; !ok {
		if _, err = p.Describe(in); err == nil {
			known[t.Model] = len(p.Layers)
		}
	}
	return err
}
