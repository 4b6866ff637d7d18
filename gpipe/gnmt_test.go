package gpipe

import (
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/models/gnmt"
)

// TestGNMTG1 is TestG1 for the recurrent translator: scans in both directions and with
// lengths, residual connections, an attention whose result all later layers read, and
// gradients of one table for both embeddings.
func TestGNMTG1(t *testing.T) {
	m := smallTranslation
	checkG1(t, groupsWays([]int{1, 2, 3, 4}, m.batch), m.batch, byGroups, func(t testing.TB, w way) outcome {
		return m.train(t, w.of(recurrentTranslator(t)))
	})

	// What sources have beyond their lengths, and targets beyond the last one that counts, changes nothing.
	padded := m
	padded.padding = 5
	testkit.Equal(t, padded.train(t, recurrentTranslator(t)), m.train(t, recurrentTranslator(t)), "other padding")
}

// recurrentTranslator is GNMT for the data of smallTranslation.
func recurrentTranslator(t testing.TB) Pipeline {
	t.Helper()
	m := smallTranslation.model
	p := smallTranslation.pipeline(t)
	p.Layers = must(gnmt.New(gnmt.Config{
		Layers: 3, Dim: 10, SourceVocab: m.SourceVocab, SourceLen: m.SourceLen, TargetLen: m.TargetLen, Shared: true, Dropout: 0.2,
	}))(t)
	return p
}
