package mlperf

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gpipebench/gpipe/accelerator"
	"gpipebench/internal/machine"
	"gpipebench/internal/stats"
	"gpipebench/lab"
	"gpipebench/lab/shown"
	"gpipebench/lab/timed"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
	"gpipebench/train"
)

// hoistingSpec is the spec of hoisting.
type hoistingSpec struct {
	timed.Profiled[hoistingProfile] `yaml:",inline"`
	Batches                         []int         `yaml:"batches" want:"1..4096,ascending"`
	Within                          float64       `yaml:"within" want:">0..1000"` // percent
	Accelerator                     string        `yaml:"accelerator" want:"accelerator"`
	DType                           string        `yaml:"dtype" want:"dtype"`
	Pod                             recurrentSize `yaml:"pod"`
}

// recurrentSize is a layer's.
type recurrentSize struct {
	Width int `yaml:"width" want:"1..65536"`
	Steps int `yaml:"steps" want:"1..65536"`
}

type hoistingProfile struct {
	timed.Size `yaml:",inline"`
	Measured   recurrentSize `yaml:"measured"`
	Calibrated []struct {
		recurrentSize `yaml:",inline"`
		Batches       []int `yaml:"batches" want:"1..4096"`
	} `yaml:"calibrated"`
	Turns int `yaml:"turns" want:"1..999"` // of every layer, in a round
}

// hoisting times a recurrent layer whose input is projected before its loop, or inside, beside
// a model that was calibrated on others.
type hoisting = timed.Compared[hoistingSpec, hoistingProfile, recurrentLayer, layerTimes]

type hoistingRuns = timed.Comparison[hoistingProfile, recurrentLayer, layerTimes]

func newHoisting() (lab.Experiment, error) {
	h := &hoisting{}
	s := &h.Spec
	h.Check, h.Together, h.Show = s.check, s.measure, s.show
	h.Runs = s.layers
	h.Name = func(l recurrentLayer) string {
		form := "hoisted"
		if l.Inside {
			form = "inside"
		}
		return fmt.Sprintf("width=%d/steps=%d/batch=%d/%s", l.Width, l.Steps, l.Batch, form)
	}
	return h, nil
}

func (h *hoistingSpec) check() *lab.Problem {
	for _, name := range lab.Profiles {
		p := h.Profiles[name]
		if len(p.Calibrated) < 2 {
			return lab.At(errors.New("want two sizes or more"), "profiles", name, "calibrated")
		}
		for i, c := range p.Calibrated {
			if c.Width == p.Measured.Width {
				return lab.At(errors.New("want another width than the measured one"), "profiles", name, "calibrated", fmt.Sprint(i))
			}
		}
	}
	return nil
}

// in is a layer in both forms, hoisted first, for each of some batches.
func (s recurrentSize) in(batches ...int) (all []recurrentLayer) {
	for _, b := range batches {
		all = append(all, recurrentLayer{s.Width, s.Steps, b, false}, recurrentLayer{s.Width, s.Steps, b, true})
	}
	return all
}

// layers are all of a round.
func (h *hoistingSpec) layers(p hoistingProfile) []recurrentLayer {
	return slices.Concat(h.measured(p), p.calibrated())
}

// measured are the layers that are compared, and calibrated those that the model is made of.
func (h *hoistingSpec) measured(p hoistingProfile) []recurrentLayer {
	return p.Measured.in(h.Batches...)
}

func (p hoistingProfile) calibrated() (all []recurrentLayer) {
	for _, c := range p.Calibrated {
		all = append(all, c.in(c.Batches...)...)
	}
	return all
}

// layerTimes are a layer's times in a round.
type layerTimes struct {
	Seconds float64   `json:"seconds"`          // of a step; the median
	Instrs  []float64 `json:"instrs,omitempty"` // of each instruction of a layer for the calibration; medians
	Others  float64   `json:"others"`           // cores that other processes took meanwhile; -1: unknown
}

