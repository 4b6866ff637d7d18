package gpipe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/plan"
	"gpipebench/gpipe/timeline"
	"gpipebench/gpipe/transport"
	"gpipebench/nn"
)

// Trainer is a pipeline that has been planned, allocated and initialised. Its
// methods are not for concurrent use.
type Trainer struct {
	net       *plan.Network
	testing   hooks
	records   bool            // Pipeline.RecordsReductions
	watch     func(KernelRun) // see Watch
	transport transport.Transport
	peers     []place.Place // the first place of each process
	self      int           // which of them is this process's
	plans     []*Plan       // of all devices
	used      []highWater   // of all devices, as last reported
	devices   []*device     // of this process, in order
	alone     chan struct{} // on emulated devices: held by the task that runs
	steps     int
	compared  int  // the number of steps after which replicas were last compared; -1: not since their weights were set
	averaged  bool // the weights and their averages are exchanged
	// recomputed says that batch norm's recomputed statistics are in the averages' places.
	recomputed bool
	// differentiated says that the accumulators hold gradients of a whole mini-batch.
	differentiated bool
	profile        *Profile // that times the steps; nil: none
	function       string   // the network's fingerprint, once it is known
	broken         error

	stopping  atomic.Bool // this process has asked to stop
	stopAsked bool        // a process had, by the end of the last step
}

// Open plans the pipeline for mini-batches of the given kind to train on, and for
// those to evaluate and to predict (Pipeline.Evaluating, Pipeline.Predicting),
// allocates every device's memory and initialises the parameters. It fails with an
// *OutOfMemoryError if a device's capacity does not hold its plan, with a
// *MisfitError if the layers cannot take their input, and with another error if the
// devices plan more memory than the machine has.
//
// The zero Input opens a pipeline that does not train: its devices hold no
// gradients and no state of the optimiser, and micro-batches may be too small to
// train on. An average of the weights is kept if Pipeline.EMA says so.
func (p Pipeline) Open(in Input) (*Trainer, error) {
	if err := p.CheckMemory(in); err != nil {
		return nil, err
	}
	n, err := p.network(in)
	if err != nil {
		return nil, err
	}
	if n.Devices[0].Kind == Modelled {
		return nil, errors.New("modelled devices compute nothing: want host or emulated")
	}
	t := &Trainer{net: n, testing: p.testing, records: p.RecordsReductions, compared: -1}
	if t.transport = p.Transport; t.transport == nil {
		t.transport = transport.InProcess()
	}
	if err := t.findPeers(); err != nil {
		return nil, err
	}
	if n.Devices[0].Kind == Emulated {
		if len(t.peers) > 1 {
			return nil, errors.New("emulated devices in several processes: want one, since their tasks are timed alone, or host devices")
		}
		t.alone = make(chan struct{}, 1)
	}
	if t.plans, err = affordable(n, p.KeepsState, t.here); err != nil {
		return nil, err
	}
	t.used = make([]highWater, len(t.plans))
	for i, plan := range t.plans {
		if !t.here(plan.At) {
			continue
		}
		d, err := newDevice(n, plan, p.testing)
		if err != nil {
			t.Close()
			return nil, err
		}
		t.devices = append(t.devices, d)
		t.used[i] = d.highWater()
	}
	return t, nil
}

// findPeers finds the processes that take part, and this one among them.
func (t *Trainer) findPeers() error {
	t.self = -1
	seen := map[int]bool{}
	for _, p := range place.Of(t.net.Replicas, t.net.Partitions) {
		owner := t.transport.Owner(p)
		if seen[owner] {
			continue
		}
		seen[owner] = true
		if owner == t.transport.Rank() {
			t.self = len(t.peers)
		}
		t.peers = append(t.peers, p)
	}
	if t.self < 0 {
		return fmt.Errorf("rank %d runs none of %d stages: want one at least", t.transport.Rank(), t.net.Replicas*t.net.Partitions)
	}
	return nil
}

// here reports whether a place is in this process.
func (t *Trainer) here(p place.Place) bool { return t.transport.Owner(p) == t.transport.Rank() }

// device is a stage's device, of the first replica that has it in this process, or nil.
func (t *Trainer) device(k int) *device {
	i := slices.IndexFunc(t.devices, func(d *device) bool { return d.k == k })
	if i < 0 {
		return nil
	}
	return t.devices[i]
}

// Close frees the devices. The trainer cannot be used afterwards.
func (t *Trainer) Close() error {
	var errs []error
	for _, d := range t.devices {
		errs = append(errs, d.close())
	}
	t.devices = nil
	t.broken = errors.New("the trainer is closed")
	return errors.Join(errs...)
}

