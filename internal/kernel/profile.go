package kernel

//go:generate go run -C asm ./vector -out ../vector_amd64.s -stubs ../vector_stubs_amd64.go -pkg kernel
//go:generate go run -C asm ./neon -out ../neon_arm64.s -stubs ../neon_stubs_arm64.go

// An implementation has the kernels for a kind of processors. Each platform's implementations
// are those that the processor can run, fastest first; the last is generic.
type implementation struct {
	profile   string
	gemm      gemmTable
	vector    vectorTable
	attention attentionTable
}

var generic = implementation{"generic", genericGemm, genericVector, genericAttention}

// inUse is the fastest implementation that the processor has, and gemm, vector and attention are its tables.
var (
	inUse     = implementations()[0]
	gemm      = inUse.gemm
	vector    = inUse.vector
	attention = inUse.attention
)

// Profile names the set of kernels in use: "avx512", "avx2", "neon" or "generic". It is
// part of every record, since speed depends on it. Bits do not.
//
// It is chosen once, at start, from the processor's features. Setting
// GODEBUG=cpu.avx512f=off (and cpu.avx2=off) masks features, and the build tag
// purego excludes the assembly. Every arm64 processor has NEON.
func Profile() string { return inUse.profile }