// Check requires a time.
func (s *layerTimes) Check() error {
	if !(s.Seconds > 0) || slices.ContainsFunc(s.Instrs, func(x float64) bool { return !(x >= 0) }) {
		return fmt.Errorf("%v s, instructions of %v", s.Seconds, s.Instrs)
	}
	return nil
}

func (s *layerTimes) seconds() float64 { return s.Seconds }

// measure opens all layers at once, and they take turns, so that a change of the machine's speed
// affects the calibration and what it is compared with alike. Which is first moves from round
// to round.
func (h *hoistingSpec) measure(ctx context.Context, p hoistingProfile, round int) (all []*layerTimes, err error) {
	pool := program.NewPool(1)
	defer pool.Close()
	var open []*runningLayer
	for _, l := range h.layers(p) {
		open = append(open, l.open(pool))
	}
	watched := len(h.measured(p)) // from here on
	seconds := make([][]float64, len(open))
	times := make([]map[*program.Instr][]float64, len(open))
	for i := range times {
		times[i] = map[*program.Instr][]float64{}
	}
	meter := machine.StartMeter()
	for turn := range p.Turns + 1 {
		for k := range open {
			i := (k + round) % len(open)
			var ran func(*program.Instr, float64)
			if i >= watched && turn > 0 {
				ran = func(in *program.Instr, s float64) { times[i][in] = append(times[i][in], s) }
			}
			s, err := open[i].step(ctx, ran)
			if err != nil {
				return nil, err
			}
			if turn > 0 {
				seconds[i] = append(seconds[i], s)
			}
		}
	}
	others := meter.Others()
	for i, r := range open {
		made := &layerTimes{Seconds: stats.Median(seconds[i]), Others: others}
		if i >= watched {
			for _, in := range layerInstructions(r.stage) {
				made.Instrs = append(made.Instrs, stats.Median(times[i][in]))
			}
		}
		all = append(all, made)
	}
	return all, nil
}

// models are this machine's core as calibrated in each round.
func (h *hoistingSpec) models(c *hoistingRuns) ([]*accelerator.Accelerator, error) {
	made := make([]accelerator.Calibration, c.Profile.Rounds)
	for _, l := range c.Profile.calibrated() {
		instrs := layerInstructions(l.compile(program.Storage{}))
		for round, s := range c.Of[l] {
			if len(s.Instrs) != len(instrs) {
				return nil, c.Log.Strange(c.Sample(l, round), fmt.Errorf("times of %d instructions, want %d", len(s.Instrs), len(instrs)))
			}
			for i, in := range instrs {
				made[round].Watch(in, s.Instrs[i])
			}
		}
	}
	models := make([]*accelerator.Accelerator, len(made))
	for round := range models {
		models[round] = &accelerator.Accelerator{Name: "host", Lanes: nn.VectorLanes(), Tiled: true, Packing: true}
		made[round].Fit(models[round])
	}
	return models, nil
}

func (h *hoistingSpec) show(c *hoistingRuns) (shown.Rows, error) {
	models, err := h.models(c)
	if err != nil {
		return nil, err
	}
	pod, err := accelerator.Named(h.Accelerator)
	if err != nil {
		return nil, err
	}
	dtype := lab.Named(train.ParseDType, h.DType)
	times := func(c *hoistingRuns, b int) (hoisted, inside []float64) {
		if c == nil {
			return nil, nil
		}
		of := c.Profile.Measured.in(b)
		return c.Each(of[0], (*layerTimes).seconds), c.Each(of[1], (*layerTimes).seconds)
	}
	var rows []shown.Values
	for _, b := range h.Batches {
		of, large := c.Profile.Measured.in(b), h.Pod.in(b)
		var modelled []float64 // the factor, by round
		for _, a := range models {
			modelled = append(modelled, of[1].on(a, graph.F32, true)/of[0].on(a, graph.F32, true))
		}
		hoisted, inside := times(c, b)
		before, beforeInside := times(c.Before, b)
		rows = append(rows, shown.Values{
			"batch": b, "hoisted": hoisted, "inside": inside, "modelled": modelled, "near": h.Within / 100,
			"pod_hoisted": large[0].on(pod, dtype, false), "pod_inside": large[1].on(pod, dtype, false),
			"before_hoisted": before, "before_inside": beforeInside,
		})
	}
	return shown.Rows{"": rows}, nil
}

