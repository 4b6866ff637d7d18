//go:build !amd64 || purego

package kernel

// attentionTables returns what this processor can run, fastest first.
func attentionTables() []*attentionTable { return []*attentionTable{&genericAttention} }
