package kernel

import (
	"math"
	"testing"
)

const testEps = 1e-5

func normKernels() []vectorKernel {
	stats := operand{role: reads, layout: perRow, width: 2}
	param := operand{role: reads, layout: perColumn}
	statsOut, paramSum := stats, param
	normStats := func(o [][]float32, c cut) {
		for r := range c.rows {
			mean, scale := normReference(float64s(o[2][r*c.cols : (r+1)*c.cols]))
			o[4][2*r], o[4][2*r+1] = float32(mean), float32(scale)
		}
	}
	statsOut.role, paramSum.role = writes, updates
	return []vectorKernel{
		{
			name: "LayerNorm", byRow: true, aliases: []int{2},
			operands: []operand{{role: writes}, statsOut, {role: reads}, param, param},
			call: func(o [][]float32, c cut) {
				LayerNorm(o[0], o[1], o[2], o[3], o[4], c.rows, c.cols, testEps)
			},
			want: func(o [][]float32, c cut) [][]float64 {
				y, stats := make([]float64, len(o[0])), make([]float64, len(o[1]))
				for r := range c.rows {
					row := float64s(o[2][r*c.cols : (r+1)*c.cols])
					stats[2*r], stats[2*r+1] = normReference(row)
					for j, v := range row {
						y[r*c.cols+j] = (v-stats[2*r])*stats[2*r+1]*float64(o[3][j]) + float64(o[4][j])
					}
				}
				return [][]float64{y, stats, nil, nil, nil}
			},
			// A row of one column divides its rounding errors by √eps.
			ulps: 256, floor: 4,
		},
		{
			name: "LayerNormGrad", byRow: true, aliases: []int{1, 2},
			operands: []operand{{role: writes}, {role: reads}, {role: reads}, param, stats}, prepare: normStats,
			call: func(o [][]float32, c cut) {
				LayerNormGrad(o[0], o[1], o[2], o[3], o[4], nil, c.rows, c.cols)
			},
			want: func(o [][]float32, c cut) [][]float64 {
				return [][]float64{normGradReference(o[1], o[2], o[3], c, layerNormReference), nil, nil, nil, nil}
			},
			ulps: 1 << 10, floor: 4,
		},
		{
			name: "LayerNormGradAdd", byRow: true, aliases: []int{1, 2, 5},
			operands: []operand{{role: writes}, {role: reads}, {role: reads}, param, stats, {role: reads}}, prepare: normStats,
			call: func(o [][]float32, c cut) {
				LayerNormGrad(o[0], o[1], o[2], o[3], o[4], o[5], c.rows, c.cols)
			},
			want: func(o [][]float32, c cut) [][]float64 {
				want := normGradReference(o[1], o[2], o[3], c, layerNormReference)
				for i := range want {
					want[i] += float64(o[5][i])
				}
				return [][]float64{want, nil, nil, nil, nil, nil}
			},
			ulps: 1 << 10, floor: 4,
		},
		{
			name: "LayerNormParamGrad", byRow: true, byColumn: true,
			operands: []operand{paramSum, paramSum, {role: reads}, {role: reads}, stats},
			call: func(o [][]float32, c cut) {
				LayerNormParamGrad(o[0], o[1], o[2], o[3], o[4], c.rows, c.cols, c.ld)
			},
			want: func(o [][]float32, c cut) [][]float64 {
				dgamma, dbeta := float64s(o[0]), float64s(o[1])
				for r := range c.rows {
					for j := range c.cols {
						dy, x := float64(o[2][r*c.ld+j]), float64(o[3][r*c.ld+j])
						dgamma[j] += dy * (x - float64(o[4][2*r])) * float64(o[4][2*r+1])
						dbeta[j] += dy
					}
				}
				return [][]float64{dgamma, dbeta, nil, nil, nil}
			},
			ulps: 16, floor: 8,
		},
		{
			name: "RMSNorm", byRow: true,
			operands: []operand{{role: writes}, {role: writes, layout: perRow, width: 1}, {role: reads}, param},
			call: func(o [][]float32, c cut) {
				RMSNorm(o[0], o[1], o[2], o[3], c.rows, c.cols, testEps)
			},
			want: func(o [][]float32, c cut) [][]float64 {
				y, scale := make([]float64, len(o[0])), make([]float64, len(o[1]))
				for r := range c.rows {
					row := float64s(o[2][r*c.cols : (r+1)*c.cols])
					scale[r] = rmsReference(row)
					for j, v := range row {
						y[r*c.cols+j] = v * scale[r] * float64(o[3][j])
					}
				}
				return [][]float64{y, scale, nil, nil}
			},
			ulps: 64, floor: 4,
		},
		{
			name: "RMSNormGrad", byRow: true, aliases: []int{1},
			operands: []operand{{role: writes}, {role: reads}, {role: reads}, param, {role: reads, layout: perRow, width: 1}},
			prepare: func(o [][]float32, c cut) {
				for r := range c.rows {
					o[4][r] = float32(rmsReference(float64s(o[2][r*c.cols : (r+1)*c.cols])))
				}
			},
			call: func(o [][]float32, c cut) {
				RMSNormGrad(o[0], o[1], o[2], o[3], o[4], c.rows, c.cols)
			},
			want: func(o [][]float32, c cut) [][]float64 {
				y := func(x []float64, j int) float64 { return x[j] * rmsReference(x) }
				return [][]float64{normGradReference(o[1], o[2], o[3], c, y), nil, nil, nil, nil}
			},
			ulps: 1 << 10, floor: 4,
		},
		{
			name: "RMSNormParamGrad", byRow: true, byColumn: true,
			operands: []operand{paramSum, {role: reads}, {role: reads}, {role: reads, layout: perRow, width: 1}},
			call: func(o [][]float32, c cut) {
				RMSNormParamGrad(o[0], o[1], o[2], o[3], c.rows, c.cols, c.ld)
			},
			want: func(o [][]float32, c cut) [][]float64 {
				dgamma := float64s(o[0])
				for r := range c.rows {
					for j := range c.cols {
						dgamma[j] += float64(o[1][r*c.ld+j]) * float64(o[2][r*c.ld+j]) * float64(o[3][r])
					}
				}
				return [][]float64{dgamma, nil, nil, nil}
			},
			ulps: 32, floor: 8,
		},
	}
}

