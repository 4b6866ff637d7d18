package gpipe

import (
	"testing"

	"gpipebench/models/gnmt"
)

// TestGNMTG1 is TestG1 for the recurrent translator: scans in both directions and with
// lengths, residual connections, an attention whose result all later layers read, and
// gradients of one table for both embeddings.
func TestGNMTG1(t *testing.T) {
	m := smallTranslation
	pipeline := func(t testing.TB) Pipeline {
		layers, err := gnmt.New(gnmt.Config{
			Layers: 3, Dim: 10, SourceVocab: m.model.SourceVocab, SourceLen: m.model.SourceLen, TargetLen: m.model.TargetLen,
			Shared: true, Dropout: 0.2,
		})
		if err != nil {
			t.Fatal(err)
		}
		p := m.pipeline(t)
		p.Layers = layers
		return p
	}
	checkG1(t, groupsWays([]int{1, 2, 3, 4}, m.batch), m.batch, byGroups, func(t testing.TB, w way) outcome {
		return m.train(t, w.of(pipeline(t)))
	})

	// What sources have beyond their lengths, and targets beyond the last one that counts, changes nothing.
	padded := m
	padded.padding = 5
	if got, want := padded.train(t, pipeline(t)), m.train(t, pipeline(t)); got != want {
		t.Errorf("other padding: got  %v\nwant %v", got, want)
	}
}
