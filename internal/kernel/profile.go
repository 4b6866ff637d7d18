package kernel

//go:generate go run -C asm ./neon -out ../neon_arm64.s -stubs ../neon_stubs_arm64.go

// Profile names the set of kernels in use: "avx512", "avx2", "neon" or "generic". It is
// part of every record, since speed depends on it. Bits do not.
//
// It is chosen once, at start, from the processor's features. Setting
// GODEBUG=cpu.avx512f=off (and cpu.avx2=off) masks features, and the build tag
// purego excludes the assembly. Every arm64 processor has NEON.
func Profile() string { return profile }