// Sizes is the number of layers of each partition, or of each piece of the network; the note says which layers the
// partitioner moved to fill empty partitions, if any.
func (t *Trainer) Sizes() (sizes []int, note string) { return slices.Clone(t.net.Sizes), t.net.Note }

// Placement is the device of each partition where devices have several; else nil.
func (t *Trainer) Placement() []int { return slices.Clone(t.net.OwnPlacement().Device) }

// Plans are the devices' memory plans.
func (t *Trainer) Plans() []*Plan { return slices.Clone(t.plans) }

// HighWater is how many bytes of its memory a device has used up to the end of the
// last step, evaluation or prediction, by category and in all.
func (t *Trainer) HighWater(device int) (bytes [Categories]int64, peak int64) {
	return t.used[device].Bytes, t.used[device].Peak
}

// PartHighWater is HighWater of one of the device's parts, 1 to Pipeline.Spatial-1: those
// after the first, whose memory is the device's.
func (t *Trainer) PartHighWater(device, part int) (bytes [Categories]int64, peak int64) {
	of := &t.used[device].Parts[part-1]
	return of.Bytes, of.Peak
}

// Steps is the number of updates so far.
func (t *Trainer) Steps() int { return t.steps }

// Result is what a training step reports.
type Result struct {
	Loss    float64 // mean over the mini-batch's count
	Correct int     // rows whose target had the highest logit; 0 if the loss does not report it
	Count   int
	// Ranks is how many classes have a higher logit than each row's target, or the
	// same logit and a lower index, in the order of the rows; -1 for a masked row.
	// It is nil if the loss does not report it.
	Ranks []float32
	LR    float64
	// GradNorm is the global norm of the gradients before clipping, without those of
	// frozen parameters; Clipping is the factor by which clipping then multiplied all of
	// them: 1 if it did nothing.
	GradNorm, Clipping float64
	// Seconds is the step's time on its devices' clock, Timeline its events, and Times
	// the time of each task.
	Seconds  float64
	Timeline *timeline.Timeline
	Times    *Times
	// Traffic is what the places sent each other, in-process or not; what goes between
	// processes follows from transport.Transport's Owner.
	Traffic []Traffic

	planTraffic func() []Traffic // of a training step
}

// PlannedTraffic returns what Traffic must be of a training step, from shapes alone and so
// without Seconds. Nil: it was no training step.
func (r *Result) PlannedTraffic() []Traffic {
	if r.planTraffic == nil {
		return nil
	}
	return r.planTraffic()
}

// Within counts the rows whose target was among the k best classes, by Ranks; k = 1
// gives Correct.
func (r *Result) Within(k int) (rows int) {
	for _, rank := range r.Ranks {
		if rank >= 0 && rank < float32(k) {
			rows++
		}
	}
	return rows
}

// Prepare compiles the programs for training on mini-batches like in, such as the
// short one at an epoch's end. If their micro-batches are too small for the network,
// this reports it before the first step.
func (t *Trainer) Prepare(in Input) error {
	if err := t.net.Accepts(in, plan.Training); err != nil {
		return err
	}
	_, err := t.net.Portions(in, plan.Training)
	if err == nil && t.net.Window > 1 { // where it may lack micro-batches
		_, err = t.net.WindowPortions([]Input{in, in})
	}
	return err
}

// Step trains on one mini-batch and applies one update. An error in a step that has
// begun leaves the trainer broken, since some stages may have updated their weights;
// later calls return it again.
func (t *Trainer) Step(ctx context.Context, b nn.Batch) (*Result, error) {
	if t.net.Asynchronous() {
		return nil, fmt.Errorf("a step of one mini-batch with the schedule %v: want Window, or a synchronous schedule", t.net.Schedule)
	}
	if err := t.trainable(); err != nil {
		return nil, err
	}
	all, err := t.train(ctx, false, b)
	if err != nil {
		return nil, err
	}
	t.steps++
	return all[0], nil
}

// trainable is an error while the averages are in the weights' places, or recomputed statistics
// in those of batch norm's, else nil.
func (t *Trainer) trainable() error {
	if t.recomputed {
		return errors.New("batch norm's recomputed statistics are in place: want to train or load after Recomputed has returned")
	}
	if t.averaged {
		return errors.New("the averages are in the weights' places: want to train or load after Averaged has returned")
	}
	return nil
}

