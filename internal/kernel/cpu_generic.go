//go:build (!amd64 && !arm64) || purego

package kernel

var (
	profile   = "generic"
	hasAVX2   = false
	hasAVX512 = false
)
