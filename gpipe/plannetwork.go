package gpipe

import (
	"fmt"
	"reflect"
	"slices"

	"gpipebench/gpipe/partition"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/reduction"
	"gpipebench/gpipe/schedule"
	"gpipebench/nn"
	"gpipebench/nn/program"
)

// network is a pipeline cut into stages: everything about a run that is known
// from shapes alone.
type network struct {
	config                  // with its defaults filled in
	input   Input           // to train on; no examples: it does not train
	storage program.Storage // on the devices
	placed  schedule.Placement
	pieces  place.Pieces // where placed has them
	// Of each piece, in the order of the layers. With one chunk a device, pieces are stages.
	sizes    []int // layers
	first    []int // index of the first layer
	note     string
	trained  [][]int              // of each device: the sizes of its trained parameters, in the order of its weights
	reduced  [][]int              // the same with 0 for those whose gradients are gathered
	layouts  []*reduction.Layout  // of each device, see layout; nil: not needed so far
	tables   []tableRows          // of the largest mini-batch, see rowsOf
	params   []parameter          // of the whole network, in layer order, tied ones once
	paths    map[*nn.Param]string // of all parameters, by the first layer that lists each
	moving   [][]nn.Moving        // of each piece, in the order of its programs' tallies
	compiled map[variant]compiled
	lists    map[int][][]schedule.Task // of Tasks, by number of micro-batches
	whole    [][]schedule.Task         // of a group, if groups are run one by one
}

// purpose is what a step is for.
type purpose uint8

const (
	training   purpose = iota
	evaluating         // forward only, no dropout, to the loss
	predicting         // the same, to the last layer's outputs
)

func (p purpose) String() string { return [...]string{"training", "evaluation", "prediction"}[p] }

// parameter is a trained parameter and where its uses are.
type parameter struct {
	*nn.Param
	path   string
	rate   float64 // factor of the learning rate; 0: frozen
	adapts bool    // the optimiser reads its norms
	cells  int     // how many sums of squares make the norm of its gradient, or of its values
	uses   []use   // in layer order
	// gathered: its gradient goes as rows (see GatherTied).
	gathered bool
}

// use is one accumulator: the index-th Use of a piece, which is the stage.
type use struct {
	stage, index int
	sparse       bool    // a gradient of rows, of which a multiple by scale is added up
	scale        float32 //
}

// home is the piece whose copy counts: the one with the first use.
func (p *parameter) home() int { return p.uses[0].stage }

// stages lists the pieces that use the parameter, in order.
func (p *parameter) stages() []int {
	var ks []int
	for _, u := range p.uses {
		if len(ks) == 0 || ks[len(ks)-1] != u.stage {
			ks = append(ks, u.stage)
		}
	}
	return ks
}

// shared reports whether the parameter is used in more than one piece.
func (p *parameter) shared() bool { return p.uses[0].stage != p.uses[len(p.uses)-1].stage }

// newNetwork validates a pipeline, cuts it into partitions and compiles them, for devices
// that store values in the given way.
func newNetwork(p config, in Input, storage program.Storage) (*network, error) {
	if err := p.Validate(in); err != nil {
		return nil, err
	}
	p = p.withDefaults().withoutState(in)
	p.ShardUpdate = p.ShardUpdate && p.Replicas > 1
	p.Predicting.Targets = nil
	n := &network{config: p, input: in, storage: storage, compiled: map[variant]compiled{}}
	if err := n.place(); err != nil {
		return nil, err
	}
	if n.sizes = p.Balance; n.sizes == nil {
		costs := p.Costs
		if costs == nil {
			like, of := p, p.opensFor(in)
			if of.Targets == nil {
				like.Loss = nil
			}
			d, err := like.Describe(of)
			if err != nil {
				return nil, err
			}
			costs = d.FLOPs()
		}
		split, err := partition.Split(p.Partitioner, costs, n.pieces.Len())
		if err != nil {
			return nil, err
		}
		n.sizes, n.note = split.Sizes, split.Moved
	}
	next := 0
	for _, s := range n.sizes {
		n.first = append(n.first, next)
		next += s
	}
	n.trained, n.layouts = make([][]int, n.Partitions), make([]*reduction.Layout, n.Partitions)
	for k := range n.trained {
		for _, q := range n.deviceParams(k) {
			if !q.Frozen {
				n.trained[k] = append(n.trained[k], q.Shape.Elems())
			}
		}
	}
	for what := training; what <= predicting; what++ {
		if _, err := n.portions(n.largestInput(what), what); err != nil {
			return nil, err
		}
	}
	return n, gatherTied(n)
}

