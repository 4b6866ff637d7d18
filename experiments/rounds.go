package experiments

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"

	"gpipebench/datasets"
	"gpipebench/gpipe"
	"gpipebench/gpipe/partition"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/nn"
)

// rounds times training steps of several pipelines. Every round times every
// pipeline, so that a disturbance or a drift hits all of them alike, and ratios
// are taken within a round. Which pipeline is first moves from round to round.
type rounds struct {
	id     string // of the experiment
	runs   []timedRun
	count  int    // rounds
	warmUp int    // steps at the beginning of a round, of its first pipeline, that are not counted
	seed   uint64 // of weights and data
}

// timedRun is one of the pipelines that take turns.
type timedRun struct {
	name     string   // of its samples
	bench    string   // in the Go benchmark format
	training Training // every step trains on the same mini-batch of its model's kind
	steps    int      // in a round
	// over are links that emulated steps, timed without, are replayed with; nil: none.
	over *crossing
}

func (r *timedRun) sample(round, step int) string { return stepName(r.name, round, step) }

// stepName is the name of a run's sample.
func stepName(run string, round, step int) string {
	return fmt.Sprintf("%s/round=%d/step=%d", run, round, step)
}

// cores is how many the run keeps busy.
func (r *timedRun) cores() int {
	if r.training.Setup.Device == gpipe.Emulated {
		return 1
	}
	return r.training.Setup.Partitions
}

// timedSample is one timed step. Tasks are in nanoseconds, by stage and
// micro-batch.
type timedSample struct {
	Seconds   float64   `json:"seconds"` // of the step, on its devices' clock
	F         [][]int64 `json:"f"`
	R         [][]int64 `json:"r"`
	B         [][]int64 `json:"b"`
	Setup     []int64   `json:"setup"`
	Update    []int64   `json:"update"`
	Partition []int     `json:"partition"`
	Peak      []int64   `json:"peak_bytes"`
	HighWater []int64   `json:"high_water_bytes"`
	Others    float64   `json:"others"` // cores that other processes took meanwhile; -1: unknown
}

// order is the runs of a round, from first to last.
func (r *rounds) order(round int) []*timedRun {
	runs := make([]*timedRun, len(r.runs))
	for i := range runs {
		runs[i] = &r.runs[(i+round)%len(runs)]
	}
	return runs
}

// samples names those of each round, in the order in which they are measured.
func (r *rounds) samples() [][]string {
	names := make([][]string, r.count)
	for round := range names {
		for _, run := range r.order(round) {
			for step := range run.steps {
				names[round] = append(names[round], run.sample(round, step))
			}
		}
	}
	return names
}

// round adds the samples of a round that the log lacks. A pipeline is open for
// its own turn only.
func (r *rounds) round(ctx context.Context, round int, log *Log) error {
	warmUp, costs, batches := r.warmUp, layerCosts{}, timingBatches{}
	for _, run := range r.order(round) {
		var lacks []int
		for step := range run.steps {
			if !log.Has(run.sample(round, step)) {
				lacks = append(lacks, step)
			}
		}
		if len(lacks) == 0 {
			continue
		}
		if err := r.turn(ctx, round, run, lacks, warmUp, log, costs, batches); err != nil {
			return fmt.Errorf("%s, %s: %w", r.id, run.name, err)
		}
		warmUp = 0 // the process is
	}
	return nil
}

// turn opens a run's pipeline and times steps behind those that warm up.
func (r *rounds) turn(ctx context.Context, round int, run *timedRun, steps []int, warmUp int, log *Log, costs layerCosts, batches timingBatches) error {
	batch, err := batches.of(run.training.Model, run.training.Batch, r.seed)
	if err != nil {
		return err
	}
	trainer, err := r.open(ctx, log, run, costs)
	if err != nil {
		return err
	}
	defer trainer.Close()
	for range warmUp {
		if _, err := trainer.Step(ctx, batch); err != nil {
			return err
		}
	}
	for _, step := range steps {
		meter := startMeter()
		res, err := trainer.Step(ctx, batch)
		if err != nil {
			return err
		}
		s := newTimedSample(res)
		s.Others = meter.others()
		s.Partition, _ = trainer.Sizes()
		s.Peak, s.HighWater = memoryOf(trainer)
		if err := log.Add(run.sample(round, step), r.seed, s); err != nil {
			return err
		}
	}
	return nil
}

