//go:build (!amd64 && !arm64) || purego

package kernel

func implementations() []*implementation { return []*implementation{&generic} }
