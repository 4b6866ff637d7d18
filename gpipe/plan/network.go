package plan

import (
	"slices"

	"gpipebench/gpipe/partition"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/reduction"
	"gpipebench/gpipe/schedule"
	"gpipebench/nn"
	"gpipebench/nn/program"
)

// Network is a pipeline cut into stages: everything about a run that is known
// from shapes alone.
type Network struct {
	Config                  // with its defaults filled in
	Input   Input           // to train on; no examples: it does not train
	storage program.Storage // on the devices
	placed  schedule.Placement
	Pieces  place.Pieces // where placed has them
	// Of each piece, in the order of the layers. With one chunk a device, pieces are stages.
	Sizes    []int // layers
	First    []int // index of the first layer
	Note     string
	trained  [][]int              // of each device: the sizes of its trained parameters, in the order of its weights
	Reduced  [][]int              // the same with 0 for those whose gradients are gathered
	layouts  []*reduction.Layout  // of each device, see layout; nil: not needed so far
	Tables   []TableRows          // of the largest mini-batch, see RowsOf
	Params   []Parameter          // of the whole network, in layer order, tied ones once
	Paths    map[*nn.Param]string // of all parameters, by the first layer that lists each
	Moving   [][]nn.Moving        // of each piece, in the order of its programs' tallies
	compiled map[variant]Compiled
	lists    map[int][][]schedule.Task // of Tasks, by number of micro-batches
	whole    [][]schedule.Task         // of a group, if groups are run one by one
}

// Purpose is what a step is for.
type Purpose uint8

const (
	Training   Purpose = iota
	Evaluating         // forward only, no dropout, to the loss
	Predicting         // the same, to the last layer's outputs
)

func (p Purpose) String() string { return [...]string{"training", "evaluation", "prediction"}[p] }

// Parameter is a trained parameter and where its uses are.
type Parameter struct {
	*nn.Param
	Path   string
	Rate   float64 // factor of the learning rate; 0: frozen
	Adapts bool    // the optimiser reads its norms
	Cells  int     // how many sums of squares make the norm of its gradient, or of its values
	Blocks []int   // how many of these each of its blocks has
	Uses   []Use   // in layer order
	// Gathered: its gradient goes as rows (see GatherTied).
	Gathered bool
}

// Use is one accumulator: the index-th Use of a piece, which is the stage.
type Use struct {
	Stage, Index int
	Sparse       bool    // a gradient of rows, which are multiplied by scale and added up
	Scale        float32 //
}

// Home is the piece whose copy counts: the one with the first use.
func (p *Parameter) Home() int { return p.Uses[0].Stage }

// Shared reports whether the parameter is used in more than one piece.
func (p *Parameter) Shared() bool { return p.Uses[0].Stage != p.Uses[len(p.Uses)-1].Stage }

// New validates a pipeline, cuts it into partitions and compiles them, for devices
// that store values in the given way.
func New(p Config, in Input, storage program.Storage) (*Network, error) {
	if err := p.Validate(in); err != nil {
		return nil, err
	}
	p = p.WithDefaults().WithoutState(in)
	p.ShardUpdate = p.ShardUpdate && p.Replicas > 1
	p.Predicting.Targets = nil
	n := &Network{Config: p, Input: in, storage: storage, compiled: map[variant]Compiled{}}
	if err := n.Place(); err != nil {
		return nil, err
	}
	if n.Sizes = p.Balance; n.Sizes == nil {
		costs := p.Costs
		if costs == nil {
			like, of := p, p.OpensFor(in)
			if of.Targets == nil {
				like.Loss = nil
			}
			d, err := like.Describe(of, false)
			if err != nil {
				return nil, err
			}
			costs = d.FLOPs()
		}
		split, err := partition.Split(p.Partitioner, costs, n.Pieces.Len())
		if err != nil {
			return nil, err
		}
		n.Sizes, n.Note = split.Sizes, split.Moved
	}
	next := 0
	for _, s := range n.Sizes {
		n.First = append(n.First, next)
		next += s
	}
	n.trained, n.layouts = make([][]int, n.Partitions), make([]*reduction.Layout, n.Partitions)
	for k := range n.trained {
		for _, s := range n.Slices(k) {
			n.trained[k] = append(n.trained[k], s.Elems)
		}
	}
	for what := Training; what <= Predicting; what++ {
		if _, err := n.largestPortions(what); err != nil {
			return nil, err
		}
	}
	if err := n.validateTies(); err != nil {
		return nil, err
	}
	return n, gatherTied(n)
}

// Place finds where the pieces of the network are, and the lists of a group if groups are
// run one by one.
func (n *Network) Place() error {
	lists, placed, err := n.wholeLists()
	if err != nil {
		return err
	}
	n.placed, n.Pieces, n.whole = placed, place.NewPieces(placed.Devices, placed.Device), nil
	if !placed.IsStraight() || n.Tasks == nil && !n.Schedule.Straight() {
		n.whole = lists
	}
	return nil
}

// OwnPlacement is where the pieces of the network are; zero: one on each device, in order.
func (n *Network) OwnPlacement() schedule.Placement {
	if n.placed.IsStraight() {
		return schedule.Placement{}
	}
	return n.placed
}

// largestInput describes the largest mini-batches for a purpose; no examples: there
// are none.
func (n *Network) largestInput(what Purpose) Input {
	return [...]Input{n.Input, n.Evaluating, n.Predicting}[what]
}

// Trains reports whether the network is trained.
func (n *Network) Trains() bool { return n.Input.Examples > 0 }

// Device is the number of a piece's device.
func (n *Network) Device(piece int) int { return n.placed.Device[piece] }

// DeviceOf is the number of a place's device.
func (n *Network) DeviceOf(at place.Place) int { return at.Replica*n.Partitions + at.Stage }

// DevicesOf lists the devices that use the parameter, in the order of their first uses.
func (n *Network) DevicesOf(p *Parameter) (all []int) {
	for _, u := range p.Uses {
		if d := n.Device(u.Stage); !slices.Contains(all, d) {
			all = append(all, d)
		}
	}
	return all
}

// stageLayers are the layers of piece k.
func (n *Network) stageLayers(k int) []nn.Layer {
	return n.Layers[n.First[k] : n.First[k]+n.Sizes[k]]
}

// LayerName is the name of a layer for messages; the one after the last is the loss.
func (n *Network) LayerName(i int) string { return layerName(n.Layers, i) }

func layerName(layers []nn.Layer, i int) string {
	if i < len(layers) {
		return layers[i].Name()
	}
	return "loss"
}

// DeviceParams lists the parameters and constants of all of a device's pieces: those of
// each, and so one that two of them have twice, since each has a copy.
func (n *Network) DeviceParams(device int) (ps []*nn.Param) {
	for _, piece := range n.Pieces.On(device) {
		ps = append(ps, n.StageParams(piece)...)
	}
	return ps
}

// StageParams lists the parameters and constants of piece k in layout order.
func (n *Network) StageParams(k int) (ps []*nn.Param) {
	eachParam(n.stageLayers(k), func(_ int, p *nn.Param) { ps = append(ps, p) })
	return ps
}
