package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// A columnTally is the count, mean and sum of squared deviations of values.
type columnTally struct{ count, mean, squares float64 }

// add adds one value (Welford's update).
func (t *columnTally) add(v float64) {
	t.count++
	d := v - t.mean
	t.mean += d / t.count
	t.squares += d * (v - t.mean)
}

func batchNormKernels() []vectorKernel {
	in, out := operand{role: reads}, operand{role: writes}
	param, pair := operand{role: reads, layout: perColumn}, operand{role: reads, layout: perColumn, width: 2}
	positive, statistic := param, param
	positive.positive, statistic.role = true, writes

	kernels := []vectorKernel{
		{name: "columnMoments", byColumn: true, operands: []operand{statistic, statistic, in}, call: func(o [][]float32, c cut) { vector.columnMoments(o[0], o[1], o[2], c.rows, c.cols, c.ld) }},
		{
			name: "copyColumns", byRow: true, byColumn: true, operands: []operand{out, in},
			call: func(o [][]float32, c cut) { vector.copyColumns(o[0], o[1], c.rows, c.cols, c.ld, c.ld) },
		},
	}

	for _, relu := range []bool{false, true} {
		suffix := map[bool]string{true: "Relu"}[relu]
		sums := vectorKernel{
			name: "batchNormGradSums" + suffix, byColumn: true,
			operands: []operand{statistic, statistic, in, in, param, param, param, param},
			call: func(o [][]float32, c cut) {
				if relu {
					vector.batchNormReluGradSums(o[0], o[1], o[2], o[3], o[4], o[5], o[6], o[7], c.rows, c.cols, c.ld)
				} else {
					vector.batchNormGradSums(o[0], o[1], o[2], o[3], o[4], o[5], c.rows, c.cols, c.ld)
				}
			},
		}
		kernels = append(kernels, sums)

		for _, withAdd := range []bool{false, true} {
			name := map[bool]string{true: "Add"}[withAdd] + suffix
			addOf := func(o []float32) []float32 {
				if withAdd {
					return o
				}
				return nil
			}
			kernels = append(kernels, vectorKernel{
				name: "BatchNorm" + name, byRow: true, aliases: []int{1, 2},
				operands: []operand{out, in, in, pair, param, param},
				call: func(o [][]float32, c cut) {
					BatchNorm(o[0], o[1], addOf(o[2]), o[3], o[4], o[5], c.rows, c.cols, relu)
				},
			}, vectorKernel{
				name: "BatchNormEval" + name, byRow: true, aliases: []int{1, 2},
				operands: []operand{out, in, in, param, positive, param, param},
				call: func(o [][]float32, c cut) {
					BatchNormEval(o[0], o[1], addOf(o[2]), o[3], o[4], o[5], o[6], c.rows, c.cols, testEps, relu)
				},
			}, vectorKernel{
				name: "BatchNormGrad" + name, byRow: true, aliases: []int{1, 2, 3},
				operands: []operand{out, in, in, in, pair, pair, param, param},
				call: func(o [][]float32, c cut) {
					BatchNormGrad(o[0], o[1], o[2], addOf(o[3]), o[4], o[5], o[6], o[7], relu, c.rows, c.cols, 7)
				},
			})
		}
	}
	return kernels
}

// A batchNormCase is one micro-batch with all operands of both passes.
type batchNormCase struct {
	rows, cols                     int
	relu                           bool
	x, dy, gamma, beta             []float32
	moments, stats, y              []float32
	sums, totals, dx               []float32
	tally                          []float64
	chunkCuts, colCuts, rowsAtOnce []int // boundaries of the calls' ranges, including both ends
}

func newBatchNormCase(rows, cols int, relu bool) *batchNormCase {
	random := rand.New(rand.NewPCG(uint64(rows), uint64(cols)))
	normal := func(n int, mean, deviation float64) []float32 { return normals(random, n, mean, deviation) }
	chunks := NormChunks(rows)
	return &batchNormCase{
		rows: rows, cols: cols, relu: relu,
		x: normal(rows*cols, 3, 2), dy: normal(rows*cols, 0.1, 1), gamma: normal(cols, 1, 0.5), beta: normal(cols, 0, 0.5),
		moments: make([]float32, chunks*2*cols), sums: make([]float32, chunks*2*cols),
		stats: make([]float32, 2*cols), totals: make([]float32, 2*cols), tally: make([]float64, 3*cols),
		y: make([]float32, rows*cols), dx: make([]float32, rows*cols),
		chunkCuts: []int{0, chunks}, colCuts: []int{0, cols}, rowsAtOnce: []int{0, rows},
	}
}