// place finds where the pieces of the network are, and the lists of a group if groups are
// run one by one.
func (n *network) place() error {
	lists, placed, err := n.wholeLists()
	if err != nil {
		return err
	}
	n.placed, n.pieces, n.whole = placed, place.NewPieces(placed.Devices, placed.Device), nil
	if !placed.IsStraight() || n.Tasks == nil && !n.Schedule.Straight() {
		n.whole = lists
	}
	return nil
}

// placement is where the pieces of the network are; zero: one on each device, in order.
func (n *network) placement() schedule.Placement {
	if n.placed.IsStraight() {
		return schedule.Placement{}
	}
	return n.placed
}

// largestInput describes the largest mini-batches for a purpose; no examples: there
// are none.
func (n *network) largestInput(what purpose) Input {
	return [...]Input{n.input, n.Evaluating, n.Predicting}[what]
}

// trains reports whether the network is trained.
func (n *network) trains() bool { return n.input.Examples > 0 }

// device is the number of a piece's device.
func (n *network) device(piece int) int { return n.placed.Device[piece] }

// deviceOf is the number of a place's device.
func (n *network) deviceOf(at place.Place) int { return at.Replica*n.Partitions + at.Stage }

// devicesOf lists the devices that use the parameter, in the order of their first pieces.
func (n *network) devicesOf(p *parameter) (all []int) {
	for _, piece := range p.stages() {
		if d := n.device(piece); !slices.Contains(all, d) {
			all = append(all, d)
		}
	}
	return all
}

// stageLayers are the layers of piece k.
func (n *network) stageLayers(k int) []nn.Layer {
	return n.Layers[n.first[k] : n.first[k]+n.sizes[k]]
}

// layerName is the name of a layer for messages; the one after the last is the loss.
func (n *network) layerName(i int) string { return layerName(n.Layers, i) }

func layerName(layers []nn.Layer, i int) string {
	if i < len(layers) {
		return layers[i].Name()
	}
	return "loss"
}

// deviceParams lists the parameters and constants of all of a device's pieces: those of
// each, and so one that two of them have twice, since each has a copy.
func (n *network) deviceParams(device int) (ps []*nn.Param) {
	for _, piece := range n.pieces.On(device) {
		ps = append(ps, n.stageParams(piece)...)
	}
	return ps
}

// stageParams lists the parameters and constants of piece k in layout order.
func (n *network) stageParams(k int) []*nn.Param {
	var ps []*nn.Param
	seen := map[*nn.Param]bool{}
	for _, l := range n.stageLayers(k) {
		for _, p := range l.Params() {
			if !seen[p] {
				seen[p] = true
				ps = append(ps, p)
			}
		}
	}
	return ps
}

// accepts checks mini-batches against what the pipeline was opened for.
func (n *network) accepts(got Input, what purpose) error {
	want := n.largestInput(what)
	switch {
	case want.Examples == 0:
		return fmt.Errorf("%v: the pipeline was not opened for any: want its largest mini-batch in %s", what, [...]string{"Open's Input", "Pipeline.Evaluating", "Pipeline.Predicting"}[what])
	case got.Examples > want.Examples:
		return fmt.Errorf("a mini-batch of %d examples: want at most %d, for which the pipeline was opened", got.Examples, want.Examples)
	case n.Spatial > 1 && !reflect.DeepEqual(got.Inputs, want.Inputs):
		return fmt.Errorf("images of shapes %v in parts: want %v, for which the pipeline was opened", got.Inputs, want.Inputs)
	case !within(got.Inputs, want.Inputs) || !within(got.Targets, want.Targets):
		return fmt.Errorf("examples of shapes %v, %v: want %v, %v or less, for which the pipeline was opened", got.Inputs, got.Targets, want.Inputs, want.Targets)
	}
	return nil
}
