//go:build (!amd64 && !arm64) || purego

package kernel

// attentionTables returns the tables that this processor can run, fastest
// first.
func attentionTables() []*attentionTable { return []*attentionTable{&genericAttention} }