// open opens a run's pipeline. One that has samples is cut as it was then: a
// partition by measured time could come out otherwise.
func (r *rounds) open(ctx context.Context, log *Log, run *timedRun, costs layerCosts) (*gpipe.Trainer, error) {
	t := run.training
	t.Seed = r.seed
	for round := range r.count {
		for step := range run.steps {
			var s timedSample
			if name := run.sample(round, step); t.Setup.Balance == nil && log.Has(name) {
				if err := log.Get(name, &s); err != nil {
					return nil, err
				}
				t.Setup.Balance = s.Partition
			}
		}
	}
	if t.Setup.Cost == Time && t.Setup.Balance == nil {
		var err error
		if t.Setup.Balance, err = costs.balance(ctx, &t); err != nil {
			return nil, err
		}
	}
	trainer, _, err := t.open(ctx, toTrain)
	return trainer, err
}

// layerCosts is what layers were measured to take, so that pipelines that differ
// only in how they are cut are cut by the same figures.
type layerCosts map[layersKey][]float64

type layersKey struct {
	model        Model
	batch, micro int
	threads      int
}

// balance cuts a network by what its layers take.
func (c layerCosts) balance(ctx context.Context, t *Training) ([]int, error) {
	k := layersKey{t.Model, t.Batch, t.Setup.MicroBatches, t.Setup.Threads}
	if c[k] == nil {
		layers, err := t.Model.Build()
		if err != nil {
			return nil, err
		}
		l, err := t.Model.Loss(t.LabelSmoothing)
		if err != nil {
			return nil, err
		}
		whole := t.Setup
		whole.Partitions = 1 // not yet cut
		p, err := whole.pipeline(ctx, layers, l, t.Model.Input(t.Batch))
		if err != nil {
			return nil, err
		}
		p.Seed = t.Seed
		if c[k], err = timeLayers(ctx, p, t.Model.Input(t.Batch)); err != nil {
			return nil, err
		}
	}
	cut, err := partition.Split(t.Setup.Partitioner, c[k], t.Setup.Partitions)
	return cut.Sizes, err
}

// timingBatch is a mini-batch to take times with, which do not depend on what is
// in it.
func timingBatch(m Model, examples int, seed uint64) (nn.Batch, error) {
	if m.images() {
		return m.noise(examples, seed), nil
	}
	source, err := datasets.NewSynthetic(timingConfig(m, seed))
	if err != nil {
		return nn.Batch{}, err
	}
	return source.Batch(datasets.Train, 0, examples)
}

// timingConfig is the language of a language model's timingBatch.
func timingConfig(m Model, seed uint64) datasets.Config {
	return datasets.Config{
		SeqLen: m.Seq, Seed: seed,
		Synthetic: datasets.SyntheticConfig{Vocab: m.Vocab, Successors: successors(m.Vocab)},
	}
}

// timingBatches are those that were made already.
type timingBatches map[timingBatchKey]nn.Batch

type timingBatchKey struct {
	model    Model
	examples int
}

// of is a timingBatch, made once: that of large images takes as long as a step.
func (b timingBatches) of(m Model, examples int, seed uint64) (nn.Batch, error) {
	k := timingBatchKey{m, examples}
	batch, ok := b[k]
	if !ok {
		var err error
		if batch, err = timingBatch(m, examples, seed); err != nil {
			return nn.Batch{}, err
		}
		b[k] = batch
	}
	return batch, nil
}

// successors is a number of successors for the synthetic language that divides
// its vocabulary.
func successors(vocab int) int {
	for _, n := range []int{4, 5, 3, 2} {
		if vocab%n == 0 {
			return n
		}
	}
	return 2
}

