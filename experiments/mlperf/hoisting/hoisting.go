// Package hoisting times a recurrent layer whose input is projected before its loop, or inside,
// beside a model that was calibrated on others.
package hoisting

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"

	"gpipebench/gpipe/accelerator"
	"gpipebench/internal/machine"
	"gpipebench/internal/progress"
	"gpipebench/internal/stats"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/lab/timed"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
	"gpipebench/train"
)

//go:embed spec.yaml about.md
var folder embed.FS

var Definition = lab.Definition{ID: "hoisting", Folder: folder, New: lab.New[hoisting]}

// spec is spec.yaml.
type spec struct {
	lab.Head    `yaml:",inline"`
	Batches     []int   `yaml:"batches" want:"1..4096"`
	Within      float64 `yaml:"within" want:">0..1000"` // percent
	Accelerator string  `yaml:"accelerator" want:"accelerator"`
	DType       string  `yaml:"dtype" want:"dtype"`
	Pod         size    `yaml:"pod"`

	Profiles map[string]profile `yaml:"profiles"`
}

// size is a layer's.
type size struct {
	Width int `yaml:"width" want:"1..65536"`
	Steps int `yaml:"steps" want:"1..65536"`
}

type profile struct {
	Expected   lab.Span `yaml:"expected" want:"shown"`
	Measured   size     `yaml:"measured"`
	Calibrated []struct {
		size    `yaml:",inline"`
		Batches []int `yaml:"batches" want:"1..4096"`
	} `yaml:"calibrated"`
	Rounds int `yaml:"rounds" want:"1..1000"`
	Turns  int `yaml:"turns" want:"1..999"` // of every layer, in a round
}

type hoisting struct {
	lab.Base[spec]
}

func (h *hoisting) Resolve() *lab.Problem {
	if len(h.Spec.Batches) == 0 || !slices.IsSorted(h.Spec.Batches) {
		return lab.At(errors.New("want one or more, in ascending order"), "batches")
	}
	for _, name := range lab.Profiles {
		p := h.Spec.Profiles[name]
		if len(p.Calibrated) < 2 {
			return lab.At(errors.New("want two sizes or more"), "profiles", name, "calibrated")
		}
		for i, c := range p.Calibrated {
			if c.Width == p.Measured.Width || len(c.Batches) == 0 {
				return lab.At(errors.New("want another width than the measured one, and batches"), "profiles", name, "calibrated", fmt.Sprint(i))
			}
		}
	}
	return nil
}

// pair is a layer in both forms, hoisted first.
func (s size) pair(batch int) [2]layer {
	return [2]layer{{s.Width, s.Steps, batch, false}, {s.Width, s.Steps, batch, true}}
}

// measured are the layers that are compared, and calibrated those that the model is made of.
func (m *measurement) measured() (all []layer) {
	for _, b := range m.Spec.Batches {
		of := m.Measured.pair(b)
		all = append(all, of[:]...)
	}
	return all
}

func (p profile) calibrated() (all []layer) {
	for _, c := range p.Calibrated {
		for _, b := range c.Batches {
			of := c.pair(b)
			all = append(all, of[:]...)
		}
	}
	return all
}

// Sample is a layer in a round.
type Sample struct {
	Seconds float64   `json:"seconds"`          // of a step; the median
	Instrs  []float64 `json:"instrs,omitempty"` // of each instruction of a layer for the calibration; medians
	Others  float64   `json:"others"`           // cores that other processes took meanwhile; -1: unknown
}

// Check requires a time.
func (s *Sample) Check() error {
	if !(s.Seconds > 0) || slices.ContainsFunc(s.Instrs, func(x float64) bool { return !(x >= 0) }) {
		return fmt.Errorf("%v s, instructions of %v", s.Seconds, s.Instrs)
	}
	return nil
}

func (l layer) sample(round int) string {
	form := "hoisted"
	if l.Inside {
		form = "inside"
	}
	return fmt.Sprintf("width=%d/steps=%d/batch=%d/%s/round=%d", l.Width, l.Steps, l.Batch, form, round)
}

// measurement is that of a profile.
type measurement struct {
	*hoisting
	profile
}

func (h *hoisting) Repeated(profile string) (timed.Repeated, error) {
	p, err := lab.ProfileOf(h.Spec.Profiles, profile)
	return &measurement{h, p}, err
}

func (h *hoisting) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	return timed.Measure(ctx, h, log, p)
}