// rmsReference returns the inverse of a row's root mean square.
func rmsReference(x []float64) float64 {
	var mean float64
	for _, v := range x {
		mean += v * v / float64(len(x))
	}
	return 1 / math.Sqrt(mean+testEps)
}

func float64s(x []float32) []float64 {
	d := make([]float64, len(x))
	for i, v := range x {
		d[i] = float64(v)
	}
	return d
}

func normReference(x []float64) (mean, scale float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	var variance float64
	for _, v := range x {
		variance += (v - mean) * (v - mean) / float64(len(x))
	}
	return mean, 1 / math.Sqrt(variance+testEps)
}

// layerNormReference is element j of a normalised row.
func layerNormReference(x []float64, j int) float64 {
	mean, scale := normReference(x)
	return (x[j] - mean) * scale
}

// normGradReference computes the gradient of Σ dy gamma y by central differences, where y is an
// element of a normalised row.
func normGradReference(dy, x, gamma []float32, c cut, y func(x []float64, j int) float64) []float64 {
	want := make([]float64, len(x))
	for r := range c.rows {
		row := float64s(x[r*c.cols : (r+1)*c.cols])
		loss := func() float64 {
			var sum float64
			for j := range row {
				sum += float64(dy[r*c.cols+j]) * float64(gamma[j]) * y(row, j)
			}
			return sum
		}
		for j, v := range row {
			const h = 1e-5
			row[j] = v + h
			up := loss()
			row[j] = v - h
			want[r*c.cols+j] = (up - loss()) / (2 * h)
			row[j] = v
		}
	}
	return want
}

// With a single pass, float32 would lose the variance of such a row altogether.
func TestLayerNormOfLargeMean(t *testing.T) {
	eachTable(t, func(t *testing.T) {
		const n = 1000
		x, y, stats := make([]float32, n), make([]float32, n), make([]float32, 2)
		gamma, beta := make([]float32, n), make([]float32, n)
		for i := range x {
			x[i], gamma[i] = 4096+float32(i%7)/4, 1
		}
		LayerNorm(y, stats, x, gamma, beta, 1, n, testEps)
		_, scale := normReference(float64s(x))
		if got := float64(stats[1]); math.Abs(got/scale-1) > 1e-6 {
			t.Errorf("1/deviation is %v, want %v", got, scale)
		}
	})
}
