package place

import "testing"

// Pieces on a way that goes to the last device and back.
func TestPieces(t *testing.T) {
	p := NewPieces(3, []int{0, 1, 2, 2, 1, 0})
	if p.Len() != 6 || p.Devices() != 3 {
		t.Fatalf("%d pieces on %d devices", p.Len(), p.Devices())
	}
	want := []Place{{1, 0, 0}, {1, 1, 0}, {1, 2, 0}, {1, 2, 1}, {1, 1, 1}, {1, 0, 1}}
	index := []int{6, 8, 10, 11, 9, 7}
	for s := range p.Len() {
		at := p.At(1, s)
		if at != want[s] || p.Piece(at) != s || p.Index(at) != index[s] || p.On(at.Stage)[at.Chunk] != s {
			t.Errorf("piece %d is at %v, number %d: want %v, %d", s, at, p.Index(at), want[s], index[s])
		}
	}
}
