package program_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn"
	"gpipebench/nn/graph"
	"gpipebench/nn/graph/op"
	"gpipebench/nn/program"
	"gpipebench/nn/program/programtest"
	"gpipebench/nn/trace"
)

// Parts' rows are consecutive, all there once, and differ by one at most.
func TestRowsOf(t *testing.T) {
	for height := range 40 {
		for parts := 1; parts <= 7; parts++ {
			next, least, most := 0, height+1, 0
			for part := range parts {
				r := program.RowsOf(height, part, parts)
				if r.From != next {
					t.Fatalf("%d rows, part %d of %d begins at %d, want %d", height, part, parts, r.From, next)
				}
				next, least, most = r.To, min(least, r.Len()), max(most, r.Len())
			}
			if next != height || most-least > 1 {
				t.Fatalf("%d rows in %d parts end at %d, with %d to %d each", height, parts, next, least, most)
			}
		}
	}
}

// onlyLayer compiles a layer of images (n, h, w, c) that is not the first of its network.
func onlyLayer(t *testing.T, layer nn.Layer, n, h, w, c int) *program.Stage {
	t.Helper()
	in := []graph.Type{programtest.Floats(n, h, w, c)}
	return program.Compile(trace.Layers([]nn.Layer{layer}, 0, nil, in, nil, true).Function, []bool{true}, true, 1, program.Storage{})
}

// TestHaloOnce: two windows over the same images get a halo once, and the wider one what the
// other did not need.
func TestHaloOnce(t *testing.T) {
	const n, h, w, c = 2, 24, 6, 3
	conv := func(name string, kernel int) *nn.Conv2D {
		return nn.NewConv2D(name, nn.Conv2DConfig{In: c, Out: c, Kernel: [2]int{kernel, kernel}, Padding: nn.Same})
	}
	for _, kernels := range [][2]int{{3, 7}, {7, 3}} {
		one, other := conv("one", kernels[0]), conv("other", kernels[1])
		both := nn.Func("both", func(t *nn.Trace, in ...*graph.Node) []*graph.Node {
			return []*graph.Node{t.Add(one.Forward(t, in...)[0], other.Forward(t, in...)[0])}
		}, one.Weight, other.Weight)
		forward, _ := onlyLayer(t, both, n, h, w, c).Spatial(3)
		testkit.Equal(t, total(forward), int64(2*2*3*n*w*c*4), "kernels %v: bytes", kernels)
	}
}

func total(s *program.Spatial) (sum int64) {
	for _, p := range s.Pieces {
		sum += p.Before.Total() + p.Handed.Total() + p.After.Total()
	}
	return sum
}

// randomWindow draws a layer with a window for images (n, h, w, c), and returns its kernel's
// height, its stride and the rows of padding before the image.
func randomWindow(r *rand.Rand, h, w, c int) (layer nn.Layer, kernel, stride, top int) {
	kernel, stride = 1+r.IntN(min(7, h)), 1+r.IntN(4)
	size, strides := [2]int{kernel, min(kernel, 3)}, [2]int{stride, 1 + r.IntN(2)}
	padding := nn.Valid
	switch r.IntN(3) {
	case 1:
		padding = nn.Same
		top = op.Window{KH: size[0], KW: size[1], SH: strides[0], SW: strides[1]}.Same(h, w).Top
	case 2:
		top = r.IntN(kernel)
		padding = nn.Pads(top, r.IntN(kernel), 0, 0)
	}
	switch r.IntN(4) {
	case 0:
		return nn.NewMaxPool("pool", nn.PoolConfig{Kernel: size, Stride: strides, Padding: padding}), kernel, stride, top
	case 1:
		return nn.NewAvgPool("pool", nn.PoolConfig{Kernel: size, Stride: strides, Padding: padding}), kernel, stride, top
	}
	return nn.NewConv2D("conv", nn.Conv2DConfig{In: c, Out: 1 + r.IntN(5), Kernel: size, Stride: strides, Padding: padding}), kernel, stride, top
}