// Differentiate is Step without the update: it computes the loss and the gradients of
// the step that would come next, and changes neither a weight nor an average. Steps does
// not count it, and the next Step draws the same random numbers.
func (t *Trainer) Differentiate(ctx context.Context, b nn.Batch) (*Result, error) {
	if err := t.trainable(); err != nil {
		return nil, err
	}
	all, err := t.train(ctx, true, b)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// train is Step or Window or, if still, Differentiate, with what is in the weights' places.
func (t *Trainer) train(ctx context.Context, still bool, batches ...nn.Batch) ([]*Result, error) {
	s, err := t.begin(plan.Training, batches...)
	if err != nil {
		return nil, err
	}
	s.still = still
	t.differentiated = false
	all, err := s.run(ctx)
	switch {
	case err != nil && still:
		return nil, fmt.Errorf("gradients: %w", err)
	case err != nil && len(batches) > 1:
		t.broken = fmt.Errorf("steps %d to %d: %w", t.steps+1, t.steps+len(batches), err)
		return nil, t.broken
	case err != nil:
		t.broken = fmt.Errorf("step %d: %w", t.steps+1, err)
		return nil, t.broken
	}
	t.differentiated = true
	if t.profile != nil {
		t.profile.add(all[0])
	}
	return all, nil
}

// Evaluate runs the forward functions in evaluation mode (no dropout, no label
// smoothing) on one batch, no larger than Pipeline.Evaluating.
func (t *Trainer) Evaluate(ctx context.Context, b nn.Batch) (*Result, error) {
	s, err := t.begin(plan.Evaluating, b)
	if err != nil {
		return nil, err
	}
	all, err := s.run(ctx)
	if err != nil {
		return nil, fmt.Errorf("evaluation: %w", err)
	}
	return all[0], nil
}

// Predict runs the forward functions in evaluation mode, on inputs no larger than
// Pipeline.Predicting, and returns the last layer's outputs: for a language model the
// logits (n, t, v). They are copies, outside of the planned memory.
func (t *Trainer) Predict(ctx context.Context, inputs ...nn.Tensor) ([]nn.Tensor, error) {
	var all []nn.Tensor
	err := t.PredictEach(ctx, func(first int, outputs []nn.Tensor) error {
		for i, out := range outputs {
			row := len(out.F32) / out.Shape[0]
			if len(all) == i {
				examples := inputs[0].Shape[0]
				shape := append([]int{examples}, out.Shape[1:]...)
				all = append(all, nn.Tensor{Shape: shape, F32: make([]float32, examples*row)})
			}
			copy(all[i].F32[first*row:], out.F32)
		}
		return nil
	}, inputs...)
	if err != nil {
		return nil, err
	}
	return all, nil
}

// PredictEach is Predict that passes the outputs to each, micro-batch by micro-batch, in
// order within a replica: those for the examples from first on, in the device's own
// memory (copies with Pipeline.DType BF16), valid until each returns. Calls of each do not overlap. An error of each ends
// the prediction. If several processes run the pipeline, all of them get copies of all
// outputs at the end.
func (t *Trainer) PredictEach(ctx context.Context, each func(first int, outputs []nn.Tensor) error, inputs ...nn.Tensor) error {
	s, err := t.begin(plan.Predicting, nn.Batch{Inputs: inputs, Count: 1})
	if err != nil {
		return err
	}
	s.each = each
	if _, err := s.run(ctx); err != nil {
		return fmt.Errorf("prediction: %w", err)
	}
	return nil
}

// begin checks batches, one or those of a window, against what the trainer was opened for and
// prepares the lists and programs.
func (t *Trainer) begin(what plan.Purpose, batches ...nn.Batch) (*step, error) {
	n := t.net
	if t.broken != nil {
		return nil, t.broken
	}
	var got []Input
	for _, b := range batches {
		if err := b.Check(); err != nil {
			return nil, err
		}
		in := plan.InputOf(b)
		if err := n.Accepts(in, what); err != nil {
			return nil, err
		}
		got = append(got, in)
	}
	if what != plan.Training || t.compared < 0 {
		if t.broken = t.compareReplicas(); t.broken != nil {
			return nil, t.broken
		}
	}
	s := &step{trainer: t, batches: batches, purpose: what, predicted: new(sync.Mutex)}
	var err error
	if len(batches) > 1 {
		s.portions, err = n.WindowPortions(got)
	} else {
		s.portions, err = n.Portions(got[0], what)
	}
	if err != nil {
		return nil, err
	}
	if what == plan.Training {
		s.tables = n.RowsOf(s.portions)
	}
	return s, nil
}

// Processes that run a pipeline together must end after the same step. One that wants to
// stop says so in the reports of its stages, which all processes read at the end of each
// step: that takes no message of its own.

// AskToStop makes [Trainer.StopAsked] true from the end of the next step, evaluation or
// prediction on: of the same one in all processes that run the pipeline. It does not
// wait, and any goroutine may call it at any time. The trainer itself can go on.
func (t *Trainer) AskToStop() { t.stopping.Store(true) }

// StopAsked reports whether a process had called AskToStop before its part of the last
// step, evaluation or prediction ended.
func (t *Trainer) StopAsked() bool { return t.stopAsked }
