//go:build (!amd64 && !arm64) || purego

package kernel

// vectorTables returns the tables that this processor can run, fastest first.
func vectorTables() []*vectorTable { return []*vectorTable{&genericVector} }