// run does a forward and a backward pass in the calls that the cuts define.
func (b *batchNormCase) run() {
	each := func(cuts []int, f func(from, to int)) {
		for i := range len(cuts) - 1 {
			f(cuts[i], cuts[i+1])
		}
	}
	each(b.chunkCuts, func(from, to int) {
		each(b.colCuts, func(c0, c1 int) { BatchNormMoments(b.moments, b.x, b.rows, b.cols, from, to, c0, c1) })
	})
	each(b.colCuts, func(c0, c1 int) {
		BatchNormStats(b.stats, b.moments, b.tally, b.rows, b.cols, testEps, c0, c1)
	})
	each(b.rowsAtOnce, func(from, to int) {
		BatchNorm(b.y[from*b.cols:to*b.cols], b.x[from*b.cols:], nil, b.stats, b.gamma, b.beta, to-from, b.cols, b.relu)
	})
	each(b.chunkCuts, func(from, to int) {
		each(b.colCuts, func(c0, c1 int) {
			BatchNormGradSums(b.sums, b.dy, b.x, b.stats, b.gamma, b.beta, b.relu, b.rows, b.cols, from, to, c0, c1)
		})
	})
	each(b.colCuts, func(c0, c1 int) { BatchNormGradTotals(b.totals, b.sums, b.rows, b.cols, c0, c1) })
	each(b.rowsAtOnce, func(from, to int) {
		BatchNormGrad(b.dx[from*b.cols:to*b.cols], b.dy[from*b.cols:], b.x[from*b.cols:], nil, b.stats, b.totals,
			b.gamma, b.beta, b.relu, to-from, b.cols, b.rows)
	})
}

// cutEvery cuts the calls into ranges of one chunk, and of every columns or rows.
func (b *batchNormCase) cutEvery(every int) {
	cuts := func(n, every int) (c []int) {
		for i := 0; i < n; i += every {
			c = append(c, i)
		}
		return append(c, n)
	}
	b.chunkCuts, b.colCuts, b.rowsAtOnce = cuts(NormChunks(b.rows), 1), cuts(b.cols, every), cuts(b.rows, every)
}

// outputs returns everything that a run computes.
func (b *batchNormCase) outputs() [][]float32 {
	tally := make([]float32, 0, 2*len(b.tally))
	for _, v := range b.tally {
		tally = append(tally, floats32Of(v)...)
	}
	return [][]float32{b.moments, b.stats, b.y, b.sums, b.totals, b.dx, tally}
}

func eachBatchNormCase(t *testing.T, f func(t *testing.T, b *batchNormCase)) {
	t.Helper()
	eachProfile(t, func(t *testing.T) {
		for _, rows := range []int{2, 5, 127, 128, 129, 300, 512} {
			for _, cols := range []int{1, 8, 19, 64, 150} {
				for _, relu := range []bool{false, true} {
					t.Run(fmt.Sprintf("rows=%d/cols=%d/relu=%v", rows, cols, relu), func(t *testing.T) {
						f(t, newBatchNormCase(rows, cols, relu))
					})
				}
			}
		}
	})
}

// column returns column j in float64.
func (b *batchNormCase) column(x []float32, j int) []float64 {
	c := make([]float64, b.rows)
	for i := range c {
		c[i] = float64(x[i*b.cols+j])
	}
	return c
}

// The gradient against central differences of the formula, in which mean and
// variance depend on x.
func TestBatchNormGradAgainstDifferences(t *testing.T) {
	eachBatchNormCase(t, func(t *testing.T, b *batchNormCase) {
		b.run()
		for j := 0; j < b.cols; j += 5 {
			x, dy := b.column(b.x, j), b.column(b.dy, j)
			gamma, beta := float64(b.gamma[j]), float64(b.beta[j])
			passes := make([]bool, b.rows)
			for i := range passes {
				passes[i] = !b.relu || b.y[i*b.cols+j] > 0
			}
			loss := func() (sum float64) {
				mean, scale := normReference(x)
				for i, v := range x {
					if passes[i] {
						sum += dy[i] * ((v-mean)*scale*gamma + beta)
					}
				}
				return sum
			}
			for i := 0; i < b.rows; i += 1 + b.rows/7 {
				const h = 1e-4
				v := x[i]
				x[i] = v + h
				up := loss()
				x[i] = v - h
				want := (up - loss()) / (2 * h)
				x[i] = v
				// With two rows close together, the deviation to divide by is
				// small.
				size := max(1, math.Abs(want), float64(b.stats[b.cols+j]))
				if got := float64(b.dx[i*b.cols+j]); math.Abs(got-want) > 2e-5*size {
					t.Fatalf("dx[%d, %d] is %v, by differences %v", i, j, got, want)
				}
			}
		}
	})
}

