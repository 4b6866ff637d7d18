package gpipe

import (
	"gpipebench/gpipe/plan"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/transport"
	"gpipebench/nn"
	"gpipebench/nn/program"
)

// Pipeline is what GPipe's interface requires (section 2.1): the layers, the number
// of partitions K and the number of micro-batches M. The zero value of every other
// field is a documented default.
type Pipeline struct {
	Layers []nn.Layer
	Loss   nn.Loss

	Partitions   int // K; 0 means 1
	MicroBatches int // M, of each group; 0 means 1. It need not divide the group: sizes differ by at most one

	Schedule schedule.Schedule // gpipe (fill-drain) or another
	// Window is the number of mini-batches between two drains with an asynchronous schedule, 1 or
	// more: after a drain all stages have the same weights, and nothing is stale. It decides the
	// bits, as Groups does. 0 with all other schedules, which drain after every mini-batch.
	Window     int
	Checkpoint schedule.Checkpoint // always, except-last or never
	// LateRecompute makes recomputation wait for the output gradient. By
	// default it starts earlier (section 2.3), one micro-batch ahead.
	LateRecompute bool

	// Devices has one entry, which describes the devices of all partitions, or K.
	// Nil means host devices with one thread and no capacity.
	Devices []Device

	Cut         // where the layers are cut
	Replication // replicas, and what they do together
	Numerics    // what is computed

	// Evaluating and Predicting describe the largest mini-batches that will be
	// evaluated and predicted, so that the memory plan has room for them. Without
	// examples: none, and the trainer refuses them. Predictions have no targets.
	Evaluating, Predicting Input

	// Transport connects the processes that run the pipeline together. Each process
	// opens the same pipeline with its own end, and makes the same calls with the same
	// mini-batches. Nil: this process runs all stages. An implementation of your own must
	// pass package transporttest, on which the guarantees depend.
	Transport transport.Transport

	// RecordsReductions adds to the timelines of host devices how each tensor is added up over
	// replicas (timeline.Reduction). Otherwise, these are left out: the record grows with the
	// number of messages.
	RecordsReductions bool

	// KeepsState says that this process keeps a copy of the training's state, as package
	// snapshot does. It lies outside of the devices' memory, and counts where that of the
	// machine is checked.
	KeepsState bool

	testing hooks
}

// config is what plans depend on.
func (p Pipeline) config() plan.Config {
	return plan.Config{
		Layers: p.Layers, Loss: p.Loss, Partitions: p.Partitions, MicroBatches: p.MicroBatches,
		Schedule: p.Schedule, Window: p.Window, Checkpoint: p.Checkpoint, LateRecompute: p.LateRecompute,
		Devices: p.Devices, Evaluating: p.Evaluating, Predicting: p.Predicting,
		Cut: p.Cut, Replication: p.Replication, Numerics: p.Numerics,
		InProcess: p.Transport == nil,
	}
}

// Validate reports the first thing that cannot be run, and what would be accepted.
func (p Pipeline) Validate(in Input) error { return p.config().Validate(in) }

// network validates the pipeline, cuts it into partitions and compiles them.
func (p Pipeline) network(in Input) (*plan.Network, error) {
	return plan.New(p.config(), in, program.Of(p.DType))
}

// Describe traces the network for one example. Nothing is allocated, however
// many parameters there are.
//
// If a batch norm would see a single value per channel, the network is traced for
// two examples and every figure is halved, including that of its statistics.
func (p Pipeline) Describe(in Input) (*Description, error) { return p.config().Describe(in, true) }

// DividedShare is the share of the multiply-adds of a forward function that the parts of a pipeline
// divide (Tensor, Blocks); what is left all parts do alike.
func (p Pipeline) DividedShare(in Input) (float64, error) {
	return p.config().DividedShare(in, p.Tensor, p.Blocks)
}

// Counted is Describe without SavedBytes, which take compiling the network.
func (p Pipeline) Counted(in Input) (*Description, error) { return p.config().Describe(in, false) }

// Fingerprint returns the SHA-256 of the function that the layers compute from their
// inputs and weights in evaluation: of every operation with its arguments, down to the
// inputs, and of all parameters by path and shape. in describes the mini-batches.
//
// It is the same for every cut of a network, for other rates of dropout, other initial
// values and whatever else only training uses; and for inputs of other sizes, unless an
// operation depends on them, as the padding of a convolution may. Constant tables, such
// as positions, count by their path.
func (p Pipeline) Fingerprint(in Input) (sha256 string, err error) { return p.config().Fingerprint(in) }
