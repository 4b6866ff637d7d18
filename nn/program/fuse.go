package program

import (
	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
)

// step is one instruction before its operands have places: a call, and the
// calls that its kernel does as well.
type step struct {
	call *graph.Call
	// Epilogue of a matrix product, done block by block while C is in the
	// cache.
	bias *graph.Call
	// Addition that the kernel of a dropout, a batch norm or a norm's gradient
	// does in the same pass.
	add *graph.Call
	// Activation after the bias or the addition, or after an addition that is
	// call.
	act *graph.Call

	in, out []*graph.Node
	known   *traits // of the call: see traits

	// Of a part of images (see divider): how many elements of each example are before its
	// rows, and how many rows of values the whole has; 0: the step is of the whole.
	within, total int
	adds          bool // to its results, wherever these are
	blocks        int  // into which parts that take turns cut its result; 0: they do not
}

// stepOf is a call alone.
func stepOf(c *graph.Call) *step { return &step{call: c, in: c.In, out: c.Out} }

// last returns the call that makes the step's results.
func (s *step) last() *graph.Call {
	switch {
	case s.act != nil:
		return s.act
	case s.add != nil:
		return s.add
	case s.bias != nil:
		return s.bias
	}
	return s.call
}

// fuse folds calls into steps. A value disappears into a fusion only if the
// call that takes it over is its single use in the whole of g, forward and
// backward, and in the same layer: so Forward and Keep fuse alike, and a cut
// between layers changes nothing. With and without fusion every element has the
// same chain of operations; only the layer norm's gradient rounds its last
// product and the addition together.
func fuse(calls []*graph.Call, uses map[*graph.Node]int) []*step {
	consumer := make(map[*graph.Node]*graph.Call, len(calls))
	for _, c := range calls {
		for _, n := range c.In {
			consumer[n] = c
		}
	}
	owner := map[*graph.Call]*step{} // of calls that are part of another step

	// next returns the call in the same layer that is the only consumer of c's
	// output, or nil if it is part of another step already: a sum of two
	// dropouts goes with the first.
	next := func(c *graph.Call) *graph.Call {
		n := c.Out[0]
		if t := consumer[n]; t != nil && uses[n] == 1 && t.Layer == c.Layer && owner[t] == nil {
			return t
		}
		return nil
	}

	steps := make([]*step, 0, len(calls))
	for _, c := range calls {
		if s := owner[c]; s != nil && s.last() != c {
			continue
		} else if s != nil {
			// The fused step takes the position of its last call, so that all
			// its inputs are ready.
			steps = append(steps, s)
			continue
		}
		s := &step{call: c}
		if f := s.traits().fuse; f != nil {
			f(s, next)
		}
		for _, t := range []*graph.Call{s.bias, s.add, s.act} {
			if t != nil {
				owner[t] = s
			}
		}
		if s.last() == c {
			steps = append(steps, s)
		}
	}
	for _, s := range steps {
		s.connect()
	}
	return steps
}

// fusion gives a step that has its call the calls that it takes over; next returns the one
// after another that it may.
type fusion func(s *step, next func(*graph.Call) *graph.Call)

// fuseBias is of a product, after whose bias comes perhaps an activation.
func fuseBias(s *step, next func(*graph.Call) *graph.Call) {
	if t := next(s.call); t != nil && t.Op == (op.AddBias{}) && t.In[0] == s.call.Out[0] {
		s.bias = t
		if t := next(t); t != nil && (t.Op == op.ReLU{} || t.Op == op.GELU{}) {
			s.act = t
		}
	}
}

func fuseAdd(s *step, next func(*graph.Call) *graph.Call) { s.add = addition(next(s.call)) }

func fuseReLU(s *step, next func(*graph.Call) *graph.Call) { s.act = rectifier(next(s.call)) }

func fuseAddAndReLU(s *step, next func(*graph.Call) *graph.Call) {
	if s.add = addition(next(s.call)); s.add != nil {
		s.act = rectifier(next(s.add))
	}
}

// addition returns c if it adds two different values, else nil.
func addition(c *graph.Call) *graph.Call {
	if c != nil && c.Op == (op.Add{}) && c.In[0] != c.In[1] {
		return c
	}
	return nil
}

// rectifier returns c if it is a ReLU, else nil.
func rectifier(c *graph.Call) *graph.Call {
	if c != nil && c.Op == (op.ReLU{}) {
		return c
	}
	return nil
}

// connect lists the step's inputs and outputs in the order that its kernel
// expects: those of the call, then the bias, then the addend.
func (s *step) connect() {
	s.in = append(make([]*graph.Node, 0, len(s.call.In)+2), s.call.In...)
	if s.bias != nil {
		s.in = append(s.in, s.bias.In[1])
	}
	if s.add != nil {
		other := s.add.In[0]
		if other == s.call.Out[0] {
			other = s.add.In[1]
		}
		s.in = append(s.in, other)
	}
	s.out = s.last().Out
}

// inPlace lists the inputs that the first output may overwrite.
func (s *step) inPlace() []int {
	ok := s.call.InPlace()
	if s.add != nil {
		ok = append([]int{len(s.in) - 1}, ok...)
	}
	return ok
}

// countUses counts who reads each value: calls, and results.
func countUses(calls []*graph.Call, results ...[]*graph.Node) map[*graph.Node]int {
	count := make(map[*graph.Node]int, len(calls))
	for _, c := range calls {
		for _, n := range c.In {
			count[n]++
		}
	}
	for _, rs := range results {
		for _, n := range rs {
			if n != nil {
				count[n]++
			}
		}
	}
	return count
}
