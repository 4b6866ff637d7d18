package program

import (
	"strings"
	"testing"

	"gpipebench/internal/failure"
	"gpipebench/nn/graph"
)

// What cannot be compiled is a panic of the goroutine that asks for it, of the last stage that fails.
func TestCompileChainFails(t *testing.T) {
	of := func(call func(g *graph.Graph, x *graph.Node), kernel bool) Function {
		g := &graph.Graph{}
		x := g.NewNode(graph.Input, "x", graph.F32, 2, 2)
		call(g, x)
		if !kernel {
			g.Calls[0].Op = struct{}{}
		}
		return Function{Graph: g, In: []*graph.Node{x}}
	}
	add := func(g *graph.Graph, x *graph.Node) { g.Add(x, x) }
	scale := func(g *graph.Graph, x *graph.Node) { g.Scale(x, 2) }
	for range 20 { // whichever ends first
		func() {
			defer func() {
				if d, ok := recover().(*failure.Defect); !ok || !strings.Contains(d.Error(), "no kernel for op scale") {
					t.Errorf("%v, want a defect of the third", d)
				}
			}()
			CompileChain([]Function{of(add, true), of(add, false), of(scale, false), of(add, true)}, []int{1, 1, 1, 1}, Storage{})
		}()
	}
}
