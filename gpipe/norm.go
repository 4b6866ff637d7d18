package gpipe

import (
	"math"

	"gpipebench/gpipe/plan"
	"gpipebench/gpipe/reduction"
	"gpipebench/internal/kernel"
	"gpipebench/nn"
	"gpipebench/nn/program"
)

// The global norm of the gradients is made of float64 sums of squares: with one group
// one for each tensor, with several one for each block of it (reduction.BlockFloats),
// so that replicas can divide them. Blocks are added in ascending order, then tensors
// in layer order. Where operations are divided into blocks (Pipeline.Blocks), those of a tensor's
// blocks are added by the tree before; where parts divide them, but not into blocks, the sum goes on
// from slice to slice in the order of the tensor's elements. A layer-wise optimiser (nn.LayerWise) also gets each tensor's own norm
// and that of its values, whose squares are summed in the same way.

// squares returns the sums of squares of all the network's parameters, in layer order: of
// its gradient, whose uses are added up, then of its values if the optimiser reads their norm; 0 for
// those that other devices compute, and for frozen ones.
func (r *stageRun) squares() []float64 {
	n := r.trainer.net
	first := make([]int, len(n.Params))
	cells := 0
	for i := range n.Params {
		first[i] = cells
		cells += n.Params[i].Cells
		if n.Params[i].Adapts {
			cells += n.Params[i].Cells
		}
	}
	sums := make([]float64, cells)
	if n.Divides() {
		if r.at.Replica == 0 {
			r.squaresOfSlices(sums, first)
		}
		return sums
	}
	square := func(w *weight, from, to int) {
		p := &n.Params[w.param]
		if p.Rate == 0 || w.twin {
			return
		}
		cell := first[w.param]
		if n.Groups > 1 {
			cell += from / reduction.BlockFloats
		}
		sums[cell] = kernel.SumSquares(w.grads[0][from:to])
		if p.Adapts {
			sums[cell+p.Cells] = kernel.SumSquares(w.w[from:to])
		}
	}
	r.dev.pool.Do(func(part int) {
		if n.Groups == 1 {
			for _, w := range r.dev.weightsFor(part) {
				square(&w, 0, len(w.w))
			}
			return
		}
		from, to := r.dev.layout.Owned(n.Replicas, r.at.Replica)
		parts := r.dev.pool.Threads()
		for chunk := from + (to-from)*part/parts; chunk < from+(to-from)*(part+1)/parts; chunk++ {
			for _, b := range r.dev.layout.Blocks(chunk) {
				square(&r.dev.weights[b.Tensor], b.From, b.To)
			}
		}
	})
	return sums
}

// weightsFor returns the weights that one thread handles: whole tensors, since each
// sum of squares is one fixed chain, balanced by element count.
func (d *device) weightsFor(part int) []weight {
	total := 0
	for _, w := range d.weights {
		total += len(w.w)
	}
	parts, before := d.pool.Threads(), 0
	from, to := len(d.weights), len(d.weights)
	for i, w := range d.weights {
		middle := before + len(w.w)/2
		if i < from && middle >= total*part/parts {
			from = i
		}
		if i < to && part < parts-1 && middle >= total*(part+1)/parts {
			to = i
		}
		before += len(w.w)
	}
	return d.weights[from:to]
}

// globalNorm adds the sums of squares, those of tied weights once, and returns the
// factor by which clipping multiplies the gradients. It keeps the norms that the optimiser
// reads. Every device computes them from the same numbers: all has those of each device.
func (r *stageRun) globalNorm(all [][]float64) (scale float32, err error) {
	n := r.trainer.net
	var total float64
	tensors := make([]float64, len(n.Params))
	cell := 0
	add := func(p *plan.Parameter) (squares float64) {
		blocks := make([]float64, len(p.Blocks))
		for i, cells := range p.Blocks {
			for range cells {
				// One replica has it, and the others have 0.
				var sum float64
				for replica := range n.Replicas {
					sum += all[replica*n.Partitions+n.Device(p.Home())][cell]
				}
				blocks[i] += sum
				cell++
			}
		}
		return reduction.SumOf(blocks)
	}
	r.tensorNorms = make([]nn.Norms, len(n.Params))
	for i := range n.Params {
		p := &n.Params[i]
		tensors[i] = add(p)
		if p.Adapts {
			r.tensorNorms[i] = nn.Norms{G: math.Sqrt(tensors[i]), W: math.Sqrt(add(p))}
		}
		total += tensors[i]
	}
	r.norm = math.Sqrt(total)
	if !n.AllowNonFinite && (math.IsNaN(total) || math.IsInf(total, 0)) {
		// The backward pass starts at the loss, so the origin is the last one in layer order.
		for i := len(n.Params) - 1; i >= 0; i-- {
			if v := tensors[i]; math.IsNaN(v) || math.IsInf(v, 0) {
				return 0, &NonFiniteError{What: "gradient", Where: n.Params[i].Path, Value: float32(v)}
			}
		}
	}
	return clipping(n.ClipNorm, r.norm), nil
}