func (m *measurement) Samples() [][]string {
	names := make([][]string, m.Rounds)
	for round := range names {
		for _, l := range slices.Concat(m.measured(), m.calibrated()) {
			names[round] = append(names[round], l.sample(round))
		}
	}
	return names
}

// Round measures all samples of a round, also those that the log has: they belong together. All
// layers are open at once and take turns, so that a change of the machine's speed affects the
// calibration and what it is compared with alike. Which is first moves from round to round.
func (m *measurement) Round(ctx context.Context, round int, log *records.Log) error {
	pool := program.NewPool(1)
	defer pool.Close()
	var open []*running
	for _, l := range slices.Concat(m.measured(), m.calibrated()) {
		open = append(open, l.open(pool))
	}
	watched := len(m.measured()) // from here on
	seconds := make([][]float64, len(open))
	times := make([]map[*program.Instr][]float64, len(open))
	meter := machine.StartMeter()
	for turn := range m.Turns + 1 {
		for k := range open {
			i := (k + round) % len(open)
			if turn == 0 {
				times[i] = map[*program.Instr][]float64{}
			}
			var ran func(*program.Instr, float64)
			if i >= watched && turn > 0 {
				ran = func(in *program.Instr, s float64) { times[i][in] = append(times[i][in], s) }
			}
			s, err := open[i].step(ctx, ran)
			if err != nil {
				return err
			}
			if turn > 0 {
				seconds[i] = append(seconds[i], s)
			}
		}
	}
	others := meter.Others()
	for i, r := range open {
		made := Sample{Seconds: stats.Median(seconds[i]), Others: others}
		if i >= watched {
			for _, in := range instructions(r.stage) {
				made.Instrs = append(made.Instrs, stats.Median(times[i][in]))
			}
		}
		if name := r.sample(round); !log.Has(name) {
			if err := log.Add(name, m.Spec.Seed, made); err != nil {
				return err
			}
		}
	}
	return nil
}