// TestHaloBruteForce: random windows, strides, paddings, heights and numbers of parts. The
// forward halo of each part is counted tap by tap, and the rows of x that the gradient of
// the weights reads, with those of dy that the gradient of the input reads, likewise.
func TestHaloBruteForce(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 400 {
		const n, w, c = 2, 9, 3
		h, parts := 8+r.IntN(20), 1+r.IntN(5)
		layer, kernel, stride, top := randomWindow(r, h, w, c)
		stage := onlyLayer(t, layer, n, h, w, c)
		oh := stage.Out[0].Shape[1]
		if oh < parts {
			continue
		}
		sees := func(o, y int) bool { k := y - (o*stride - top); return k >= 0 && k < kernel }
		owns := func(height, part, y int) bool {
			rows := program.RowsOf(height, part, parts)
			return y >= rows.From && y < rows.To
		}
		var x, xAgain, dy int // rows of all parts
		pool := len(stage.Params) == 0
		for part := range parts {
			needX, needDY := map[int]bool{}, map[int]bool{}
			for o := range oh {
				for y := range h {
					if sees(o, y) && owns(oh, part, o) {
						needX[y] = true
					}
					if sees(o, y) && owns(h, part, y) {
						needDY[o] = true
					}
				}
			}
			x += strangers(needX, func(y int) bool { return owns(h, part, y) })
			dy += strangers(needDY, func(o int) bool { return owns(oh, part, o) })
			if pool { // of a max pool all of the windows that reach the part's rows
				clear(needX)
				for o := range needDY {
					for y := range h {
						if sees(o, y) {
							needX[y] = true
						}
					}
				}
			}
			xAgain += strangers(needX, func(y int) bool { return owns(h, part, y) })
		}
		row := func(t program.Tensor) int { return t.Shape.Elems() / t.Shape[1] * 4 }
		forward, backward := stage.Spatial(parts)
		name := fmt.Sprintf("%s of %d rows, kernel %d, stride %d, top %d, %d parts", forward.Parts[0].Instrs[0].Op, h, kernel, stride, top, parts)
		testkit.Equal(t, total(forward), int64(x*row(stage.In[0])), "%s: forward", name)
		want := int64(dy * row(stage.Out[0]))
		switch forward.Parts[0].Instrs[0].Op {
		case "conv2d":
			want += int64(xAgain * row(stage.In[0]))
		case "max-pool": // dy, x and y
			want += int64(xAgain*row(stage.In[0]) + dy*row(stage.Out[0]))
		}
		testkit.Equal(t, total(backward), want, "%s: backward", name)
		for _, p := range backward.Pieces {
			if p.Division == program.Partial && p.Sum != 4*int64(stage.Params[0].Len) {
				t.Errorf("%s: parts add up %d bytes of weights, want %d", name, p.Sum, 4*stage.Params[0].Len)
			}
		}
	}
}

// strangers counts the rows that are not the part's own, from the first to the last that it
// needs.
func strangers(need map[int]bool, own func(int) bool) (n int) {
	if len(need) == 0 {
		return 0
	}
	rows := slices.Sorted(maps.Keys(need))
	for y := rows[0]; y <= rows[len(rows)-1]; y++ {
		if !own(y) {
			n++
		}
	}
	return n
}

