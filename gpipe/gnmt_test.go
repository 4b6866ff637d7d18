package gpipe

import "testing"

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
	if got, want := padded.train(t, recurrentTranslator(t)), m.train(t, recurrentTranslator(t)); got != want {
		t.Errorf("other padding: got  %v\nwant %v", got, want)
	}
}