// read returns a layer's samples of all rounds.
func (m *measurement) read(log *records.Log, l layer) (all []Sample, err error) {
	for round := range m.Rounds {
		var s Sample
		if err := log.Get(l.sample(round), &s); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// models are this machine's core as calibrated in each round.
func (m *measurement) models(log *records.Log) ([]*accelerator.Accelerator, error) {
	made := make([]accelerator.Calibration, m.Rounds)
	for _, l := range m.calibrated() {
		all, err := m.read(log, l)
		if err != nil {
			return nil, err
		}
		instrs := instructions(l.compile(program.Storage{}))
		for round, s := range all {
			if len(s.Instrs) != len(instrs) {
				return nil, log.Strange(l.sample(round), fmt.Errorf("times of %d instructions, want %d", len(s.Instrs), len(instrs)))
			}
			for i, in := range instrs {
				made[round].Watch(in, s.Instrs[i])
			}
		}
	}
	models := make([]*accelerator.Accelerator, m.Rounds)
	for round := range models {
		models[round] = &accelerator.Accelerator{Name: "host", Lanes: nn.VectorLanes(), Tiled: true, Packing: true}
		made[round].Fit(models[round])
	}
	return models, nil
}

// result is a batch's.
type result struct {
	batch           int
	hoisted, inside []float64 // seconds, by round
	modelled        []float64 // the model's factor, by round
	pod             [2]float64
}

// over is the measured factor of each round over the model's.
func (r *result) over() (all []float64) {
	for i, h := range r.hoisted {
		all = append(all, r.inside[i]/h/r.modelled[i])
	}
	return all
}

func (m *measurement) results(log *records.Log) (all []*result, err error) {
	models, err := m.models(log)
	if err != nil {
		return nil, err
	}
	pod, err := accelerator.Named(m.Spec.Accelerator)
	if err != nil {
		return nil, err
	}
	dtype := lab.Named(train.ParseDType, m.Spec.DType)
	for _, b := range m.Spec.Batches {
		r := &result{batch: b}
		for i, l := range m.Measured.pair(b) {
			samples, err := m.read(log, l)
			if err != nil {
				return nil, err
			}
			for _, s := range samples {
				if i == 0 {
					r.hoisted = append(r.hoisted, s.Seconds)
				} else {
					r.inside = append(r.inside, s.Seconds)
				}
			}
			r.pod[i] = m.Spec.Pod.pair(b)[i].on(pod, dtype, false)
		}
		of := m.Measured.pair(b)
		for _, a := range models {
			r.modelled = append(r.modelled, of[1].on(a, graph.F32, true)/of[0].on(a, graph.F32, true))
		}
		all = append(all, r)
	}
	return all, nil
}

func (h *hoisting) Report(log, reference *records.Log) (*lab.Report, error) {
	p, err := lab.ProfileOf(h.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	m := &measurement{h, p}
	all, err := m.results(log)
	if err != nil {
		return nil, err
	}
	var referred []*result
	t := &lab.Table{ID: h.ID(), Title: h.Title(), Caption: []string{
		fmt.Sprintf("A forward and a backward pass of a recurrent layer of %d inputs and units over %d steps, float32, one thread. Hoisted: the input is projected before the loop, and the gradients of weights follow it; inside: both are in the loop. Median of %d rounds, ratios within a round; in brackets the 95%% interval of order statistics.", p.Measured.Width, p.Measured.Steps, p.Rounds),
		fmt.Sprintf("Modelled: by a roofline whose rates and overheads were fitted, in the same round, to the operations of layers of other sizes. Within: the measured factor is within %g%% of it. On %s: a layer of %d inputs and units over %d steps, %s activations, by the published rates.", h.Spec.Within, h.Spec.Accelerator, h.Spec.Pod.Width, h.Spec.Pod.Steps, h.Spec.DType),
	}}
	t.Numbers("batch", "hoisted", "95%, hoisted", "inside", "95%, inside", "measured inside / hoisted", "95%, inside / hoisted", "modelled inside / hoisted", "measured / modelled", "95%, measured / modelled")
	t.Texts("within")
	t.Numbers("hoisted examples/s", h.Spec.Accelerator+" hoisted", h.Spec.Accelerator+" inside", h.Spec.Accelerator+" inside / hoisted")
	if reference != nil {
		if of, err := lab.ProfileOf(h.Spec.Profiles, reference.Key.Profile); err == nil {
			referred, _ = (&measurement{h, of}).results(reference)
		}
		t.Numbers("inside / hoisted, " + lab.ReferenceName(log, reference))
	}
	panel := &plot.LinePanel{Title: "inside / hoisted", X: "examples a core", Y: "times as long", FromZero: true}
	var points [3][]plot.Point
	for i, r := range all {
		hoisted, inside := lab.Median(r.hoisted, lab.Seconds), lab.Median(r.inside, lab.Seconds)
		factor := stats.RatioOf(r.inside, r.hoisted)
		over := lab.Median(r.over(), func(x float64) lab.Value { return lab.Fixed(x, 3) })
		model, pod := stats.Median(r.modelled), r.pod[1]/r.pod[0]
		near := over[0].Numbers[0] >= 1-h.Spec.Within/100 && over[0].Numbers[0] <= 1+h.Spec.Within/100
		row := []any{
			r.batch, hoisted, inside, lab.Ratio(factor, false), lab.Fixed(model, 2), over, lab.YesOrNo(near),
			lab.Number("%.4g", float64(r.batch)/hoisted[0].Numbers[0]), lab.Seconds(r.pod[0]), lab.Seconds(r.pod[1]), lab.Fixed(pod, 2),
		}
		if reference != nil {
			cell := lab.Absent
			if i < len(referred) {
				cell = lab.Fixed(stats.RatioOf(referred[i].inside, referred[i].hoisted).Median, 2)
			}
			row = append(row, cell)
		}
		t.Add(row...)
		panel.Names = append(panel.Names, fmt.Sprint(r.batch))
		for j, y := range []float64{factor.Median, model, pod} {
			points[j] = append(points[j], plot.Point{X: float64(i), Y: y})
		}
	}
	panel.Series = []plot.Series{
		{Name: "measured", Lines: [][]plot.Point{points[0]}},
		{Name: "modelled", Lines: [][]plot.Point{points[1]}, Dashed: true},
		{Name: "modelled on " + h.Spec.Accelerator, Lines: [][]plot.Point{points[2]}, Dashed: true},
	}
	t.Notes = append(lab.FewRoundsNote(p.Rounds), timed.ProcessNote(m, log))
	if reference != nil {
		t.Notes = append(t.Notes, lab.ReferenceNote(reference))
	}
	report := &lab.Report{Tables: []*lab.Table{t}}
	report.Files, err = plot.Files(h.ID(), h.Title(), []plot.Axes{panel})
	return report, err
}
