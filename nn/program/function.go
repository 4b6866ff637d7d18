package program

import "gpipebench/nn/graph"

func init() {
	register(func(o graph.FunctionOp, c *graph.Call) traits {
		return traits{
			activation: func(s *storage) (is, known bool) { return true, s.Rounded }, // inferred as float32 for want of a choice
			kernel: func(_ *step, accumulates bool, threads int) (kernelFunc, int) {
				return lowerFunction(o, c, accumulates, threads), 0
			},
		}
	})
}

// lowerFunction runs the kernel of an op from outside, by examples if that is
// promised, else on one thread.
func lowerFunction(o graph.FunctionOp, c *graph.Call, accumulates bool, threads int) kernelFunc {
	f := o.Function()
	split := f.Promise == graph.PerExample && !f.Accumulates
	examples := c.In[0].Shape[0]
	if split {
		examples = o.Examples(c.In)
	} else {
		threads = 1
	}
	// Every part has tensors of its own, whose shapes are known here.
	type operands struct{ out, in []graph.Tensor }
	parts := make([]operands, threads)
	for p := range parts {
		from, to := share(examples, p, threads, 1)
		shapes := func(nodes []*graph.Node) []graph.Tensor {
			tensors := make([]graph.Tensor, len(nodes))
			for i, n := range nodes {
				tensors[i].Shape = append(graph.Shape{}, n.Shape...)
				if split && !whole(n) {
					tensors[i].Shape[0] = to - from
				}
			}
			return tensors
		}
		parts[p] = operands{shapes(c.Out), shapes(c.In)}
	}
	run := func(_ *worker, in, out [][]float32, part, _ int) {
		if part >= len(parts) {
			return
		}
		from, to := share(examples, part, threads, 1)
		if from == to && split {
			return
		}
		fill := func(tensors []graph.Tensor, nodes []*graph.Node, memory [][]float32) {
			for i, n := range nodes {
				x := memory[i]
				if split && !whole(n) {
					each := len(x) / examples
					x = x[from*each : to*each : to*each]
				}
				if n.DType == graph.I32 {
					tensors[i].I32 = ints(x)
				} else {
					tensors[i].F32 = x
				}
			}
		}
		o := &parts[part]
		fill(o.out, c.Out, out)
		fill(o.in, c.In, in)
		f.Run(o.out, o.in)
	}
	return fromZero(f.Accumulates && !accumulates, run)
}

// whole reports whether a value has no examples.
func whole(n *graph.Node) bool { return n.Role == graph.Param || n.Role == graph.Const }
