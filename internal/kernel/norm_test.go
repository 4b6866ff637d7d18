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
	statsOut.role, paramSum.role = writes, updates
	return []vectorKernel{
		{
			name: "LayerNorm", byRow: true, aliases: []int{2},
			operands: []operand{{role: writes}, statsOut, {role: reads}, param, param},
			call: func(o [][]float32, c cut) {
				LayerNorm(o[0], o[1], o[2], o[3], o[4], c.rows, c.cols, testEps)
			},
		},
		{
			name: "LayerNormGrad", byRow: true, aliases: []int{1, 2},
			operands: []operand{{role: writes}, {role: reads}, {role: reads}, param, stats},
			call: func(o [][]float32, c cut) {
				LayerNormGrad(o[0], o[1], o[2], o[3], o[4], nil, c.rows, c.cols)
			},
		},
		{
			name: "LayerNormGradAdd", byRow: true, aliases: []int{1, 2, 5},
			operands: []operand{{role: writes}, {role: reads}, {role: reads}, param, stats, {role: reads}},
			call: func(o [][]float32, c cut) {
				LayerNormGrad(o[0], o[1], o[2], o[3], o[4], o[5], c.rows, c.cols)
			},
		},
		{
			name: "LayerNormParamGrad", byRow: true, byColumn: true,
			operands: []operand{paramSum, paramSum, {role: reads}, {role: reads}, stats},
			call: func(o [][]float32, c cut) {
				LayerNormParamGrad(o[0], o[1], o[2], o[3], o[4], c.rows, c.cols, c.ld)
			},
		},
		{
			name: "RMSNorm", byRow: true,
			operands: []operand{{role: writes}, {role: writes, layout: perRow, width: 1}, {role: reads}, param},
			call: func(o [][]float32, c cut) {
				RMSNorm(o[0], o[1], o[2], o[3], c.rows, c.cols, testEps)
			},
		},
		{
			name: "RMSNormGrad", byRow: true, aliases: []int{1},
			operands: []operand{{role: writes}, {role: reads}, {role: reads}, param, {role: reads, layout: perRow, width: 1}},
			call: func(o [][]float32, c cut) {
				RMSNormGrad(o[0], o[1], o[2], o[3], o[4], c.rows, c.cols)
			},
		},
		{
			name: "RMSNormParamGrad", byRow: true, byColumn: true,
			operands: []operand{paramSum, {role: reads}, {role: reads}, {role: reads, layout: perRow, width: 1}},
			call: func(o [][]float32, c cut) {
				RMSNormParamGrad(o[0], o[1], o[2], o[3], c.rows, c.cols, c.ld)
			},
		},
	}
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

// With a single pass, float32 would lose the variance of such a row altogether.
func TestLayerNormOfLargeMean(t *testing.T) {
	eachProfile(t, func(t *testing.T) {
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
