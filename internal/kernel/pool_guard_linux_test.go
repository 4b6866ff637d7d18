package kernel

import (
	"fmt"
	"testing"
)

// besideGuards returns functions that place operands right before and right
// after inaccessible pages.
func besideGuards(t *testing.T, operands, floats int) []func() func(n int) []float32 {
	t.Helper()
	memory := make([][]float32, operands)
	for i := range memory {
		memory[i] = float32s(guardedMemory(t, 4*floats))
	}
	places := make([]func() func(n int) []float32, 2)
	for which := range places {
		places[which] = func() func(n int) []float32 {
			i := -1
			return func(n int) []float32 {
				i++
				if which == 0 {
					return memory[i][:n:n]
				}
				return memory[i][len(memory[i])-n:]
			}
		}
	}
	return places
}

func TestPoolsBesideGuardPages(t *testing.T) {
	const operands, floats = 6, 20000 // larger than any case's
	eachProfile(t, func(t *testing.T) {
		places := besideGuards(t, operands, floats)
		for _, p := range pools {
			for _, p.C = range poolChannels {
				want := runPools(p, onHeap, 1<<20)
				for _, place := range places {
					sameBits(t, fmt.Sprintf("%+v beside guard pages", p), runPools(p, place(), 1<<20), want)
				}
			}
		}
	})
}

func TestDepthwiseBesideGuardPages(t *testing.T) {
	const operands, floats = 7, 40000 // larger than any case's
	eachProfile(t, func(t *testing.T) {
		places := besideGuards(t, operands, floats)
		for i, d := range depthwiseShapes() {
			d.C = depthwiseChannels[i%len(depthwiseChannels)]
			c := newDepthwiseCase(d)
			want := c.run(onHeap, 1<<20)
			for _, place := range places {
				sameBits(t, fmt.Sprintf("%+v beside guard pages", d), c.run(place(), 1<<20), want)
			}
		}
	})
}

func TestBatchNormStatsBesideGuardPages(t *testing.T) {
	eachProfile(t, func(t *testing.T) {
		places := besideGuards(t, 4, 4096)
		for _, rows := range []int{2, 128, 300} {
			for _, cols := range []int{1, 3, 4, 7, 8, 9, 16, 21, 64, 67} {
				b := newBatchNormCase(rows, cols, true)
				b.run()
				want := b.outputs()
				for _, place := range places {
					put := copiesAt(place())
					for _, operand := range []*[]float32{&b.moments, &b.stats, &b.sums, &b.totals} {
						*operand = put(*operand)
					}
					clear(b.tally)
					b.run()
					sameBits(t, fmt.Sprintf("%d rows, %d cols beside guard pages", rows, cols), b.outputs(), want)
				}
			}
		}
	})
}
