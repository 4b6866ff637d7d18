package kernel

// Profile names the set of kernels in use: "avx512", "avx2" or "generic". It is
// part of every record, since speed depends on it. Bits do not.
//
// It is chosen once, at start, from the processor's features. Setting
// GODEBUG=cpu.avx512f=off (and cpu.avx2=off) masks features, and the build tag
// purego excludes the assembly.
func Profile() string { return profile }