// The backward pass lets a gradient through exactly where the forward pass's
// output is positive. Here the last bit decides that: beta is the negative of
// the rounded product, so that a chain that rounds the product gives 0.
func TestBatchNormGradientPassesWhereOutputIsPositive(t *testing.T) {
	eachProfile(t, func(t *testing.T) {
		const cols = 1000
		b := newBatchNormCase(1, cols, true)
		for j := range cols {
			b.stats[j], b.stats[cols+j], b.dy[j] = 0.3, 0.7, 1
			b.beta[j] = -float32(normalised(b.x[j], 0.3, 0.7) * b.gamma[j])
		}
		BatchNorm(b.y, b.x, nil, b.stats, b.gamma, b.beta, 1, cols, true)
		BatchNormGradSums(b.sums, b.dy, b.x, b.stats, b.gamma, b.beta, true, 1, cols, 0, 1, 0, cols)
		BatchNormGrad(b.dx, b.dy, b.x, nil, b.stats, b.totals, b.gamma, b.beta, true, 1, cols, 1)
		positive := 0
		for j, y := range b.y {
			if y > 0 {
				positive++
			}
			if (b.sums[j] != 0) != (y > 0) || (b.dx[j] != 0) != (y > 0) {
				t.Fatalf("column %d: output %v, sum %v, dx %v", j, y, b.sums[j], b.dx[j])
			}
		}
		if positive < cols/4 {
			t.Errorf("%d outputs are positive", positive)
		}
	})
}

// The tally of several micro-batches covers all their rows, and without a
// tally the other results are the same.
func TestBatchNormTallyAndMovingStatistics(t *testing.T) {
	eachProfile(t, func(t *testing.T) {
		const cols = 37
		all := newBatchNormCase(500, cols, false)
		for i := range all.x {
			all.x[i] += 1000 // a mean far from 0 must not cost the variance
		}
		tally := make([]float64, 3*cols)
		for _, part := range [][2]int{{0, 2}, {2, 300}, {300, 500}} {
			rows, x := part[1]-part[0], all.x[part[0]*cols:part[1]*cols]
			moments, stats, alone := make([]float32, NormChunks(rows)*2*cols), make([]float32, 2*cols), make([]float32, 2*cols)
			BatchNormMoments(moments, x, rows, cols, 0, NormChunks(rows), 0, cols)
			BatchNormStats(alone, moments, nil, rows, cols, testEps, 0, cols)
			BatchNormStats(stats, moments, tally, rows, cols, testEps, 0, 20)
			BatchNormStats(stats, moments, tally, rows, cols, testEps, 20, cols)
			if !slices.Equal(stats, alone) {
				t.Fatal("a tally changes the statistics")
			}
		}
		for _, unbiased := range []bool{false, true} {
			mean, variance := slices.Repeat([]float32{5}, cols), slices.Repeat([]float32{3}, cols)
			MoveStatistics(mean, variance, tally, 0.75, unbiased)
			for j := range cols {
				var want columnTally
				for _, v := range all.column(all.x, j) {
					want.add(v)
				}
				if tally[j] != 500 {
					t.Fatalf("count of column %d is %v", j, tally[j])
				}
				n := want.count
				if unbiased {
					n--
				}
				wantMean, wantVariance := 0.75*5+0.25*want.mean, 0.75*3+0.25*want.squares/n
				if math.Abs(float64(mean[j])/wantMean-1) > 1e-6 || math.Abs(float64(variance[j])/wantVariance-1) > 1e-5 {
					t.Fatalf("column %d, unbiased %v: %v, %v, want %v, %v", j, unbiased, mean[j], variance[j], wantMean, wantVariance)
				}
			}
		}
		mean, variance := []float32{5}, []float32{3}
		MoveStatistics(mean, variance, make([]float64, 3), 0.75, false)
		if mean[0] != 5 || variance[0] != 3 {
			t.Errorf("nothing moves the averages to %v, %v", mean[0], variance[0])
		}
	})
}