// TestSpatialConserves: of every instruction the parts' operations add up to the whole,
// and one part does what the whole program does, with nothing to exchange.
func TestSpatialConserves(t *testing.T) {
	for name, n := range imageNetworks(t) {
		stage := programtest.CompileLayers(t, n).Stage
		for parts := 1; parts <= 5; parts++ {
			forward, backward := stage.Spatial(parts)
			for whole, divided := range map[*program.Program]*program.Spatial{stage.Keep: forward, stage.Backward: backward} {
				flops := make([]int64, len(whole.Instrs))
				for part, p := range divided.Parts {
					for i, in := range p.Instrs {
						flops[divided.Index[part][i]] += in.FLOPs
					}
				}
				for i := range whole.Instrs {
					testkit.Equal(t, flops[i], whole.Instrs[i].FLOPs, "%s, %d parts: %s: operations", name, parts, whole.Instrs[i].Op)
				}
				if parts > 1 {
					continue
				}
				// Rows that no window sees (the last one, of a stride) are not read by a part.
				oneFLOPs, one := work(divided.Parts[0])
				allFLOPs, all := work(whole)
				if total(divided) != 0 || oneFLOPs != allFLOPs || one > all || float64(one) < 0.99*float64(all) {
					t.Errorf("%s: one part exchanges %d bytes and moves %d, want %d", name, total(divided), one, all)
				}
			}
		}
	}
}

// TestSpatialDivisions: which operations of SSD are divided how, and which stay on part 0.
func TestSpatialDivisions(t *testing.T) {
	stage := programtest.CompileLayers(t, imageNetworks(t)["ssd"]).Stage
	forward, backward := stage.Spatial(4)
	found := map[string]map[string]bool{}
	for whole, divided := range map[*program.Program]*program.Spatial{stage.Keep: forward, stage.Backward: backward} {
		for i, p := range divided.Pieces {
			op, how := whole.Instrs[i].Op, p.Division.String()
			if p.Small {
				how = "small"
			}
			if found[op] == nil {
				found[op] = map[string]bool{}
			}
			found[op][how] = true
		}
	}
	for op, want := range map[string][]string{
		"conv2d": {"by rows", "small"}, "conv2d-input-grad": {"by rows", "small"}, "conv2d-weight-grad": {"partial", "small"},
		"max-pool": {"by rows"}, "max-pool-grad": {"by rows"}, "batch-norm-moments": {"chunked"}, "batch-norm-stats": {"everywhere"},
		"batch-norm-relu": {"by rows"}, "concat": {"alone"}, "cross-entropy": {"alone"}, "batch-norm-param-grad": {"everywhere"},
	} {
		var got []string
		for how := range found[op] {
			got = append(got, how)
		}
		slices.Sort(got)
		testkit.EqualAll(t, got, want, "%s", op)
	}
}

// TestChunksBruteForce: the pixels that chunks of a batch norm get from other parts, and the
// statistics that all parts get, counted one by one.
func TestChunksBruteForce(t *testing.T) {
	for _, c := range [][5]int{{1, 16, 16, 3, 2}, {2, 13, 7, 4, 3}, {3, 5, 31, 2, 4}, {2, 40, 40, 1, 5}, {4, 6, 2, 3, 3}, {2, 300, 1, 3, 4},
		{1, 258, 1, 3, 2}} { // whose second chunk begins with a part's last pixel
		n, h, w, channels, parts := c[0], c[1], c[2], c[3], c[4]
		stage := onlyLayer(t, nn.NewBatchNorm("norm", nn.BatchNormConfig{Channels: channels}), n, h, w, channels)
		owner := func(pixel int) (part int) {
			y := pixel / w % h
			for y >= program.RowsOf(h, part, parts).To {
				part++
			}
			return part
		}
		pixels, chunks, foreign := n*h*w, 0, 0
		for first := 0; first < pixels; first += op.NormChunk {
			chunks++
			for p := first; p < min(first+op.NormChunk, pixels); p++ {
				if owner(p) != owner(first) {
					foreign++
				}
			}
		}
		forward, backward := stage.Spatial(parts)
		statistics := int64(chunks * (parts - 1) * 2 * channels * 4)
		testkit.Equal(t, total(forward), int64(foreign*channels*4)+statistics, "%v: forward", c)
		if got, want := total(backward), int64(2*foreign*channels*4)+statistics; got != want { // x and dy
			t.Errorf("%v: backward %d bytes, want %d", c, got, want)
		}
	}
}
