//go:build (!amd64 && !arm64) || purego

package kernel

// gemmTables returns the tables that this processor can run, fastest first.
func gemmTables() []*gemmTable { return []*gemmTable{&genericGemm} }
