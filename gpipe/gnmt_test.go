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
	pipeline := func() Pipeline {
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
	want := m.train(t, pipeline())
	want.changes(t)
	everyWay(t, m.batch, func(t *testing.T, w way) {
		if got := m.train(t, w.of(pipeline())); got != want {
			t.Errorf("got  %v\nwant %v", got, want)
		}
	})
	for _, g := range []int{2, 3, 4} {
		p := pipeline()
		p.Groups = g
		want := m.train(t, p)
		everyWayOf(t, groupWays(g, m.batch), m.batch, func(t *testing.T, w way) {
			if got := m.train(t, w.of(pipeline())); got != want {
				t.Errorf("%d groups: got  %v\nwant %v", g, got, want)
			}
		})
	}

	// What sources have beyond their lengths, and targets beyond the last one that counts, changes nothing.
	m.padding = 5
	if got := m.train(t, pipeline()); got != want {
		t.Errorf("other padding: got  %v\nwant %v", got, want)
	}
}
