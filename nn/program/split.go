package program

import (
	"slices"

	"gpipebench/nn/graph"
)

// The split backward; the package's comment says what is promised.

// parts are the steps of a backward function, divided, and the values that the steps of
// weights read, in their order.
type parts struct {
	input, weights []*step
	read           []*graph.Node
}

// reads is the set of values that the steps of weights read.
func (p parts) reads() map[*graph.Node]bool {
	set := map[*graph.Node]bool{}
	for _, n := range p.read {
		set[n] = true
	}
	return set
}

// divide divides the steps of a backward function.
func divide(steps []*step, dins []*graph.Node, accumulators map[*graph.Node]Operand) (p parts) {
	sums := func(n *graph.Node) bool { _, ok := accumulators[n]; return ok }
	used := map[*graph.Node]bool{}
	for _, n := range dins {
		used[n] = true
	}
	for _, s := range steps {
		for _, n := range s.in {
			used[n] = true
		}
	}
	read := map[*graph.Node]bool{} // by products of weights
	for _, s := range steps {
		if !slices.ContainsFunc(s.out, sums) {
			continue
		}
		for _, n := range s.out {
			if used[n] && !sums(n) {
				graph.Refuse("program", "%s computes gradients of parameters and of %s in one call: a split backward wants a call for each", s.call.Name(), n)
			}
		}
		if multiplies(s) {
			for _, n := range s.in {
				read[n] = true
			}
		}
	}
	free := func(n *graph.Node) bool { return read[n] || inParams(n) }
	for _, s := range steps {
		accumulates := slices.ContainsFunc(s.out, sums)
		if !accumulates || !multiplies(s) && !all(s.in, free) {
			p.input = append(p.input, s)
			continue
		}
		p.weights = append(p.weights, s)
		for _, n := range s.in {
			if !inParams(n) && !slices.Contains(p.read, n) {
				p.read = append(p.read, n)
			}
		}
	}
	return p
}

// multiplies reports whether a step does enough work to be worth keeping values for.
func multiplies(s *step) bool { return s.call.FLOPs() > 0 }

func inParams(n *graph.Node) bool { return n.Role == graph.Param || n.Role == graph.Const }

func all(nodes []*graph.Node, f func(*graph.Node) bool) bool {
	return !slices.ContainsFunc(nodes, func(n *graph.Node) bool { return !f(n) })
}

// assembleParts makes the programs Input and Weights of a stage, whose residuals have
// their places.
func (c *compiler) assembleParts(s *Stage, p parts, dins []*graph.Node, accumulators map[*graph.Node]Operand) {
	var kept []*graph.Node
	layer := map[*graph.Node]int{} // of the first step that reads a value
	for _, n := range p.read {
		if c.fixed[n].Space != Lasting {
			kept = append(kept, n)
		}
	}
	for _, st := range slices.Backward(p.weights) {
		for _, n := range st.in {
			layer[n] = st.call.Layer
		}
	}
	between := map[*graph.Node]Operand{}
	c.save(s, Between, kept, between, func(n *graph.Node) int { return layer[n] })

	input, weights := map[*graph.Node]Operand{}, map[*graph.Node]Operand{}
	for n, o := range accumulators {
		input[n], weights[n] = o, o
	}
	steps := slices.Clone(p.input)
	for _, n := range kept {
		weights[n] = between[n]
		if _, given := c.fixed[n]; !given {
			input[n] = between[n] // computed in its place
			continue
		}
		g := graph.Graph{Layer: layer[n]}
		copied := g.Copy(n)
		input[copied] = between[n]
		steps = append(steps, stepOf(copied.Call))
	}
	c.consumable = [Spaces]bool{Residual: true}
	s.Input = c.assemble(backwardInput, steps, dins, DIn, input, &s.Span)
	c.consumable = [Spaces]bool{}
	s.Weights = c.assemble(backwardWeights, p.weights, nil, DIn, weights, &s.Span)
}
