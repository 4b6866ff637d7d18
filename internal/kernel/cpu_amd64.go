//go:build !purego

package kernel

import "golang.org/x/sys/cpu"

var avx512 = implementation{"avx512", avx512Gemm, avx512Vector, avx512Attention}

var avx2 = implementation{"avx2", avx2Gemm, avx2Vector, avx2Attention}

// AVX2 is a condition of every implementation with assembly, since AVX-512 kernels
// may use AVX2 and FMA instructions as well. Masking avx2 therefore leaves the
// generic one, whatever else the processor supports.
func implementations() []*implementation {
	x86 := &cpu.X86
	switch {
	case !x86.HasAVX2 || !x86.HasFMA:
		return []*implementation{&generic}
	case !x86.HasAVX512F || !x86.HasAVX512BW || !x86.HasAVX512VL || !x86.HasAVX512DQ:
		return []*implementation{&avx2, &generic}
	}
	return []*implementation{&avx512, &avx2, &generic}
}
