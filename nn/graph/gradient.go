package graph

import "slices"

// ParamGrad is the gradient of one use of a parameter: Node is an output of a call that
// accumulates. A parameter that several calls consume has one ParamGrad per
// use, in the order of the calls; the update adds them in that order (the
// arithmetic contract, rule 4).
type ParamGrad struct {
	Param *Node
	Node  *Node
}

// Gradients appends the backward function of everything in g so far.
//
// Outs are the values whose gradients come from outside, and douts are these
// gradients (nil for a value without one, such as an integer tensor or a loss,
// see [Call.EndsLoss]). Gradients returns the gradients of ins,
// nil for those without one, and of every use of a parameter.
//
// If a value has several consumers, their gradients are added one at a time,
// that of the last consumer first. A boundary gradient precedes them all, so
// the order, and with it the bits, are the same wherever a network is cut.
func (g *Graph) Gradients(outs, douts, ins []*Node) (dins []*Node, params []ParamGrad) {
	forward := g.Calls // calls appended from here on belong to the backward
	grad := make([]*Node, g.nodes)
	add := func(n, d *Node) {
		if d == nil || n.DType == I32 {
			return
		}
		if grad[n.ID] == nil {
			grad[n.ID] = d
			return
		}
		grad[n.ID] = g.Add(grad[n.ID], d)
	}
	for i, o := range outs {
		add(o, douts[i])
	}

	for _, c := range slices.Backward(forward) {
		dout := make([]*Node, len(c.Out))
		known := false
		for j, o := range c.Out {
			dout[j] = grad[o.ID]
			known = known || dout[j] != nil
		}
		if !known && !c.EndsLoss() {
			continue
		}
		g.Layer = c.Layer
		gradient := c.known().gradient
		if gradient == nil {
			panic(noSecondGradient)
		}
		for j, d := range gradient(g, c, dout) {
			switch in := c.In[j]; {
			case d == nil:
			case in.Role == Param:
				if d.Call == nil || !d.Call.Accumulates() {
					misuse(c.Name(), "gradient of parameter %s comes from %s, which does not accumulate", in, d)
				}
				params = append(params, ParamGrad{in, d})
			default:
				add(in, d)
			}
		}
	}
	// Later calls were visited first; uses are numbered in the order of the calls.
	slices.Reverse(params)
	for _, in := range ins {
		dins = append(dins, grad[in.ID])
	}
	return dins, params
}

const noSecondGradient = "graph: the gradient of a gradient is not defined"