// squaresOfSlices are the squares of a device whose tensors its parts divide, or blocks.
func (r *stageRun) squaresOfSlices(sums []float64, first []int) {
	n := r.trainer.net
	var most int64 // that the first part gets
	for i := range r.dev.weights {
		if w := &r.dev.weights[i]; n.Blocks == 1 && w.part > 0 && n.Params[w.param].Rate > 0 {
			got := Traffic{From: r.at, To: r.at, What: PartSlices, Messages: 1, Bytes: int64(len(w.w)) * plan.FloatBytes}
			r.received.add(got)
			most += got.Bytes
			if n.Params[w.param].Adapts {
				r.received.add(got)
				most += got.Bytes
			}
		}
	}
	r.hop(most)
	r.dev.tasks.Do(func(thread int) {
		for i, own := 0, 0; i < len(n.Params); i++ {
			p := &n.Params[i]
			if len(r.dev.index[i]) == 0 || p.Rate == 0 {
				continue
			}
			if own++; own%r.dev.tasks.Threads() != thread {
				continue
			}
			r.squaresOf(p, i, gradientsOf, sums[first[i]:first[i]+p.Cells])
			if p.Adapts {
				r.squaresOf(p, i, weightsOf, sums[first[i]+p.Cells:first[i]+2*p.Cells])
			}
		}
	})
}

// squaresOf sums up the squares of a parameter's tensor, block by block.
func (r *stageRun) squaresOf(p *plan.Parameter, param int, of func(*weight) []float32, sums []float64) {
	n := r.trainer.net
	whole := []program.Run{{Floats: p.Shape.Elems(), Times: 1, Stride: p.Shape.Elems()}}
	blocks := [][]program.Run{whole}
	if len(p.Blocks) > 1 {
		blocks = program.SlicesOf(p.Split, p.Shape, n.Blocks, n.Blocks)
	}
	for i, block := range blocks {
		s := squares{sums: sums[:p.Blocks[i]], cell: math.MaxInt}
		if n.Groups > 1 {
			s.cell = reduction.BlockFloats
		}
		for t := range block[0].Times {
			for _, run := range block {
				s.add(r.dev, param, run.First+t*run.Stride, run.Floats, of)
			}
		}
		s.flush()
		sums = sums[p.Blocks[i]:]
	}
}

// squares is a sum of squares of elements that come in pieces, in cells of as many elements.
type squares struct {
	sums  []float64
	cell  int
	seen  int // of the cell
	lanes [kernel.SumLanes]float64
	held  [16 * kernel.SumLanes]float32 // elements that are not in the lanes yet
	count int
}

// add adds the n elements of a parameter from first on, which parts of the device have.
func (s *squares) add(d *device, param, first, n int, of func(*weight) []float32) {
	for n > 0 {
		some := min(n, len(s.held)-s.count, s.cell-s.seen)
		into := s.held[s.count : s.count+some]
		for _, j := range d.index[param] {
			w := &d.weights[j]
			if w.runs == nil {
				copy(into, of(w)[first:])
				break
			}
			values := of(w)
			program.Within(w.runs, first, some, func(at, in, floats int) { copy(into[at:at+floats], values[in:]) })
		}
		s.count, s.seen, first, n = s.count+some, s.seen+some, first+some, n-some
		switch {
		case s.seen == s.cell:
			s.flush()
		case s.count == len(s.held):
			kernel.AddSquares(s.lanes[:], s.held[:])
			s.count = 0
		}
	}
}

// flush ends a cell.
func (s *squares) flush() {
	if s.seen == 0 {
		return
	}
	kernel.AddSquares(s.lanes[:], s.held[:s.count])
	s.sums[0] = kernel.Fold(s.lanes[:])
	s.sums, s.seen, s.count = s.sums[1:], 0, 0
	clear(s.lanes[:])
}

// clipping is the factor of gradients of a global norm, which may be most; 0: it may be any.
func clipping(most, norm float64) float32 {
	if most > 0 && norm > most {
		return float32(most / norm)
	}
	return 1
}
