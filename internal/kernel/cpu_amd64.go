//go:build !purego

package kernel

import "golang.org/x/sys/cpu"

// hasAVX2 is a condition of every profile with assembly, since AVX-512 kernels
// may use AVX2 and FMA instructions as well. Masking avx2 therefore leaves the
// generic profile, whatever else the processor supports.
var (
	hasAVX2   = cpu.X86.HasAVX2 && cpu.X86.HasFMA
	hasAVX512 = hasAVX2 && cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW &&
		cpu.X86.HasAVX512VL && cpu.X86.HasAVX512DQ
)

var profile = func() string {
	switch {
	case hasAVX512:
		return "avx512"
	case hasAVX2:
		return "avx2"
	}
	return "generic"
}()