func newTimedSample(res *gpipe.Result) *timedSample {
	s := &timedSample{Seconds: res.Seconds}
	for i := range res.Times.Stages {
		st := &res.Times.Stages[i]
		s.F = append(s.F, nanoseconds(st.F))
		s.R = append(s.R, nanoseconds(st.R))
		s.B = append(s.B, nanoseconds(st.B))
		s.Setup = append(s.Setup, nanoseconds([]float64{st.Setup})...)
		s.Update = append(s.Update, nanoseconds([]float64{st.Update})...)
	}
	return s
}

func nanoseconds(seconds []float64) []int64 {
	ns := make([]int64, len(seconds))
	for i, s := range seconds {
		ns[i] = int64(math.Round(s * 1e9))
	}
	return ns
}

func fromNanoseconds(ns []int64) []float64 {
	seconds := make([]float64, len(ns))
	for i, n := range ns {
		seconds[i] = float64(n) / 1e9
	}
	return seconds
}

// times is the sample as the virtual clock takes it.
func (s *timedSample) times(lists [][]schedule.Task) *gpipe.Times {
	t := &gpipe.Times{Lists: lists}
	for k := range s.F {
		t.Stages = append(t.Stages, gpipe.StageTimes{
			F: fromNanoseconds(s.F[k]), R: fromNanoseconds(s.R[k]), B: fromNanoseconds(s.B[k]),
			Setup: float64(s.Setup[k]) / 1e9, Update: float64(s.Update[k]) / 1e9,
		})
	}
	return t
}

// measured is a run's samples, reduced.
type measured struct {
	partition []int
	peak      []int64
	rounds    []float64        // seconds of a step, one for each round
	shares    []timeline.Parts // of the steps of emulated devices, one for each round
	times     *gpipe.Times     // every kind of task at the median of its repeats over all rounds
	closed    float64          // closed form with the means of times over stages
	parts     timeline.Parts
	span      float64 // of a replay of times
}

// measured reads and reduces the samples of one run.
func (r *rounds) measured(log *Log, run *timedRun) (*measured, error) {
	setup := run.training.Setup
	lists, err := schedule.Build(setup.Schedule, setup.Partitions, setup.MicroBatches, setup.Checkpoint, setup.LateRecompute)
	if err != nil {
		return nil, err
	}
	sizes := gpipe.MicroBatchSizes(run.training.Batch, setup.MicroBatches)
	m := &measured{}
	var all gpipe.Samples
	for round := range r.count {
		var samples gpipe.Samples
		var wall []float64
		for step := range run.steps {
			var s timedSample
			if err := log.Get(run.sample(round, step), &s); err != nil {
				return nil, err
			}
			samples.Add(s.times(lists))
			all.Add(s.times(lists))
			wall = append(wall, s.Seconds)
			m.partition, m.peak = s.Partition, s.Peak
		}
		seconds := median(wall)
		if setup.Device == gpipe.Emulated {
			parts, err := run.crossed(samples.Median(sizes), m.partition).Breakdown()
			if err != nil {
				return nil, err
			}
			seconds = parts.Step
			m.shares = append(m.shares, parts)
		}
		m.rounds = append(m.rounds, seconds)
	}
	m.times = run.crossed(all.Median(sizes), m.partition)
	if m.closed, err = m.times.ClosedForm(setup.Schedule, setup.Checkpoint, setup.LateRecompute); err != nil {
		return nil, err
	}
	if m.parts, err = m.times.Breakdown(); err != nil {
		return nil, err
	}
	m.span = m.parts.Step
	return m, nil
}

// all reads and reduces the samples of every run, by name.
func (r *rounds) all(log *Log) (map[string]*measured, error) {
	by := map[string]*measured{}
	for i := range r.runs {
		m, err := r.measured(log, &r.runs[i])
		if err != nil {
			return nil, err
		}
		by[r.runs[i].name] = m
	}
	return by, nil
}