// recurrentLayer is a recurrent layer with as many inputs as units, and how many examples it gets.
type recurrentLayer struct {
	Width, Steps, Batch int
	Inside              bool
}

// compile compiles the layer's forward function, which keeps residuals, and its backward
// function, for one thread.
func (l recurrentLayer) compile(s program.Storage) *program.Stage {
	g := &graph.Graph{}
	x := g.NewNode(graph.Input, "x", graph.F32, l.Batch, l.Steps, l.Width)
	wx := g.NewNode(graph.Param, "wx", graph.F32, l.Width, 4*l.Width)
	bias := g.NewNode(graph.Param, "bias", graph.F32, 4*l.Width)
	w := g.NewNode(graph.Param, "w", graph.F32, l.Width, 4*l.Width)
	var y *graph.Node
	if l.Inside {
		y = g.LSTMInside(x, wx, bias, w, nil, false)
	} else {
		y = g.LSTM(g.AddBias(g.MatMul(x, wx), bias), w, nil, false)
	}
	f := program.Function{Graph: g, In: []*graph.Node{x}, Out: []*graph.Node{y}, Params: []*graph.Node{wx, bias, w}}
	return program.Compile(f, []bool{true}, true, 1, s)
}

// on is the layer's step on an accelerator, in seconds.
func (l recurrentLayer) on(a *accelerator.Accelerator, dtype graph.DType, packing bool) float64 {
	s := l.compile(program.Storage{DType: dtype, NoPacking: !packing})
	return a.Seconds(s.Keep, dtype) + a.Seconds(s.Backward, dtype)
}

// runningLayer is a layer with memory.
type runningLayer struct {
	recurrentLayer
	stage  *program.Stage
	memory program.Binding
	pool   *program.Pool
	env    program.Env
}

func (l recurrentLayer) open(pool *program.Pool) *runningLayer {
	r := &runningLayer{recurrentLayer: l, stage: l.compile(program.Storage{}), pool: pool, env: program.Env{Step: 1, LossScale: 1}}
	for s := range r.memory {
		r.memory[s] = make([]float32, r.stage.Span[s])
	}
	// Small numbers of both signs: time does not depend on them unless they are subnormal.
	for _, s := range []program.Space{program.Params, program.In, program.DOut} {
		for i := range r.memory[s] {
			r.memory[s][i] = (float32(i%13) - 6) / 64
		}
	}
	return r
}

// step runs both passes. Ran, if it is not nil, gets each instruction with its seconds.
func (r *runningLayer) step(ctx context.Context, ran func(in *program.Instr, seconds float64)) (seconds float64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	start := time.Now()
	var o program.Options
	if ran != nil {
		last := start
		o.Ran = func(in *program.Instr) {
			now := time.Now()
			ran(in, now.Sub(last).Seconds())
			last = time.Now()
		}
	}
	for _, p := range passesOf(r.stage) {
		if err := p.Run(r.pool, &r.memory, &r.env, o); err != nil {
			return 0, err
		}
	}
	return time.Since(start).Seconds(), nil
}

func passesOf(s *program.Stage) []*program.Program { return []*program.Program{s.Keep, s.Backward} }

// layerInstructions are a step's instructions, in their order.
func layerInstructions(s *program.Stage) (all []*program.Instr) {
	for _, p := range passesOf(s) {
		for i := range p.Instrs {
			all = append(all, &p.Instrs[i])
		}
	}
	return all
}
