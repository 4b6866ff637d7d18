package program

import (
	"gpipebench/internal/kernel"
	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
)

// Convolutions that parts divide by the channels of their results. Every result sees all channels of the
// images, so each part gathers these, for the weight's gradient once more. The gradient of the images is
// divided by their channels, each of which sees all results: with one block its part gathers their gradients
// and its channels' weights, and otherwise the parts add up their sums over their own results, block by block.

// convInput is the rule of the gradient of images whose convolution has a weight that is divided so.
func (d *splitter) convInput(s *step, o op.ConvInputGrad, at slicing) bool {
	dx, layer := s.out[0], s.call.Layer
	channels := slicing{axis: 3, sections: 1, units: dx.Shape[3], width: 1, length: dx.Shape[3]}
	if channels.units < d.count {
		channels = slicing{}
	}
	switch {
	case d.blocks == 1 && !channels.divided():
		return false
	case d.blocks == 1:
		return d.divided(d.with(s, slicing{}, channels.on(2)), nil, channels)
	}
	s = d.with(s, at)
	sum := dx
	if d.count > 1 {
		own := *dx
		sum = &own
	}
	steps := make([]*step, d.count)
	for part := range steps {
		of := partConvInput{of: o}
		first, each := at.edge(part, d.count), d.blocks/d.count
		for b := part * each; b < (part+1)*each; b++ {
			of.blocks = append(of.blocks, [2]int{at.edge(b, d.blocks) - first, at.edge(b+1, d.blocks) - first})
		}
		in := d.slices(s.in, part)
		call := d.call(layer, op.Local{Name: s.call.Name(), Of: of, FLOPs: of.flops(in)}, in, []*graph.Node{sum})
		if sum != dx { // which is not rounded
			sum.Call, sum.Index = call, 0
		}
		steps[part] = stepOf(call)
	}
	d.tick(steps, tick{Division: Divided})
	switch {
	case d.count == 1:
	case channels.divided():
		d.layout[dx] = channels
		d.scatter(layer, sum, dx)
	default:
		d.combine(layer, sum, dx, nil, d.treeOfParts)
	}
	return true
}

// treeOfParts adds up the parts' summands of some rows of a result.
func (d *splitter) treeOfParts(Rows) op.Local {
	return op.Local{Name: "sum of parts", Of: treeSum{d.count}}
}

// scatter makes each part's columns of a result of which every part has a summand, of all columns.
func (d *splitter) scatter(layer int, summand, result *graph.Node) {
	rows, columns := matrix(result)
	x := d.exchange(AllReduced, layer)
	steps := make([]*step, d.count)
	for to := range d.count {
		own, all := d.slice(result, to), *summand
		width := own.Shape.Last()
		all.Shape = graph.Shape{d.count * rows, width}
		x.makes(&all, to)
		for from := range d.count {
			x.move(transfer{
				to: to, from: from, dst: &all, src: summand, floats: width, times: rows,
				first: from * rows * width, stride: width, start: d.layout[result].edge(to, d.count), distance: columns,
			})
		}
		steps[to] = stepOf(d.call(layer, d.treeOfParts(Rows{}), []*graph.Node{&all}, []*graph.Node{own}))
	}
	x.end()
	d.tick(steps, tick{Division: Divided})
}

// partConvInput is the gradient of a convolution's images over the part's channels of results: for each
// block of them a chain over taps and channels, and blocks are added by the tree.
type partConvInput struct {
	of     op.ConvInputGrad
	blocks [][2]int
}

func (o partConvInput) flops(in []*graph.Node) int64 {
	w := in[1].Shape
	return 2 * int64(in[0].Elems()) * int64(w[0]*w[1]*w[2])
}

func (o partConvInput) traits(c *graph.Call) traits {
	dy, w := c.In[0].Shape, c.In[1].Shape
	v := windowOf(o.of.Window, 1, c.Out[0].Shape, dy)
	return traits{
		product:    convProduct(o.of.Window, "-input-grad", dy, w),
		activation: func(*storage) (is, known bool) { return false, true },
		blocks:     func(k *conversion, _ bool, _ int) (kernelFunc, int) { return k.partConvInput(v, o.blocks) },
		kernel: func(*step, bool, int) (kernelFunc, int) {
			return (&conversion{in: []form{wide, wide}, out: []form{wide}}).partConvInput(v, o.blocks)
		},
	}
}

// partConvInput lowers such a gradient by bands, as [conversion.convInput] does.
func (k *conversion) partConvInput(v kernel.Window, blocks [][2]int) (kernelFunc, int) {
	widest := 0
	for _, b := range blocks {
		widest = max(widest, b[1]-b[0])
	}
	taps := v.KH * v.KW
	bands := bandsOf(v, true, 0, 0)
	bands.source = v.OW * widest
	bands.cutChannels(taps * widest)
	rows, count, most, own := bands.cut(func(v kernel.Window) (floats int) {
		for _, block := range blocks {
			v.O = block[1] - block[0]
			floats = max(floats, kernel.ConvGradInputScratch(v, 1))
		}
		return floats
	})
	weights, result, depth := taps*bands.each*widest, rows*v.W*bands.each, levels(len(blocks))
	return func(w *worker, in, out [][]float32, part, parts int) {
		x := cutFloats(w.scratch, weights, most, result, depth*result, own)
		from, to := share((v.C+bands.each-1)/bands.each*v.N*count, part, parts, 1)
		for i := from; i < to; i++ {
			n, c := i/count%v.N, i/count/v.N*bands.each
			made, read, band := bands.band(i%count*rows, rows, min(bands.each, v.C-c))
			floats := made.Len() * v.W * band.C
			tree(0, len(blocks), x[2], floats, 1, floats, x[3], func(i int, into []float32, _ int) {
				first, outputs := blocks[i][0], blocks[i][1]-blocks[i][0]
				for tap := range taps {
					k.in[1].loadRows(x[0][tap*band.C*outputs:], in[1], (tap*v.C+c)*v.O+first, band.C, outputs, v.O)
				}
				k.in[0].loadRows(x[1], in[0], (n*v.OH+read.From)*v.OW*v.O+first, read.Len()*v.OW, outputs, v.O)
				block := band
				block.O = outputs
				kernel.ConvGradInput(block, into, x[1], x[0], 0, 1, x[4])
			})
			k.out[0].storeRows(out[0], (n*v.H+made.From)*v.W*v.C+c, x[2], made.Len()*v.W, band.C, v.C)
		}
	}, weights + most + result + depth*result + own
}
