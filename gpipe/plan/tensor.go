package plan

import (
	"fmt"
	"slices"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/reduction"
	"gpipebench/nn"
	"gpipebench/nn/program"
	"gpipebench/nn/trace"
)

// Stages whose operations are divided over parts (Replication.Tensor and Blocks).

// Slice is what a device has in one place of a trained parameter.
type Slice struct {
	*nn.Param
	Part  int           // that has it
	Runs  []program.Run // where it is in the parameter; nil: it is all of it
	Elems int
}

// Divides reports whether operations are divided, over parts or into blocks.
func (p Config) Divides() bool { return p.Tensor > 1 || p.Blocks > 1 }

// parts is the number of parts of each stage, of images or operations.
func (p Config) parts() int { return max(p.Spatial, p.Tensor) }

// Slices lists the slices of a device's trained parameters: piece by piece, and part by part.
func (n *Network) Slices(k int) (all []Slice) {
	for _, q := range n.DeviceParams(k) {
		if q.Frozen {
			continue
		}
		var runs [][]program.Run
		if n.Tensor > 1 {
			runs = program.SlicesOf(q.Split, q.Shape, n.Tensor, n.Blocks)
		}
		for part, r := range runs {
			all = append(all, Slice{q, part, r, program.Floats(r)})
		}
		if runs == nil {
			all = append(all, Slice{Param: q, Elems: q.Shape.Elems()})
		}
	}
	return all
}

// on are the sizes of those of the slices that a part has, in their places.
func on(part int, slices []Slice, sizes []int) []int {
	own := make([]int, len(sizes))
	for i, s := range slices {
		if s.Part == part {
			own[i] = sizes[i]
		}
	}
	return own
}

// cells are how many sums of squares each block of a parameter has: with several groups one for each
// of its reduction.BlockFloats elements.
func (p Config) cells(q *nn.Param) (all []int) {
	blocks := []int{q.Shape.Elems()}
	if p.Blocks > 1 && q.Split.Units > 0 {
		blocks = nil
		for _, r := range program.SlicesOf(q.Split, q.Shape, p.Blocks, p.Blocks) {
			blocks = append(blocks, program.Floats(r))
		}
	}
	for _, elems := range blocks {
		cells := 1
		if p.Groups > 1 {
			cells = (elems + reduction.BlockFloats - 1) / reduction.BlockFloats
		}
		all = append(all, cells)
	}
	return all
}

// DividedShare is the share of the multiply-adds of a forward function that the given parts divide, with
// that number of blocks: all parts do the rest alike.
func (p Config) DividedShare(in Input, parts, blocks int) (share float64, err error) {
	if err := p.Validate(in); err != nil {
		return 0, err
	}
	defer Misfit(&err)
	traced := trace.Layers(p.Layers, 0, p.Loss, BatchOf(in.Inputs, 1), BatchOf(in.Targets, 1), false)
	st := program.CompileEvaluate(traced.Function, 1, program.Storage{})
	all := st.Forward.FLOPs()
	divided := int64(0)
	for _, in := range st.Split(max(parts, 1), max(blocks, 1), nil).Forward.Instrs {
		if in.Division == program.Divided || in.Division == program.InTurns {
			flops, _ := in.Work()
			divided += flops
		}
	}
	return float64(divided) / float64(max(all, 1)), nil
}

// validateTensor checks the parts and blocks of a pipeline that has its defaults.
func (p Config) validateTensor() error {
	t, b := p.Tensor, p.Blocks
	switch {
	case t < 1 || t > MaxParts:
		return fmt.Errorf("%d parts of each operation: want 1 to %d", t, MaxParts)
	case b < 1 || b > MaxBlocks:
		return fmt.Errorf("%d blocks of each divided axis: want 1 to %d", b, MaxBlocks)
	case !p.Divides():
		return nil
	case b > 1 && (b%t != 0 || b/t&(b/t-1) != 0):
		return fmt.Errorf("%d blocks over %d parts: want a number of parts that divides them, with a power of two for each, or 1 block", b, t)
	case p.Asynchronous():
		return fmt.Errorf("%v with %d parts and %d blocks of operations: want a synchronous schedule, or 1", p.Schedule, t, b)
	case p.wide():
		return fmt.Errorf("%d parts and %d blocks of operations with batch norm over replicas: want the scope replica, or 1", t, b)
	case p.ShardUpdate || p.TiedGradients == GatherTied:
		return fmt.Errorf("%d parts and %d blocks of operations with updates divided over replicas, or gathered gradients of tied tables: want neither, or 1", t, b)
	case p.Devices[0].Kind == Modelled:
		return fmt.Errorf("%d parts and %d blocks of operations on modelled devices: want Modelling's parts of the cluster", t, b)
	case slices.ContainsFunc(p.Devices, func(d Device) bool { return d.Overcommit }):
		return fmt.Errorf("%d parts and %d blocks of operations on overcommitted devices: want others, or 1", t, b)
	}
	any := false
	var err error
	eachParam(p.Layers, func(layer int, q *nn.Param) {
		if q.Split.Units == 0 {
			return
		}
		any = true
		if units, want := program.UnitsOf(q.Split, b), max(t, b); units < want && err == nil {
			of := ""
			if units != q.Split.Units {
				of = ", groups of 64,"
			}
			err = fmt.Errorf("%d parts and %d blocks of operations, and %s/%s has %d units%s to divide: want at most as many", t, b, nn.ScopeOf(p.Layers[layer]), q.Name, units, of)
		}
	})
	if err == nil && !any {
		err = fmt.Errorf("%d parts and %d blocks of operations, and no layer can be divided: want 1, or a network with attention, feed-forward layers, an embedding, a softmax or resnet's convolutions", t, b)
	}
	return err
}

// gathers adds the slices that the first part gets for the norms of gradients and of weights: with
// blocks each part sums up its own.
func (n *trafficPlan) gathers(at place.Place) {
	if n.Tensor == 1 || n.Blocks > 1 || at.Replica > 0 {
		return
	}
	adapts := map[*nn.Param]int{}
	for i := range n.Params {
		p := &n.Params[i]
		if p.Rate == 0 {
			continue
		}
		if adapts[p.Param] = 1; p.Adapts {
			adapts[p.Param] = 2
		}
	}
	messages, bytes := 0, int64(0)
	for _, s := range n.Slices(at.Stage) {
		if s.Part > 0 {
			messages += adapts[s.Param]
			bytes += int64(adapts[s.Param]) * int64(s.Elems) * FloatBytes
		}
	}
	n.add(at, at, PartSlices, messages, bytes)
}