// crowdNotes says in how many steps on devices of a kind other processes took
// cores that were needed.
func (r *rounds) crowdNotes(log *Log, device gpipe.Kind) []string {
	cores := min(log.Session.Machine.Cores, log.Session.Machine.GOMAXPROCS)
	steps, disturbed := 0, 0
	for i := range r.runs {
		run := &r.runs[i]
		if run.training.Setup.Device != device {
			continue
		}
		for round := range r.count {
			for step := range run.steps {
				var s timedSample
				if log.Get(run.sample(round, step), &s) != nil {
					continue
				}
				steps++
				if crowded(s.Others, run.cores(), cores) {
					disturbed++
				}
			}
		}
	}
	if disturbed == 0 {
		return nil
	}
	return []string{fmt.Sprintf("The machine was busy: in %d of these %d steps other processes took cores that the step needed. A median bears some of that, not half.", disturbed, steps)}
}

// notes say what a reader of the times should know: how busy the machine was,
// whether there are too few rounds, and which processes they ran in.
func (r *rounds) notes(log *Log, device gpipe.Kind) []string {
	return slices.Concat(r.crowdNotes(log, device), fewRoundsNote(r.count), []string{processNote(r, log)})
}

// stepTimes lists every sample's step. Host devices may have none, on one core.
func (r *rounds) stepTimes(log *Log) ([]stepTime, error) {
	var all []stepTime
	for i := range r.runs {
		run := &r.runs[i]
		for round := range r.count {
			for step := range run.steps {
				name := run.sample(round, step)
				if !log.Has(name) && run.training.Setup.Device == gpipe.Host {
					continue
				}
				var s timedSample
				if err := log.Get(name, &s); err != nil {
					return nil, err
				}
				all = append(all, stepTime{run.bench, s.Seconds})
			}
		}
	}
	return all, nil
}

// ratio is a quotient of two runs' times, taken round by round.
type ratio struct {
	median, lo, hi float64
	known          bool // that there is an interval: fewRoundsNote says if not
}

// ratioOf summarises a/b by the median and the interval of order statistics
// that holds the true median with 95% confidence, whatever the distribution.
func ratioOf(a, b []float64) ratio {
	var qs []float64
	for i := range a {
		qs = append(qs, a[i]/b[i])
	}
	r := ratio{median: median(qs)}
	r.lo, r.hi, r.known = interval(qs, 0.95)
	return r
}

func (r ratio) value() string { return fmt.Sprintf("%.2f", r.median) }

func (r ratio) interval() string {
	if !r.known {
		return "-"
	}
	return fmt.Sprintf("[%.2f, %.2f]", r.lo, r.hi)
}

// evenStep is the length of a step by the closed form, in units of the whole
// network's F of a mini-batch: even stages, no link, no update, f:r:b = 1:1:2.
func evenStep(s Setup) (float64, error) {
	f := 1 / float64(s.Partitions*s.MicroBatches)
	return schedule.StepTime(s.Schedule, s.Checkpoint, s.LateRecompute, s.Partitions, s.MicroBatches, f, f, 2*f)
}

// cutStep is the length of a step on stages cut out of layers with the given
// costs, f:r:b = 1:1:2, in the unit of the costs: a replay of the schedule.
func cutStep(s Setup, costs []float64) (float64, error) {
	cut, err := partition.Split(s.Partitioner, costs, s.Partitions)
	if err != nil {
		return 0, err
	}
	stages, _ := stageCosts(costs, cut.Sizes)
	lists, err := schedule.Build(s.Schedule, s.Partitions, s.MicroBatches, s.Checkpoint, s.LateRecompute)
	if err != nil {
		return 0, err
	}
	tl, err := timeline.Replay(lists, timeline.Costs{Task: func(at place.Place, task schedule.Task) float64 {
		f := stages[at.Stage] / float64(s.MicroBatches)
		if task.Kind == schedule.Backward {
			return 2 * f
		}
		return f
	}})
	if err != nil {
		return 0, err
	}
	return tl.Span(), nil
}

// hostCores is how many cores host devices may count on.
func hostCores() int { return min(runtime.NumCPU(), runtime.GOMAXPROCS(0)) }
